"""What an inference server does with the memory of its devices: vLLM (`facts/vllm.md`, Memory budget). The
embedded engine does the same.
"""

from __future__ import annotations

from rltui.core.gpu.budget import EngineRules, MemoryRule

_REFUSAL = (
    "Free memory on {where} ({{free:.2f}}/{{total:.2f}} GiB) on startup is less than desired GPU memory"
    " utilization ({{utilization}}, {{budget:.2f}} GiB)"
)
_REFUSAL_NOW, _REFUSAL_EARLIER = (
    _REFUSAL.format(where=where) for where in ("device cuda:{device}", "device")
)
RULES = EngineRules(
    "vLLM",
    (
        MemoryRule((0, 21), graphs_in_budget=True, start_refusal=_REFUSAL_NOW),
        MemoryRule((0, 14), graphs_in_budget=False, start_refusal=_REFUSAL_NOW),
        MemoryRule((0, 0), graphs_in_budget=False, start_refusal=_REFUSAL_EARLIER),
    ),
)
"""The last one also stands for versions before 0.10."""
