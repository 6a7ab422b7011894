"""The queue's daemon, `python -m rltui.scheduler`: it starts runs that wait, follows and retries them.

It is a client of the experiments' supervisors, as a person is who starts one run after the other.
"""
