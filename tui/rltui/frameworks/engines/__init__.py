"""Engines: the inference servers that frameworks start, or that somebody else runs, a module each."""
