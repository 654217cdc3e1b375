"""Measurements of this project: against published numbers, and against the clock."""
