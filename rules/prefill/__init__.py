"""Rules about reading the prompt: one file each."""

"""Rules about reading the prompt: one file each."""

"""Rules about reading the prompt: one file each."""
