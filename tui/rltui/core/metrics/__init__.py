"""Values of a run over its steps, and what they say about its health. Pure."""
