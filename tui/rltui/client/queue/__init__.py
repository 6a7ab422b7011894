"""The queue of runs: `asking.py` is what clients do about it, `keeper.py` minds it.

Its supervisor, `python -m rltui.client.queue`, is a client of those of the experiments, as a person is who
starts one after the other.
"""
