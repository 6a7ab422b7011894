"""Memory of the GPUs: readings, owners, what vLLM will claim and what remains for the trainer. All pure."""
