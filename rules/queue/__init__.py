"""Rules about waiting for a slot: one file each."""
