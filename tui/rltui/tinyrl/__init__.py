"""Asynchronous reinforcement learning in four small programs: `python -m rltui.tinyrl` lists them.

Run as programs and imported by nobody: nothing of the manager is imported here, and the manager imports
nothing of this.
"""
