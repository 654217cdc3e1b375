"""Rules about weights, KV cache and where they sit: one file each."""
