"""Names by which configs and layouts call the roles of a run."""

from __future__ import annotations

from collections.abc import Mapping

TABLES: Mapping[str, frozenset[str]] = {
    "inference": frozenset({"inference", "infer", "vllm"}),
    "trainer": frozenset({"trainer", "train"}),
    "sft": frozenset({"sft"}),
    "orchestrator": frozenset({"orchestrator", "orch"}),
}
"""Role → names of its tables in a config, or of its files if there are several."""
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "inference": ("infer", "vllm"),
    "orchestrator": ("orch",),
    "trainer": ("train", "sft"),
}
"""Role → beginnings of ids by which a layout of one's own may name its component."""
