"""The run as the supervisor keeps it: checkpoints, evaluations, its row in the index."""
