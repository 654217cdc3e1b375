"""The same `Analysis`, drawn for a terminal or as Markdown."""
