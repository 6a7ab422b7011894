from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rltui.tinyrl import TinyrlError
from rltui.tinyrl.language import ASSISTANT, END, USER, ChatTokenizer
from rltui.tinyrl.model import Architecture, CausalModel, load_model, load_weights, read_shape


@pytest.mark.slow
def test_transformers_computes_the_same_logits(tiny_model: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tiny_model, local_files_only=True)
    tokens = torch.randint(0, 90, (2, 20), generator=torch.Generator().manual_seed(0))
    causal = torch.ones(20, 20, dtype=torch.bool).tril().expand(2, -1, -1)
    with torch.no_grad():
        ours = load_model(tiny_model)(tokens, torch.arange(20).expand(2, 20), causal)
        torch.testing.assert_close(ours, theirs(tokens).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_transformers_tokenizes_chats_the_same(tiny_model: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(tiny_model, local_files_only=True)
    ours = ChatTokenizer(tiny_model)
    messages = [{"role": "user", "content": "Hello, fox\n9"}]
    prompt_ids = ours.encode_chat(messages)
    rendered = theirs.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert rendered == f"{USER}Hello, fox\n9{END}{ASSISTANT}"
    assert theirs(rendered, add_special_tokens=False).input_ids == prompt_ids
    assert theirs.decode(prompt_ids, skip_special_tokens=True) == ours.decode(prompt_ids) == "Hello, fox\n9"
    assert theirs.eos_token_id == ours.end_id


def test_missing_model_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(TinyrlError, match=r"tinyrl sft @ sft\.toml"):
        read_shape(tmp_path / "none")


def test_weights_of_another_shape_change_nothing(tiny_model: Path) -> None:
    model = CausalModel(Architecture(vocab_size=10))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(TinyrlError, match="not the shapes"):
        load_weights(model, tiny_model)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
