"""The overview: the verdict, the phase bars, what happens over time, what to change."""
