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
"""Begins the keys of the model in what prime-rl saves, beside those of the optimizer."""


def main(source: str, target: str, model: str, tokenizer: str = "", template: str = "") -> None:
    """`target` appears when it is whole. `model`: has its config, and the tokenizer unless that is named."""
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
    words = AutoTokenizer.from_pretrained(tokenizer or model)
    if template:
        words.chat_template = Path(template).read_text() if Path(template).is_file() else template
    words.save_pretrained(partial)
    partial.rename(folder)


def _weights(source: str) -> dict[str, Any]:
    """Of the model alone, without reading the optimizer's state, in bfloat16."""
    import torch
    from torch.distributed import checkpoint

    reader = checkpoint.FileSystemReader(source)
    metadata = reader.read_metadata().state_dict_metadata
    state = {
        key: torch.empty(each.size, dtype=each.properties.dtype)
        for key, each in metadata.items()
        if key.startswith(_MODEL) and hasattr(each, "size")
    }
    if not state:
        sys.exit(f"{source} has no weights of a model ({_MODEL}…)")
    if any("lora_" in key for key in state):
        sys.exit(f"{source} has a LoRA adapter, which is no whole model")
    checkpoint.load(state, storage_reader=reader, no_dist=True)
    return {key.removeprefix(_MODEL): value.to(torch.bfloat16) for key, value in state.items()}


def _as_on_hub(state: dict[str, Any], config: PretrainedConfig) -> dict[str, Any]:
    """By the names of transformers: prime-rl's own models of some architectures have others."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        known = set(AutoModelForCausalLM.from_config(config).state_dict())
    if not state.keys() <= known:
        from prime_rl.trainer.models import AutoModelForCausalLMPrimeRL

        with torch.device("meta"):
            own = AutoModelForCausalLMPrimeRL.from_config(config)
        state = own.convert_to_hf(state)
    if config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
        known.discard("lm_head.weight")
    if missing := sorted(known - state.keys()):
        sys.exit(f"{len(missing)} weights are missing, such as {missing[0]}")
    return state


if __name__ == "__main__":
    main(*sys.argv[1:])
