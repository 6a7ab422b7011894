"""Makes of a checkpoint what other programs load: safetensors, config and tokenizer, as on the hub.

Runs by itself in the environment of prime-rl (torch, transformers), whose releases of Aug. 2026 export none.

    python make_weights.py CHECKPOINT/trainer FOLDER MODEL [TOKENIZER [CHAT_TEMPLATE]]
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_MODEL = "app.model."
"""Prefix of the model's keys in prime-rl's checkpoint, which also has those of the optimizer."""


def main(source: str, target: str, model: str, tokenizer: str = "", template: str = "") -> None:
    """Export to `target`, which appears when it is complete. `model`: has its config, and the tokenizer
    unless that is named.
    """
    from huggingface_hub import save_torch_state_dict
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    folder, partial = Path(target), Path(f"{target}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    config = AutoConfig.from_pretrained(model)
    save_torch_state_dict(_as_on_hub(_weights(source), config), str(partial))
    config.dtype = "bfloat16"
    config.save_pretrained(partial)
    with contextlib.suppress(OSError):  # it has none
        GenerationConfig.from_pretrained(model).save_pretrained(partial)
    tokenizer_ = AutoTokenizer.from_pretrained(tokenizer or model)
    if template:
        tokenizer_.chat_template = Path(template).read_text() if Path(template).is_file() else template
    tokenizer_.save_pretrained(partial)
    partial.rename(folder)


def _weights(source: str) -> dict[str, Any]:
    """Weights of the model in bfloat16, without reading the optimizer's state."""
    import torch
    from torch.distributed import checkpoint

    reader = checkpoint.FileSystemReader(source)
    metadata = reader.read_metadata().state_dict_metadata
    state = {
        key: torch.empty(entry.size, dtype=entry.properties.dtype)
        for key, entry in metadata.items()
        if key.startswith(_MODEL) and hasattr(entry, "size")
    }
    if not state:
        sys.exit(f"{source} has no weights of a model ({_MODEL}…)")
    if any("lora_" in key for key in state):
        sys.exit(f"{source} has a LoRA adapter, not a complete model")
    checkpoint.load(state, storage_reader=reader, no_dist=True)
    return {key.removeprefix(_MODEL): value.to(torch.bfloat16) for key, value in state.items()}


def _as_on_hub(state: dict[str, Any], config: PretrainedConfig) -> dict[str, Any]:
    """The weights by their names in transformers: prime-rl's own models of some architectures have others."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        expected_names = set(AutoModelForCausalLM.from_config(config).state_dict())
    if not state.keys() <= expected_names:
        from prime_rl.trainer.models import AutoModelForCausalLMPrimeRL

        with torch.device("meta"):
            prime_rl_model = AutoModelForCausalLMPrimeRL.from_config(config)
        state = prime_rl_model.convert_to_hf(state)
    if config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
        expected_names.discard("lm_head.weight")
    if missing := sorted(expected_names - state.keys()):
        sys.exit(f"{len(missing)} weights are missing, such as {missing[0]}")
    return state


if __name__ == "__main__":
    main(*sys.argv[1:])
