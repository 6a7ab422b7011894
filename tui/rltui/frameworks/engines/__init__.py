"""Engines: the inference servers that frameworks start, or that somebody else runs.

Nothing says which one answers at an address or writes a log: it shows in what it says.
"""

from __future__ import annotations

from rltui.frameworks.engines import vllm

METRICS = vllm.METRICS
"""Names at a server's `/metrics`. The embedded engine has the same."""
RULES = vllm.RULES
"""What a server does with the memory of its devices. The embedded engine does the same."""
