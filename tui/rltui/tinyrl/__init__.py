"""Asynchronous reinforcement learning in four small programs: `python -m rltui.tinyrl` lists them.

Run as programs: nothing of the manager is imported here, and the manager imports nothing of this but the
models of the config files, which need neither torch nor transformers.
"""
