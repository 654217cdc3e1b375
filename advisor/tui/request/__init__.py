"""One request: its timeline, its neighbours, its findings, its lines in the log."""
