"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

# Whoever runs the tests may have a phasewise.toml of their own, and may have calibrated their machine.
os.environ["XDG_CONFIG_HOME"] = os.environ["APPDATA"] = os.environ["PHASEWISE_CACHE_DIR"] = os.devnull

# How busy the machine is, is no property of the code; and CI judges a change, not its luck with new examples.
settings.register_profile("phasewise", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("phasewise")
