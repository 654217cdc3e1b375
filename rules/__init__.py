"""Rows to meaning: where the time went, why, what to change, what that saves.

Reads no files, prints nothing, knows no terminal.
"""
