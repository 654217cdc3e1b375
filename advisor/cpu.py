"""The processor of this machine."""

from __future__ import annotations

import platform
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def cpu_name() -> str:
    """The processor's product name, or at least its architecture."""
    name = ""
    if sys.platform == "win32":
        import winreg

        with (
            suppress(OSError),
            winreg.OpenKey(
                winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
            ) as key,
        ):
            name = str(winreg.QueryValueEx(key, "ProcessorNameString")[0])
    elif sys.platform == "darwin":
        with suppress(OSError, subprocess.SubprocessError):
            asked = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            name = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True).stdout
    else:
        with suppress(OSError):
            lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
            name = next((line.partition(":")[2] for line in lines if line.startswith("model name")), "")
    return " ".join(name.split()) or platform.processor() or platform.machine() or "unknown"
