"""Engines: the inference servers that frameworks start, or that somebody else runs, a module per subject.

Nothing says which one answers at an address or writes a log: it shows in what it says.
"""
