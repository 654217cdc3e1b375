"""The setup, and where each fact comes from."""
