"""Weights that do not fit: what reading the rest over PCIe or from disk adds to every token."""

from __future__ import annotations

PCIE_GB_S = {3: 12.0, 4: 24.0, 5: 50.0}
"""Rate that copies reach on 16 lanes, by PCIe generation, in 1e9 bytes per second: 76 to 80 % of 15.75, 31.5
and 63 (PCI-SIG)."""

MAPPED_LEAST_GB_S, MAPPED_MOST_GB_S = 0.5, 7.0
"""Sequential reads of a SATA and of a PCIe 4 solid-state disk."""


def spill_ms_per_token(spilled_bytes: float, pcie_gb_s: float) -> float:
    """Time per token for what the driver moved to system memory: it crosses PCIe at every token.

    Windows' driver does so silently (CUDA "Sysmem Fallback"). At least this: page-wise access is slower than
    a copy.

    Args:
        spilled_bytes: Weights, KV cache and buffers beyond the VRAM.
        pcie_gb_s: Rate of the link, such as one of `PCIE_GB_S`.

    Raises:
        ValueError: When the rate is not positive.
    """
    return _read_ms(spilled_bytes, pcie_gb_s)


def paging_ms_per_token(file_bytes: float, free_memory_bytes: float, disk_gb_s: float) -> float:
    """Least time per token for a memory-mapped model larger than memory: what is missing is read again.

    missing bytes / disk rate. The least, because pages are dropped in the order they will be needed: in the
    worst case the whole file is read for every token (20 GB at 1 GB/s: 20 s per token, llama.cpp#711).

    Args:
        file_bytes: Weights read for one token.
        free_memory_bytes: Memory that can hold them.
        disk_gb_s: Read rate of the disk in 1e9 bytes per second.

    Raises:
        ValueError: When the rate is not positive.
    """
    return _read_ms(max(0.0, file_bytes - free_memory_bytes), disk_gb_s)


def paging_worst_ms_per_token(file_bytes: float, free_memory_bytes: float, disk_gb_s: float) -> float:
    """Time per token when paging reads the whole file each time; 0 when the file fits.

    Raises:
        ValueError: When the rate is not positive.
    """
    return _read_ms(file_bytes if file_bytes > free_memory_bytes else 0.0, disk_gb_s)


def _read_ms(size_bytes: float, rate_gb_s: float) -> float:
    if rate_gb_s <= 0:
        raise ValueError("rates must be positive")
    return size_bytes / (rate_gb_s * 1e6)
