"""What clients do about the queue of runs, whose daemon is `rltui.scheduler`."""
