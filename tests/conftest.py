"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("phasewise", deadline=None)  # how busy the machine is, is no property of the code
settings.load_profile("phasewise")
