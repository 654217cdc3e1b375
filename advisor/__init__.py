"""For people: the command line, reports and sources around `rules` and `parsers`."""

__version__ = "0.1.0"
