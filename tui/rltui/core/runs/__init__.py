"""Runs as they are listed, compared, continued and evaluated. Pure."""
