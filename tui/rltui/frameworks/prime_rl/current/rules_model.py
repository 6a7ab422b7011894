"""Rules on model, optimizer and scheduler of both trainers, as the trainer's config models have them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rltui.core.knobs import shown
from rltui.frameworks.grammar import Severity
from rltui.frameworks.prime_rl.trainer_rules import offload_rules
from rltui.frameworks.rule_makers import Values, is_on, not_both, requires, when
from rltui.frameworks.schemas import Rule

OWN = ("custom", "auto")
"""Values of `impl` with which prime-rl's own code of a model may be used."""
_BLACKWELL = ("flash_attention_4", "auto")
_LONGEST_TRACE = 10


def fault_if(
    key: str,
    needs: Collection[str],
    condition: Callable[[Values], bool],
    message: str | Callable[[Values], str],
    severity: Severity = "error",
) -> Rule:
    """A rule from a condition under which it does not hold, and what is said then."""

    def fault(v: Values) -> str | None:
        if not condition(v):
            return None
        return message if isinstance(message, str) else message(v)

    return Rule(key, (key, *needs), fault, severity)


def model_rules(at: str) -> tuple[Rule, ...]:
    """`at`: what the names begin with, `trainer.` or `sft.`."""
    model, optim = f"{at}model", f"{at}optim"
    impl, lora, vlm = f"{model}.impl", f"{model}.lora", f"{model}.vlm"
    full, fsdp, optim_cpu = f"{model}.full_offload", f"{model}.fsdp_cpu_offload", f"{model}.optim_cpu_offload"
    return (
        fault_if(
            fsdp, (optim_cpu,), lambda v: v[fsdp] and v[optim_cpu],
            f"{fsdp} and {optim_cpu} cannot be on together, and the latter is unless it is set: "
            f"set {optim_cpu} = false, or remove {fsdp}",
        ),
        not_both(fsdp, full, why="each moves the optimizer's state to the CPU"),
        fault_if(
            full, (optim_cpu,), lambda v: is_on(v.get(full)) and v[optim_cpu],
            f"{full} and {optim_cpu} cannot be on together, and the latter is unless it is set: "
            f"set {optim_cpu} = false, or remove {full}",
        ),
        requires(full, f"{optim}.type", "adamw", "sign_sgd"),
        fault_if(
            full, (f"{optim}.max_norm",), lambda v: is_on(v.get(full)) and v[f"{optim}.max_norm"] is not None,
            lambda v: f"{full} switches gradient clipping off: {optim}.max_norm "
            f"({v[f'{optim}.max_norm']:g}) is not used",
            "hint",
        ),
        *offload_rules(model, optim),
        fault_if(
            f"{model}.attn", (impl,), lambda v: v[impl] == "hf" and v[f"{model}.attn"] in _BLACKWELL,
            lambda v: f"{model}.attn ({shown(v[f'{model}.attn'])}) needs {impl} to be custom or auto, not "
            f"hf: set attn to flash_attention_2 or flash_attention_3, or change impl",
        ),
        requires(f"{model}.quantization", impl, *OWN),
        requires(f"{model}.ep", impl, *OWN),
        requires(f"{model}.cp", impl, *OWN),
        when(requires(f"{model}.ac", impl, *OWN), lambda v: v[f"{model}.ac.mode"] == "selective",
             also=(f"{model}.ac.mode",)),
        fault_if(
            f"{model}.trust_remote_code", (impl,),
            lambda v: v[f"{model}.trust_remote_code"] and v[impl] == "custom",
            f"{model}.trust_remote_code runs the model's own code, and {impl} is custom: "
            f"set impl to hf or auto",
        ),
        fault_if(
            f"{model}.ep_comm_backend", (f"{model}.ep",),
            lambda v: v[f"{model}.ep_comm_backend"] != "torch" and v[f"{model}.ep"] is not None
            and v[f"{model}.ep"] <= 1,
            lambda v: f"{model}.ep_comm_backend ({shown(v[f'{model}.ep_comm_backend'])}) needs {model}.ep "
            f"({v[f'{model}.ep']}) above 1: raise it, or leave it out",
        ),
        fault_if(
            f"{model}.quantization.type", (f"{model}.ep_comm_backend",),
            lambda v: v[f"{model}.quantization.type"] == "mxfp8" and v[f"{model}.ep_comm_backend"] != "torch",
            lambda v: f'{model}.quantization.type "mxfp8" needs {model}.ep_comm_backend to be torch, not '
            f"{shown(v[f'{model}.ep_comm_backend'])}",
        ),
        fault_if(
            f"{model}.ac_offloading", (),
            lambda v: v[f"{model}.ac_offloading"] and not v[f"{model}.ac"],
            f'{model}.ac = "None" has no effect while {model}.ac_offloading is on, which it is '
            f'unless it is "None" too: activation checkpointing stays on',
            "warning",
        ),
        *_vlm_rules(at, vlm, lora),
        *_scheduler_rules(f"{at}scheduler", f"{at}max_steps"),
        _short_trace(f"{at}trace_path", f"{at}max_steps"),
    )  # fmt: skip


