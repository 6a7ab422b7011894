"""A vf-rl file written as the `rl.toml` of prime-rl that does the same, by concepts that both have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rltui.base.toml.values import TomlValue, format_key, format_value
from rltui.core.config.data import apply_edits, value_at
from rltui.core.config.knobs import display
from rltui.core.config.rules import Values
from rltui.frameworks.base import Converted, Framework
from rltui.frameworks.inputs import ConfigFile
from rltui.frameworks.verifiers.files import ARGS

_CONVERTED = {
    "max_steps": "max_steps",
    "max_seq_len": "seq_len",
    "batch_size": "orchestrator.batch_size",
    "rollouts_per_example": "group_size",
    "max_tokens": "max_completion_tokens",
    "temperature": "temperature",
    "learning_rate": "trainer.optim.lr",
    "weight_decay": "trainer.optim.weight_decay",
    "max_grad_norm": "trainer.optim.max_norm",
    "save_steps": "ckpt.interval",
}
"""Argument of `RLConfig` → concept or key of prime-rl. Also where it is the default, which differs."""
_CONVERTED_IF_SET = {
    "top_p": "orchestrator.train.sampling.top_p",
    "top_k": "orchestrator.train.sampling.top_k",
    "min_p": "orchestrator.train.sampling.min_p",
    "adam_beta1": "trainer.optim.betas1",
    "adam_beta2": "trainer.optim.betas2",
    "warmup_steps": "trainer.scheduler.warmup_steps",
    "max_concurrent": "max_inflight",
    "save_total_limit": "ckpt.keep_last",
    "lora_dropout": "trainer.model.lora.dropout",
    "lora_target_modules": "trainer.model.lora.target_modules",
    "lora_modules_to_save": "trainer.model.lora.modules_to_save",
    "seed": "seed",
}
_OF_VLLM = {
    "port": "inference.server.port",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "max_model_len": "max_model_len",
    "max_num_seqs": "inference.vllm.max_num_seqs",
    "enforce_eager": "enforce_eager",
    "tensor_parallel_size": "tensor_parallel",
    "data_parallel_size": "data_parallel",
}
_HANDLED = frozenset(
    {"vllm_server_host", "vllm_server_port", "vllm_server_timeout", "output_dir", "use_lora", "lora_rank",
     "lora_alpha", "run_name", "report_to", "gradient_checkpointing", "lr_scheduler_type", "bf16",
     "logging_steps", "save_strategy", "save_only_model"}
)  # fmt: skip
"""Keys that are handled below, or need no counterpart."""
_SCHEDULERS = frozenset({"constant", "linear", "cosine"})
_PACKING = (
    "micro_batch_size has no counterpart: prime-rl packs rollouts into micro-batches of seq_len tokens; if"
    " memory runs out, lower seq_len or recompute activations"
)
_OTHER_MEANING = {
    "mask_ratio_low": "prime-rl's loss masks with different bounds (trainer.loss)",
    "mask_ratio_high": "prime-rl's loss masks with different bounds (trainer.loss)",
    "max_prompt_len": "prime-rl drops no prompts",
}


def to_prime_rl(file: ConfigFile, values: Values, to: Framework) -> Converted:
    """The config for a generation with one `rl.toml`. `values`: effective value of every knob."""
    base: dict[str, Any] = {
        "model": {"name": values["model"]},
        "orchestrator": {},
        "trainer": {},
        "inference": {},
    }
    assert to.config.names is not None
    names = to.config.names({"rl": ConfigFile("rl", file.path, base)})
    arguments = value_at(file.data, ARGS) or {}
    edits: dict[str, TomlValue] = {}
    notes = [_PACKING]

    def set_key(key: str, value: TomlValue, of: str) -> None:
        """Under what prime-rl calls it here."""
        name = names.get(key)
        if name is None:
            notes.append(f"{of} = {display(value)} has no counterpart in {to.title}")
        elif value is not None:
            edits[name] = value

    for argument, concept in _CONVERTED.items():
        value = values[f"{ARGS}.{argument}"]
        set_key(concept, int(value) if argument == "save_steps" else value, f"{ARGS}.{argument}")
    for argument in (key_ for key_ in arguments if key_ in _CONVERTED_IF_SET):
        set_key(_CONVERTED_IF_SET[argument], arguments[argument], f"{ARGS}.{argument}")
    unmatched = [
        key_
        for key_ in arguments
        if key_ not in {*_CONVERTED, *_CONVERTED_IF_SET, *_HANDLED, "micro_batch_size"}
    ]
    notes += [
        f"{ARGS}.{key_} = {display(arguments[key_], key=key_)} is dropped: "
        + _OTHER_MEANING.get(key_, f"{to.title} has no such knob")
        for key_ in unmatched
    ]
    for key, value in _model_and_devices(values, arguments):
        set_key(key, value, key)
    for argument, value in (value_at(file.data, "inference.args") or {}).items():
        set_key(_OF_VLLM.get(argument, f"{names('vllm')}.{argument}"), value, f"inference.args.{argument}")
    notes += _tracking(values, arguments, set_key)
    entry, more = _environment(file.data, by_sources=names("train_source").endswith(".source"))
    data = apply_edits(base, {**edits, names("train_source"): [entry]})
    header = f"# Converted by rltui from {file.path.rpartition('/')[2]}, a vf-rl config.\n"
    return Converted(header + "".join(_tables("", data)), (*notes, *more))


def _model_and_devices(v: Values, arguments: Mapping[str, Any]) -> Iterator[tuple[str, TomlValue]]:
    yield "deployment.num_infer_gpus", v["inference.gpus"]
    yield "deployment.num_train_gpus", v["trainer.gpus"]
    if v[f"{ARGS}.use_lora"]:
        yield "lora_rank", v[f"{ARGS}.lora_rank"]
        yield "lora_alpha", float(v[f"{ARGS}.lora_alpha"])
    if v[f"{ARGS}.gradient_checkpointing"]:
        yield "trainer.model.ac.freq", 1
    if (scheduler := arguments.get("lr_scheduler_type")) in _SCHEDULERS:
        yield "trainer.scheduler.type", scheduler


def _tracking(
    v: Values, arguments: Mapping[str, Any], set_key: Callable[[str, TomlValue, str], None]
) -> Iterator[str]:
    """W&B is on in vf-rl unless it is turned off."""
    reports = v[f"{ARGS}.report_to"]
    if reports in ("wandb", "all") or (isinstance(reports, list) and "wandb" in reports):
        set_key("wandb_name", v[f"{ARGS}.run_name"] or "vf-rl", f"{ARGS}.run_name")
        yield "W&B is on, as in vf-rl; without a login, remove its table"
    scheduler = arguments.get("lr_scheduler_type")
    if scheduler is not None and scheduler not in _SCHEDULERS:
        schedulers = ", ".join(sorted(_SCHEDULERS))
        yield f"{ARGS}.lr_scheduler_type = {display(scheduler)} is dropped: prime-rl has {schedulers}"


def _environment(data: Mapping[str, Any], *, by_sources: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The entry of the environment, and notes about it."""
    full_id = str(value_at(data, "env.id") or "")
    id_, arguments = full_id.rpartition("/")[2], value_at(data, "env.args") or {}
    if not by_sources:
        return {"id": id_, **({"args": arguments} if arguments else {})}, ()
    agent = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    entry = {"name": id_, "env": {"taskset": {"id": id_, **arguments}, "agent": agent}}
    note = (
        f"{full_id} must be installed as a taskset for the verifiers version of prime-rl; its arguments"
        " may have other names there, and one with tools needs a harness other than null"
    )
    return entry, (note,)


def _tables(path: str, data: Mapping[str, Any]) -> Iterator[str]:
    """The table's own values, then those below it; arrays of tables last."""
    plain = {
        key: value for key, value in data.items() if not isinstance(value, Mapping) and not _is_array(value)
    }
    inner = {key: value for key, value in data.items() if isinstance(value, Mapping)}
    if path and (plain or not data):
        yield f"\n[{path}]\n"
    yield from (f"{format_key((key,))} = {format_value(value)}\n" for key, value in plain.items())
    for key, value in inner.items():
        yield from _tables(_child_path(path, key), value)
    for key, entries in data.items():
        for entry in entries if _is_array(entries) else ():
            entry_path = _child_path(path, key)
            own_values = {name: value for name, value in entry.items() if not isinstance(value, Mapping)}
            yield f"\n[[{entry_path}]]\n"
            yield from (
                f"{format_key((name,))} = {format_value(value)}\n" for name, value in own_values.items()
            )
            for name, value in entry.items():
                if isinstance(value, Mapping):
                    yield from _tables(_child_path(entry_path, name), value)


def _child_path(at: str, key: str) -> str:
    return f"{at}.{format_key((key,))}" if at else format_key((key,))


def _is_array(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
