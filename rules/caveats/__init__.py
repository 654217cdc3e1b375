"""Caveats: what the numbers can not be used for. One file each, never advice."""
