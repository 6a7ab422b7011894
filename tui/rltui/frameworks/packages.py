"""Packages whose versions decide what a run does: those of the frameworks, and of the engines below them."""

from __future__ import annotations

MOST_USED = "prime-rl"
"""The framework that rltui is mostly used with: what a machine is said to be ready for."""
LISTED = ("prime-rl", "verifiers", "vllm", "torch")
"""Columns of a list of runs."""
RECORDED = ("prime-rl", "verifiers", "verifiers-rl", "vllm", "torch", "transformers")
"""Stored with each start of a run, besides those that its own framework names."""
ON_NODES = ("torch", "vllm", "transformers", "prime-rl", "verifiers")
"""Compared between the nodes of a run."""
VARIABLES = ("NCCL_", "GLOO_", "TORCH_NCCL_", "VLLM_")
"""Prefixes of variables that they agree by, compared between the nodes of a run."""
