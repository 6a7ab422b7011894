"""Model folders in Hugging Face's format: `config.json`, `model.safetensors`, tokenizer."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from rltui.tinyrl.errors import TinyrlError
from rltui.tinyrl.model import CausalModel, ModelShape

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def write_model_files(model: CausalModel, folder: Path, end_token_id: int, pad_token_id: int) -> None:
    """Config and weights of a new model, as `transformers.AutoModelForCausalLM` reads them."""
    shape = {field.name: getattr(model.shape, field.name) for field in fields(ModelShape)}
    rope_theta = shape.pop("rope_theta")
    config: dict[str, Any] = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "dtype": "float32",
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": True,
        "use_cache": True,
        "eos_token_id": end_token_id,
        "pad_token_id": pad_token_id,
        "rope_theta": rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": rope_theta},
        **shape,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    _write_weights(model, folder)


def _write_weights(model: CausalModel, folder: Path) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


def copy_model_files(model: CausalModel, source: Path, folder: Path) -> None:
    """A model folder with the weights of `model` and everything else from `source`."""
    shutil.copy(source / "config.json", folder)
    for name in _TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copy(source / name, folder)
    _write_weights(model, folder)


def read_shape(folder: Path) -> ModelShape:
    """The architecture in `config.json`.

    Raises:
        TinyrlError: no model there, or one of another architecture.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise TinyrlError(
            f"model.name = '{folder}' is no model folder ({error.strerror}: config.json); make it first with"
            " `python -m rltui.tinyrl sft @ sft.toml`, or correct model.name"
        ) from error
    if config.get("model_type") != "qwen3" or not config.get("tie_word_embeddings"):
        raise TinyrlError(
            f"{folder}: only Qwen3 models with tied embeddings can be run, not {config.get('model_type')}"
        )
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    names = [field.name for field in fields(ModelShape) if field.name != "rope_theta"]
    return ModelShape(**{name: config[name] for name in names}, rope_theta=theta)


def load_weights(model: CausalModel, folder: Path) -> None:
    """Put the folder's weights into `model`.

    Raises:
        TinyrlError: the file is missing, damaged, or of another shape.
    """
    try:
        tensors = load_file(str(folder / "model.safetensors"))
    except (OSError, SafetensorError) as error:
        raise TinyrlError(f"{folder}: cannot load weights: {error}") from error
    tensors.pop("lm_head.weight", None)
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    # compared before the first copy: a mismatch half-way would leave a model of two halves
    if {name: tensor.shape for name, tensor in tensors.items()} != expected:
        raise TinyrlError(f"{folder}: cannot load weights: not the shapes of the model that is loaded")
    model.load_state_dict(tensors)


def load_model(folder: Path, device: torch.device | str = "cpu") -> CausalModel:
    """The folder's model on `device`.

    Raises:
        TinyrlError: as `read_shape` and `load_weights`.
    """
    model = CausalModel(read_shape(folder))
    load_weights(model, folder)
    model.to(device)
    return model
