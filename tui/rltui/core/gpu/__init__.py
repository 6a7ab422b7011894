"""GPU memory: what is read, whose it is, what vLLM will take, what is left for the trainer. All pure."""
