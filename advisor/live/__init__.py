"""A log that is still being written: its rows as they come, their totals, and what they mean."""
