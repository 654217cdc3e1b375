"""Rules about loading the model: one file each."""
