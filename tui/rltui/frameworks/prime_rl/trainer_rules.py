"""Rules of the tables that every trainer has; the names of the tables go in."""

from __future__ import annotations

from rltui.frameworks.rule_makers import Values, below, needs, not_both, own, read_with, requires
from rltui.frameworks.schemas import Rule

_TRACED_STEPS = 10
_FUSED_TOKENS = 512


def tracing(trace: str, steps: str) -> Rule:
    """A profile needs a short run, as its own table says; a shared number of steps comes too late."""

    def fault(v: Values) -> str | None:
        count = own(v, steps)
        if v[trace] is None or (count is not None and count < _TRACED_STEPS):
            return None
        now = "not set" if count is None else count
        return f"{trace} needs {steps} ({now}) below {_TRACED_STEPS}: set it to {_TRACED_STEPS - 1} or less"

    return Rule(trace, (trace, steps), fault)


def offload_rules(model: str, optim: str) -> tuple[Rule, ...]:
    """What cannot be moved to main memory."""
    kind, offload = f"{optim}.type", f"{model}.fsdp_cpu_offload"

    def fault(v: Values) -> str | None:
        if v[kind] != "muon" or not v[offload]:
            return None
        return f"{kind} (muon) does not work with {offload}: turn it off, or take adamw"

    return (Rule(kind, (kind, offload), fault),)


def adapter_rules(ckpt: str, lora: str) -> tuple[Rule, ...]:
    """LoRA weights can only be saved where there are some."""
    name = f"{ckpt}.weights.save_adapter_separately"
    return (needs(name, lora, why="since there are no LoRA weights without it"),)


def schedule_rules(scheduler: str) -> tuple[Rule, ...]:
    """Keys that one kind of schedule has and another drops."""
    kind = f"{scheduler}.type"
    return (
        read_with(f"{scheduler}.warmup_steps", kind, "linear", "cosine"),
        read_with(f"{scheduler}.decay_steps", kind, "linear"),
        read_with(f"{scheduler}.min_lr", kind, "linear", "cosine"),
    )


def optimizer_rules(optim: str) -> tuple[Rule, ...]:
    """Keys that one optimizer has and another drops."""
    kind = f"{optim}.type"
    return (
        read_with(f"{optim}.betas1", kind, "adamw"),
        read_with(f"{optim}.betas2", kind, "adamw", "muon"),
    )


def warmup_fits(scheduler: str, steps: str) -> Rule:
    """Allowed, but the learning rate never reaches its full size."""
    warmup, kind = f"{scheduler}.warmup_steps", f"{scheduler}.type"

    def fault(v: Values) -> str | None:
        if v[kind] == "constant" or v[steps] is None or v[warmup] < v[steps]:
            return None
        return (
            f"{warmup} ({v[warmup]}) is not below {steps} ({v[steps]}): the learning rate never reaches "
            f"its full size; lower it to {max(0, v[steps] - 1)} or less"
        )

    return Rule(warmup, (warmup, kind, steps), fault, "warning")


def fused_head(model: str, *, may_be_number: bool) -> Rule:
    """The size of the pieces in which the last layer is computed, which may be a word too."""

    def fault(v: Values) -> str | None:
        names = [f"{model}.{key}" for key in ("fused_lm_head_chunk_size", "fused_lm_head_token_chunk_size")]
        for name in names:
            size = own(v, name)
            if not isinstance(size, int) or isinstance(size, bool):
                continue
            if not may_be_number:
                return f'{name} ({size}) cannot be a number for SFT: set it to "disabled"'
            if name == names[0] and size < _FUSED_TOKENS:
                return f"{name} ({size}) must be at least {_FUSED_TOKENS}, or disabled"
        return None

    return Rule(model, (model,), fault)


def model_rules(model: str) -> tuple[Rule, ...]:
    """Between the model's code, its attention and how it is spread, from winter 2026 on."""
    impl, attn = f"{model}.impl", f"{model}.attn"
    ours = ("custom", "auto")

    def spread(v: Values) -> str | None:
        if v[f"{model}.cp"] <= 1 or v[attn] not in ("eager", "sdpa"):
            return None
        return f"{model}.cp ({v[f'{model}.cp']}) needs flash attention: set {attn} to flash_attention_2"

    def flash(v: Values) -> str | None:
        is_new = v[attn] in ("fa4", "flash_attention_4")
        if v[impl] == "custom" or not (is_new or (v[attn] == "flash_attention_3" and v[f"{model}.cp"] > 1)):
            return None
        split = "" if is_new else f" with {model}.cp above 1"
        return f'{attn} ({v[attn]}){split} needs {impl} to be "custom", not "{v[impl]}"'

    def selective(v: Values) -> str | None:
        if v[f"{model}.ac.mode"] != "selective" or v[impl] in ours:
            return None
        return f'{model}.ac.mode (selective) needs {impl} to be "custom" or "auto", not "{v[impl]}"'

    def lonely_backend(v: Values) -> str | None:
        backend = v[f"{model}.ep_comm_backend"]
        if backend == "torch" or v[f"{model}.ep"] > 1:
            return None
        return f"{model}.ep_comm_backend ({backend}) needs {model}.ep above 1: raise it, or take torch"

    return (
        requires(f"{model}.trust_remote_code", impl, "hf", "auto"),
        Rule(f"{model}.cp", (f"{model}.cp", attn), spread),
        Rule(attn, (attn, impl, f"{model}.cp"), flash),
        requires(f"{model}.ep", impl, *ours),
        Rule(f"{model}.ac.mode", (f"{model}.ac.mode", impl), selective),
        Rule(f"{model}.ep_comm_backend", (f"{model}.ep_comm_backend", f"{model}.ep"), lonely_backend),
        not_both(f"{model}.fsdp_cpu_offload", f"{model}.optim_cpu_offload"),
    )


def ordered_thresholds(buffer: str) -> tuple[Rule, ...]:
    """Easy prompts earn more than hard ones."""
    return (below(f"{buffer}.hard_threshold", f"{buffer}.easy_threshold"),)
