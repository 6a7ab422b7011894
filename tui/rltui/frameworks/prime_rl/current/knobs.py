"""What can be turned in the files of this generation, and what it is where nobody turned it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rltui.core.knobs import Knob, TomlValue
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl.current import knobs_inference, knobs_orchestrator, knobs_sft
from rltui.frameworks.prime_rl.current.conflicts import SHARED as SHARED_KEYS
from rltui.frameworks.prime_rl.current.knobs_orchestrator import BATCH
from rltui.frameworks.prime_rl.current.knobs_shared import SHARED
from rltui.frameworks.prime_rl.current.knobs_trainer import TRAINER_KNOBS, WHEN_THERE
from rltui.frameworks.prime_rl.current.shape import NONE
from rltui.frameworks.prime_rl.current.sources import source_defaults, source_knobs
from rltui.frameworks.prime_rl.current.spelling import spelled, switches
from rltui.frameworks.prime_rl.knob_tables import Follows, given

KNOBS: tuple[Knob, ...] = (
    *SHARED,
    *knobs_orchestrator.KNOBS,
    *TRAINER_KNOBS,
    *knobs_inference.KNOBS,
    *knobs_sft.KNOBS,
)
BY_NAME = {knob.name: knob for knob in KNOBS}
_TRANSPORT = "rollout_transport.type"
FOLLOWS = Follows(
    shared={
        key: tuple(sub for sub in subs if sub in BY_NAME)
        for key, subs in SHARED_KEYS.items()
        if key in BY_NAME
    }
    | {
        _TRANSPORT: (f"trainer.{_TRANSPORT}", f"orchestrator.{_TRANSPORT}"),
        "sft.model.name": ("sft.inference.vllm.model",),
    },
    table=WHEN_THERE,
)
DEFAULT_BATCH = 128
"""Rollouts, where the file says neither how many nor how many tokens."""
_ENGINE_ABOVE_ROUTER = 100
_OFF = {
    "rl": ("orchestrator.eval", "orchestrator.heartbeat", "trainer.heartbeat", "trainer.metrics_server"),
    "sft": ("eval",),
}
"""Tables that are off unless the file has them: what lies in them has no value then."""
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""vLLM takes no others; prime-rl rounds up to them (`VALID_VLLM_LORA_RANKS`)."""
_MUON_BETAS2 = 0.95


def defaults(files: ConfigFiles) -> Mapping[str, Any]:
    """Defaults that follow from other values, as the models of prime-rl fill them in."""
    found: dict[str, TomlValue] = {
        name: None
        for table, is_on in switches(files).items() if not is_on
        for name in BY_NAME if name.startswith(f"{table}.")
    }  # fmt: skip
    files = spelled(files)
    for role, prefix in (("rl", ""), ("sft", "sft.")):
        if role in files:
            off = tuple(f"{prefix}{table}." for table in _OFF[role] if not is_there(files[role].data, table))
            found |= dict.fromkeys((name for name in BY_NAME if name.startswith(off)), None)
    found |= FOLLOWS.defaults(files, BY_NAME)

    def value(name: str) -> TomlValue:
        """What holds so far."""
        held = given(files, BY_NAME[name])
        return held if held is not None else found.get(name, BY_NAME[name].default)

    if "rl" in files:
        found |= _of_rl(files["rl"].data, value)
    for role, at in (("rl", ""), ("sft", "sft.")):
        if role in files and is_there(files[role].data, "inference"):
            found |= _of_inference(at, value)
            if value_at(files[role].data, "inference.router") == NONE:
                found[f"{at}inference.router.type"] = NONE
    if "sft" in files and is_there(files["sft"].data, "eval"):
        found["sft.weight_broadcast.type"] = _broadcast(files["sft"].data, "model.lora")
    for role, optim in (("rl", "trainer.optim"), ("sft", "sft.optim")):
        if role in files and value(f"{optim}.type") == "muon":
            found[f"{optim}.betas2"] = _MUON_BETAS2
    return found | source_defaults(files)


def more_knobs(files: ConfigFiles) -> tuple[Knob, ...]:
    """What can be turned for each environment source alone."""
    return source_knobs(spelled(files))


def is_there(data: Mapping[str, Any], table: str) -> bool:
    """Whether a table that is off by default is there, if only an empty one."""
    return isinstance(value_at(data, table), Mapping)


Lookup = Callable[[str], TomlValue]


def _of_rl(data: Mapping[str, Any], value: Lookup) -> dict[str, TomlValue]:
    found: dict[str, TomlValue] = {}
    if value_at(data, BATCH.token_batch_size) is None:
        found[BATCH.batch_size] = DEFAULT_BATCH
    ranks, shared = value("deployment.num_train_gpus"), max(1, value("trainer.model.cp"))
    if ranks > 1:
        found["orchestrator.num_train_workers"] = ranks // shared
    found["orchestrator.pad_to_multiple_of"] = shared
    found["weight_broadcast.type"] = _broadcast(data, "trainer.model.lora")
    found["rollout_transport.type"] = value("trainer.rollout_transport.type")
    if is_there(data, "trainer.model.lora"):
        rank = value("trainer.model.lora.rank")
        found["orchestrator.model.lora.rank"] = rank
        found["orchestrator.model.lora.alpha"] = value("trainer.model.lora.alpha")
        if is_there(data, "inference"):
            fitting = (each for each in _LORA_RANKS if isinstance(rank, int) and each >= rank)
            found["inference.vllm.enable_lora"] = True
            found["inference.vllm.max_lora_rank"] = next(fitting, rank)
    return found


def _broadcast(data: Mapping[str, Any], lora: str) -> str:
    """What is taken where the file does not say: adapters, and servers of others, only read files."""
    return "nccl" if is_there(data, "inference") and not is_there(data, lora) else "filesystem"


def _of_inference(at: str, value: Lookup) -> dict[str, TomlValue]:
    gpus, tensor = value(f"{at}deployment.num_infer_gpus"), value(f"{at}inference.vllm.tensor_parallel_size")
    copies = value(f"{at}inference.vllm.data_parallel_size")
    if gpus % tensor == 0:
        copies = gpus // tensor
    return {
        f"{at}inference.backend_port": value(f"{at}inference.server.port") + _ENGINE_ABOVE_ROUTER,
        f"{at}inference.vllm.data_parallel_size": copies,
        f"{at}inference.vllm.api_server_count": 1
        if value(f"{at}inference.vllm.enable_lora")
        else max(1, copies),
    }
