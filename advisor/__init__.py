"""For people: the command line, reports and sources around `rules` and `parsers`."""
