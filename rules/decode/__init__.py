"""Rules about generating tokens: one file each."""
