"""Rules about memory: what fits, what is wasted, what runs out."""
