"""The screens: `phasewise tail` and `phasewise tui`."""
