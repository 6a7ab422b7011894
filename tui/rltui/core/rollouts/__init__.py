"""Prompts with the model's answers and their rewards. Pure."""
