"""Which models a renderer is known for: without one, the file must name it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.suggest import did_you_mean
from rltui.frameworks.rule_makers import is_on

_FAMILIES: dict[str, tuple[str, ...]] = {
    "Qwen": (
        "Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B", "Qwen3-4B-Instruct-2507", "Qwen3-4B-Thinking-2507",
        "Qwen3-8B", "Qwen3-14B", "Qwen3-32B", "Qwen3-30B-A3B", "Qwen3-30B-A3B-Instruct-2507",
        "Qwen3-30B-A3B-Thinking-2507", "Qwen3-235B-A22B", "Qwen3.5-0.8B", "Qwen3.5-2B", "Qwen3.5-4B",
        "Qwen3.5-9B", "Qwen3.5-35B-A3B", "Qwen3.5-122B-A10B", "Qwen3.5-397B-A17B", "Qwen3.6-35B-A3B",
        "Qwen3.8-27B", "Qwen3.8-Flash-Next", "Qwen3-VL-4B-Instruct", "Qwen3-VL-8B-Instruct",
        "Qwen3-VL-30B-A3B-Instruct",
    ),
    "PrimeIntellect": ("Qwen3-0.6B", "Qwen3-1.7B"),
    "google": ("gemma-4-E2B-it", "gemma-4-E4B-it", "gemma-4-26B-A4B-it", "gemma-4-31B-it"),
    "zai-org": (
        "GLM-5", "GLM-5-FP8", "GLM-4.7-Flash", "GLM-5.1", "GLM-5.3", "GLM-5.3-BF16", "GLM-4.5-Air",
    ),
    "THUDM": ("GLM-4.5-Air",),
    "MiniMaxAI": ("MiniMax-M2", "MiniMax-M2.5"),
    "deepseek-ai": (
        "DeepSeek-V3", "DeepSeek-V3-Base", "DeepSeek-R1", "DeepSeek-R1-0528", "DeepSeek-V4-Flash-0731",
    ),
    "moonshotai": ("Kimi-K2-Instruct", "Kimi-K2.5", "Kimi-K2.6"),
    "nvidia": (
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
        "NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", "NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8",
        "NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16", "NVIDIA-Nemotron-3.5-Super-EA-09112026",
    ),
    "meta-llama": ("Llama-3.2-1B-Instruct", "Llama-3.2-3B-Instruct"),
    "poolside": ("Laguna-XS.2", "Laguna-M.1", "Laguna-XS-2.1", "Laguna-S-2.1"),
    "openai": ("gpt-oss-20b", "gpt-oss-120b"),
    "thinkingmachines": ("Inkling", "Inkling-Small"),
    "tencent": ("Hy3", "Hy3-FP8"),
}  # fmt: skip
MODELS = frozenset(f"{owner}/{name}" for owner, names in _FAMILIES.items() for name in names)
"""For which `auto` finds a renderer, with renderers 0.1.12; newer releases know more."""
NAMES = frozenset(
    """
    auto default qwen3 prime-qwen3 qwen3.5 qwen3.6 qwen3.8 qwen3-vl gemma4 glm-5 glm-5.1 glm-5.3 glm-4.5
    minimax-m2 deepseek-v3 deepseek-r1 deepseek-v4 kimi-k2 kimi-k2.5 nemotron-3 nemotron-3-ultra
    nemotron-3.5 llama-3 laguna-xs.2 laguna-m.1 laguna-xs-2.1 laguna-s-2.1 gpt-oss inkling hy3 custom
    """.split()  # noqa: SIM905  (words read better than quoted lines)
)
"""Of renderers 0.1.12."""


def renderer_problems(values: Mapping[str, Any], *, is_rl: bool, path: str) -> Iterator[Problem]:
    """Warnings, since the package of renderers in use may know more models than are known here."""
    at = "orchestrator." if is_rl else "sft."
    key, name = f"{at}renderer.name", values[f"{at}renderer.name"]
    if not is_rl and values["sft.data.type"] == "fake" and not is_on(values.get("sft.val")):
        return
    own = values.get("orchestrator.tokenizer") if is_rl else None
    tokenizer = own.get("name") if isinstance(own, Mapping) else None
    model = (
        tokenizer or values["tokenizer.name" if is_rl else "sft.tokenizer.name"] or values[f"{at}model.name"]
    )
    if name == "auto" and model not in MODELS:
        message = (
            f'{key} is "auto", but {model} is not among the models that a renderer is known for: name one of '
            f"the same family, such as qwen3" + (', or "default"' if is_rl else "")
        )
        yield Problem(severity="warning", key=key, message=message, file=path)
    elif name == "default" and not is_rl:
        message = (
            f'{key} cannot be "default" for SFT, which must tell answers from the rest: name a typed one'
        )
        yield Problem(key=key, message=message, file=path)
    elif name not in NAMES:
        message = f'{key} ("{name}") is not known here: {did_you_mean(name, NAMES) or "a newer one?"}'
        yield Problem(severity="warning", key=key, message=message, file=path)
