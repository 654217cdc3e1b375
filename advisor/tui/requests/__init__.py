"""The table of requests."""
