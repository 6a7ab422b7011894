"""The GPUs: what NVML reads, whose memory it is, what other hosts say, what a start will need."""
