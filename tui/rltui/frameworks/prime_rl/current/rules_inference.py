"""Rules of `[inference]`, in both kinds of files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.frameworks.prime_rl.current.rules_model import fault_if
from rltui.frameworks.rule_makers import Values, is_on, nearest_multiples
from rltui.frameworks.schemas import Rule


def inference_rules(at: str, *, also_slurm: bool) -> tuple[Rule, ...]:
    """`at`: nothing or `sft.`. `also_slurm`: the shared `[slurm]` counts for inference too."""
    base = f"{at}inference"
    gpus, tensor = f"{at}deployment.num_infer_gpus", f"{base}.vllm.tensor_parallel_size"
    copies, offload, caching = (
        f"{base}.vllm.data_parallel_size", f"{base}.kv_cache_offload", f"{base}.vllm.enable_prefix_caching",
    )  # fmt: skip

    def table(v: Values, name: str) -> Mapping[str, Any]:
        found = v.get(f"{base}.{name}")
        return found if isinstance(found, Mapping) else {}

    def is_there(v: Values) -> bool:
        return is_on(v.get(base))

    def has_slurm(v: Values) -> bool:
        return is_on(v.get(f"{base}.slurm")) or (also_slurm and is_on(v.get("slurm")))

    def spread(v: Values) -> bool:
        return bool(table(v, "deployment").get("type", "single_node") != "single_node")

    single = f"{at}deployment.type"
    return (
        fault_if(
            gpus, (tensor, copies, single),
            lambda v: is_there(v) and v[single] == "single_node" and v[gpus] % v[tensor] != 0,
            lambda v: f"{gpus} ({v[gpus]}) must be divisible by {tensor} ({v[tensor]}): nearest valid "
            f"num_infer_gpus is {nearest_multiples(v[gpus], v[tensor])}",
        ),
        fault_if(
            copies, (gpus, tensor, single),
            lambda v: is_there(v) and v[single] == "single_node" and v[gpus] % v[tensor] == 0
            and "data_parallel_size" in table(v, "vllm") and v[copies] * v[tensor] != v[gpus],
            lambda v: f"{copies} ({v[copies]}) is not read: {gpus} ({v[gpus]}) / {tensor} ({v[tensor]}) = "
            f"{v[gpus] // v[tensor]} copies fill the GPUs",
            "warning",
        ),
        fault_if(
            offload, (caching,), lambda v: is_on(v.get(offload)) and v[caching] is False,
            f"{offload} needs {caching}, which is false: remove one of them",
        ),
        fault_if(
            offload, (),
            lambda v: is_on(v.get(offload)) and not is_on(table(v, "kv_cache_offload").get("cpu")),
            f"{offload} needs a table cpu: host memory comes before the disk",
        ),
        fault_if(
            offload, (), lambda v: at == "" and table(v, "kv_cache_offload").get("type") == "mooncake"
            and not is_on(v.get("slurm")),
            f"{offload}.type mooncake needs [slurm], which starts its stores: use native",
        ),
        fault_if(
            f"{base}.deployment", (), lambda v: spread(v) and not has_slurm(v),
            lambda v: f"{base}.deployment.type {table(v, 'deployment').get('type')} needs [slurm]",
        ),
        fault_if(
            f"{base}.router.type", (), lambda v: is_there(v) and table(v, "router").get("type") == "llm-d"
            and not spread(v),
            f"{base}.router.type llm-d needs {base}.deployment.type multi_node or disaggregated: "
            f"use vllm-router",
        ),
    )  # fmt: skip
