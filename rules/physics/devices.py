"""Memory bandwidth and class of a device, found by the name that a log prints."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

DeviceClass = Literal["geforce", "workstation", "datacenter", "apple", "amd", "strix", "cpu", "other"]

_GIB = 2**30
_MEMORY_LOW, _MEMORY_HIGH = 0.85, 1.05
"""Memory that a log states, over the size a card is sold with: part may be reserved or in use."""

_BRANDS = {
    "nvidia": "NVIDIA",
    "geforce": "NVIDIA",
    "tesla": "NVIDIA",
    "amd": "AMD",
    "radeon": "AMD",
    "instinct": "AMD",
    "intel": "Intel",
    "arc": "Intel",
    "apple": "Apple",
}
_BRAND = re.compile(rf"\b(?:{'|'.join(_BRANDS)})\b")
_FILLER = re.compile(r"\b(?:graphics|gpu)\b|\((?:tm|r)\)")
_GFX = re.compile(r"\bgfx[0-9a-f]{3,4}\b")
_GPU_CORES = re.compile(r"\b(\d+)[- ]core gpu\b")
_TRAILING_MEMORY = re.compile(r"^(.+) (\d+) ?gb$")


@dataclass(frozen=True, slots=True)
class Device:
    """What is known of a device.

    Attributes:
        name: Full product name, or the name asked for when it covers several products.
        vendor: NVIDIA, AMD, Apple or Intel.
        device_class: Selects the constants of `decode.decode_constants`. GDDR server cards count as
            `workstation`, HBM ones as `datacenter`; `other` has no fit. No name gives `cpu`: its bandwidth
            depends on the memory modules.
        bandwidth_bounds_gb_s: Lowest and highest peak bandwidth, in 1e9 bytes per second, of the parts that
            the name covers; the same twice when there is one figure.
        memory_gb: Memory in GiB, where it is listed; always where it tells parts of one name apart.
        laptop: A laptop part: lower power limit, sometimes slower memory than listed.
        source: Where the figures are from.
        tensor_tflops: Dense FP16 tensor throughput with FP32 accumulation, in 1e12 operations per second;
            None where no data sheet gives it.
    """

    name: str
    vendor: str
    device_class: DeviceClass
    bandwidth_bounds_gb_s: tuple[float, float]
    memory_gb: float | None
    laptop: bool
    source: str
    tensor_tflops: float | None = None

    @property
    def bandwidth_gb_s(self) -> float | None:
        """Peak bandwidth; None when the name covers parts that differ."""
        low, high = self.bandwidth_bounds_gb_s
        return low if low == high else None

    @property
    def bandwidth_range_gb_s(self) -> tuple[float, float] | None:
        """Lowest and highest peak bandwidth of parts that differ; None when there is one figure."""
        return None if self.bandwidth_gb_s is not None else self.bandwidth_bounds_gb_s


def find_device(name: str, memory_bytes: float | None = None) -> Device | None:
    """The device behind a name as logs print it or users write it.

    Understands driver names ("NVIDIA GeForce RTX 4090"), bracket tails ("(RADV NAVI31) (radv)"), what follows
    a comma (", compute capability 8.9"), a memory size in the name ("RTX 3060 12GB"), GPU core counts of
    Apple chips, and gfx ids where the driver names no product. Only whole names match: a laptop or "Ti" part
    is never taken for another.

    Args:
        name: Device name.
        memory_bytes: Total memory of the device, to tell apart parts that share a name.

    Returns:
        None for a device that is not listed. When the name fits parts of different bandwidth, a device
        without `bandwidth_gb_s` but with its range.
    """
    vendors = {_BRANDS[brand] for brand in _BRAND.findall(name.lower())}
    for key, named_gib in _keys(name):
        matches = [device for device in _index().get(key, ()) if not vendors or device.vendor in vendors]
        if matches:
            memory_gib = memory_bytes / _GIB if memory_bytes else named_gib
            return _merge(name, _of_memory(matches, memory_gib))
    return None


def _keys(name: str) -> list[tuple[str, float | None]]:
    """Index keys to try for a name, best first, each with the memory in GiB that it names."""
    lowered = name.lower()
    key = _key(re.split(r"[,(|]", _FILLER.sub(" ", lowered))[0])
    keys: list[tuple[str, float | None]] = [(key, None)]
    if cores := _GPU_CORES.search(lowered):
        keys.insert(0, (f"{key} {cores[1]} core", None))
    if sized := _TRAILING_MEMORY.match(key):
        keys.append((sized[1], float(sized[2])))
    return keys + [(gfx, None) for gfx in _GFX.findall(lowered)]


def _key(text: str) -> str:
    """A name without brand, filler and punctuation; "Mobile" is another driver's word for a laptop part."""
    words = _BRAND.sub(" ", _FILLER.sub(" ", text.lower()))
    words = re.sub(r"[^a-z0-9+]+", " ", words).strip()
    words = re.sub(r"\bmobile\b", "laptop", words)
    return re.sub(r"\b(rtx|gtx|rx)(?=\d)", r"\1 ", words)


def _of_memory(devices: list[Device], memory_gib: float | None) -> list[Device]:
    """Those whose memory is nearest to a stated size; all of them when none is near."""
    if memory_gib is None:
        return devices
    distance = {
        device.memory_gb: abs(memory_gib - device.memory_gb)
        for device in devices
        if device.memory_gb and _MEMORY_LOW <= memory_gib / device.memory_gb <= _MEMORY_HIGH
    }
    if not distance:
        return devices
    nearest = min(distance, key=distance.__getitem__)
    return [device for device in devices if device.memory_gb == nearest]


def _merge(name: str, devices: list[Device]) -> Device:
    """One device for all that a name may mean."""
    first = devices[0]
    if len(devices) == 1:
        return first
    bounds = [bound for device in devices for bound in device.bandwidth_bounds_gb_s]
    return Device(
        name=name.split(",")[0].strip(),
        vendor=first.vendor,
        device_class=first.device_class,
        bandwidth_bounds_gb_s=(min(bounds), max(bounds)),
        memory_gb=None,
        laptop=first.laptop,
        source="; ".join(dict.fromkeys(device.source for device in devices)),
    )


@cache
def _index() -> dict[str, tuple[Device, ...]]:
    """Devices by key; parts that share a name or an alias share an entry."""
    index: dict[str, tuple[Device, ...]] = {}
    facts = tomllib.loads(files(__package__).joinpath("devices.toml").read_text("utf-8"))
    for group in facts["group"]:
        for row in group["devices"]:
            device = _device(group, row)
            for key in dict.fromkeys(_key(text) for text in (row["name"], *row.get("aliases", ()))):
                index[key] = (*index.get(key, ()), device)
    return index


def _device(group: dict[str, Any], row: dict[str, Any]) -> Device:
    low, high = row.get("bandwidth_range_gb_s") or (row["bandwidth_gb_s"], row["bandwidth_gb_s"])
    return Device(
        name=group["prefix"] + row["name"],
        vendor=group["vendor"],
        device_class=group["class"],
        bandwidth_bounds_gb_s=(float(low), float(high)),
        memory_gb=row.get("memory_gb"),
        laptop=group.get("laptop", False),
        source=group["source"],
        tensor_tflops=row.get("tensor_tflops"),
    )
