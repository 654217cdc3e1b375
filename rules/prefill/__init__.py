"""Rules about reading the prompt: one file each."""
