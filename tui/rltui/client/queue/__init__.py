"""Client side of the queue of runs, whose daemon is `rltui.scheduler`."""
