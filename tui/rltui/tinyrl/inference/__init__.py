"""The inference server: one engine thread behind an OpenAI-style HTTP front."""