def _vlm_rules(at: str, vlm: str, lora: str) -> tuple[Rule, ...]:
    model = f"{at}model"
    dtypes = (f"{model}.optimization_dtype", f"{model}.reduce_dtype")

    def is_frozen(v: Values) -> bool:
        table = v.get(vlm)
        return not isinstance(table, Mapping) or bool(table.get("freeze_vision_encoder", True))

    return (
        requires(vlm, f"{model}.impl", "custom"),
        when(requires(vlm, f"{model}.cp_style", "ulysses"), lambda v: v[f"{model}.cp"] > 1,
             also=(f"{model}.cp",)),
        *(requires(vlm, dtype, "bfloat16") for dtype in dtypes),
        fault_if(
            vlm, (lora,), lambda v: is_on(v.get(lora)) and not is_frozen(v),
            f"{vlm}.freeze_vision_encoder = false cannot be used with {lora}, which freezes all "
            f"but its own matrices: remove one of them",
        ),
    )  # fmt: skip


def _scheduler_rules(at: str, max_steps: str) -> tuple[Rule, ...]:
    kind, warmup, decay = f"{at}.type", f"{at}.warmup_steps", f"{at}.decay_steps"

    def is_linear(v: Values) -> bool:
        return bool(v[kind] == "linear")

    def needs_end(v: Values) -> bool:
        return bool(v[kind] == "cosine" or (is_linear(v) and v[decay] > 0))

    def is_too_short(v: Values) -> bool:
        if v[max_steps] is None:
            return False
        if v[kind] == "cosine":
            return bool(v[warmup] >= v[max_steps])
        return bool(is_linear(v) and v[decay] > 0 and v[warmup] + v[decay] > v[max_steps])

    def arithmetic(v: Values) -> str:
        if v[kind] == "cosine":
            return f"{warmup} ({v[warmup]}) must be less than max_steps ({v[max_steps]})"
        return (
            f"{warmup} ({v[warmup]}) + {decay} ({v[decay]}) = {v[warmup] + v[decay]} must be at most "
            f"max_steps ({v[max_steps]}): lower one of them by {v[warmup] + v[decay] - v[max_steps]}, "
            f"or raise max_steps"
        )

    return (
        fault_if(
            kind, (warmup, decay), lambda v: is_linear(v) and v[warmup] == v[decay] == 0,
            f"{kind} linear needs {warmup} or {decay} above 0: use constant instead",
        ),
        fault_if(
            kind, (decay, max_steps), lambda v: needs_end(v) and v[max_steps] is None,
            lambda v: f"{kind} {v[kind]} needs max_steps, to know where the run ends",
        ),
        fault_if(warmup, (kind, decay, max_steps), is_too_short, arithmetic),
    )  # fmt: skip


def _short_trace(path: str, max_steps: str) -> Rule:
    def fault(v: Mapping[str, Any]) -> str | None:
        if not v[path] or (v[max_steps] is not None and v[max_steps] < _LONGEST_TRACE):
            return None
        steps = "not set" if v[max_steps] is None else v[max_steps]
        return f"{path} needs max_steps ({steps}) below {_LONGEST_TRACE}: a trace of more steps is huge"

    return Rule(path, (path, max_steps), fault)
