"""Health of a run: rules over its metrics, their findings, first affected steps, and advice. Pure."""
