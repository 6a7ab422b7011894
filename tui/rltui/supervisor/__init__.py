"""The supervisor of one experiment, and its parts: all live on its event loop.

A method is called in a thread only where it says so; what blocks is asked in one.
"""
