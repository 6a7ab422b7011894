"""How many GPUs there are, and what they are used for."""

from __future__ import annotations

from rltui.frameworks.rule_makers import Values, is_on, nearest_multiples, not_both, own
from rltui.frameworks.schemas import Rule

_TYPE = "deployment.type"
_TRAIN, _INFER = "deployment.num_train_gpus", "deployment.num_infer_gpus"
_TEACHER, _NODE = "deployment.num_teacher_gpus", "deployment.gpus_per_node"
_TRAIN_IDS, _INFER_IDS = "trainer_gpu_ids", "inference_gpu_ids"
_TP = "inference.parallel.tp"
_COUNTS = (_TYPE, _TRAIN, _INFER, _TRAIN_IDS, _INFER_IDS)


def _by_number(v: Values) -> bool:
    """Whether the file is from before `[deployment]`."""
    return v[_TRAIN_IDS] is not None or v[_INFER_IDS] is not None


def _gpus_of_inference(v: Values) -> int:
    if not _by_number(v):
        return int(v[_INFER])
    return len(v[_INFER_IDS]) if v[_INFER_IDS] is not None else 1


def _all_gpus(v: Values) -> int:
    if not _by_number(v):
        return int(v[_TRAIN]) + int(v[_INFER])
    infer = v[_INFER_IDS] if v[_INFER_IDS] is not None else [0]
    train = v[_TRAIN_IDS] if v[_TRAIN_IDS] is not None else [1]
    return len({str(number) for number in (*infer, *train)})


def _fit_the_node(v: Values) -> str | None:
    teacher = v[_TEACHER] or 0
    total = v[_TRAIN] + v[_INFER] + teacher
    if v[_TYPE] != "single_node" or total <= v[_NODE]:
        return None
    parts = f"{_TRAIN} ({v[_TRAIN]}) + {_INFER} ({v[_INFER]})"
    parts += f" + {_TEACHER} ({teacher})" if teacher else ""
    return f"{parts} = {total} GPUs exceed {_NODE} ({v[_NODE]}): lower them, or set {_NODE} to {total}"


def _whole_copies(v: Values) -> str | None:
    gpus, tp = _gpus_of_inference(v), v[_TP]
    if v[_TYPE] != "single_node" or "inference" not in v or gpus % tp == 0:
        return None
    name = _INFER_IDS if _by_number(v) else _INFER
    return (
        f"{name} ({gpus} GPUs) must be divisible by {_TP} ({tp}): "
        f"nearest valid number of GPUs is {nearest_multiples(gpus, tp)}"
    )


def _two_for_nccl(v: Values) -> str | None:
    kind = "trainer.weight_broadcast.type"
    if v[_TYPE] != "single_node" or v[kind] != "nccl" or _all_gpus(v) >= 2:
        return None
    return f"{kind} (nccl) needs at least 2 GPUs, not {_all_gpus(v)}: take filesystem, or another GPU"


def _slurm_for_nodes(name: str, slurm: str) -> Rule:
    def fault(v: Values) -> str | None:
        if v[name] != "multi_node" or is_on(v.get(slurm)):
            return None
        return f"{name} (multi_node) needs [{slurm}]: add the table, or take single_node"

    return Rule(name, (name, slurm), fault)


def _nodes_named(v: Values) -> str | None:
    if v[_TYPE] != "multi_node":
        return None
    names = ("deployment.num_train_nodes", "deployment.num_infer_nodes")
    lacking = [name for name in names if own(v, name) is None]
    return f"{_TYPE} (multi_node) needs {' and '.join(lacking)}" if lacking else None


def _sft_fits(v: Values) -> str | None:
    gpus, node = v["sft.deployment.num_gpus"], v["sft.deployment.gpus_per_node"]
    if v["sft.deployment.type"] != "single_node" or gpus <= node:
        return None
    return (
        f"sft.deployment.num_gpus ({gpus}) exceeds sft.deployment.gpus_per_node ({node}): "
        f"lower it to {node}, or raise gpus_per_node"
    )


RL_GPU_RULES = (
    Rule(_NODE, (_TYPE, _TRAIN, _INFER, _TEACHER, _NODE), _fit_the_node),
    Rule(_TP, (*_COUNTS, _TP), _whole_copies),
    Rule("trainer.weight_broadcast.type", ("trainer.weight_broadcast.type", *_COUNTS), _two_for_nccl),
    _slurm_for_nodes(_TYPE, "slurm"),
    Rule(_TYPE, (_TYPE,), _nodes_named),
    not_both(_TRAIN_IDS, "deployment", why="no release reads both"),
    not_both(_INFER_IDS, "deployment", why="no release reads both"),
)
SFT_GPU_RULES = (
    Rule(
        "sft.deployment.num_gpus",
        ("sft.deployment.num_gpus", "sft.deployment.gpus_per_node", "sft.deployment.type"),
        _sft_fits,
    ),
    _slurm_for_nodes("sft.deployment.type", "sft.slurm"),
)
