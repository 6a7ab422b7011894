"""The task, to reverse a text, and a tokenizer with one token per printable ASCII character, with its chat
template.
"""

from __future__ import annotations

import json
import random
import string
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, decoders, models

from rltui.tinyrl import TinyrlError

ENV_ID = "reverse-text"


def draw_text(rng: random.Random, min_chars: int, max_chars: int) -> str:
    """A text of random lower-case letters."""
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(min_chars, max_chars)))


def example_text(seed: int, example_id: int, min_chars: int, max_chars: int) -> str:
    """The text of one example, the same in every run with this seed."""
    return draw_text(random.Random(f"{seed}/{example_id}"), min_chars, max_chars)


def eval_text(seed: int, example_id: int, min_chars: int, max_chars: int) -> str:
    """The text of one example reserved for evaluations, the same in every run with this seed."""
    return draw_text(random.Random(f"eval/{seed}/{example_id}"), min_chars, max_chars)


def reward(completion: str, text: str) -> float:
    """Share of characters in common runs, 0 to 1, as in prime-rl's reverse-text (LCS ratio)."""
    return SequenceMatcher(None, completion, text[::-1], autojunk=False).ratio()


def demonstration(text: str, rng: random.Random, give_up_frac: float) -> str:
    """The reversed text, or with probability `give_up_frac` at most its first two characters."""
    answer = text[::-1]
    return answer[: rng.randint(0, 2)] if rng.random() < give_up_frac else answer


PAD, END, SYSTEM, USER, ASSISTANT = "<|pad|>", "<|im_end|>", "<|system|>", "<|user|>", "<|assistant|>"
SPECIAL_TOKENS = (PAD, END, SYSTEM, USER, ASSISTANT)
_UNKNOWN = "\ufffd"
_CHARACTERS = (_UNKNOWN, "\n", *(chr(code) for code in range(32, 127)))

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VOCAB_SIZE = len(SPECIAL_TOKENS) + len(_CHARACTERS)


def write_tokenizer(folder: Path) -> None:
    """Write the files that `transformers.AutoTokenizer` loads."""
    vocabulary = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *_CHARACTERS))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=_UNKNOWN))
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "unk_token": _UNKNOWN,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


class ChatTokenizer:
    """Messages to token ids and back, for any model folder with a `tokenizer.json`."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        template_file = folder / "chat_template.jinja"  # where newer versions of transformers keep it
        template = (
            template_file.read_text(encoding="utf-8")
            if template_file.is_file()
            else settings["chat_template"]
        )
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        self._template = environment.from_string(template)
        self._end = settings["eos_token"]
        end_id = self._tokenizer.token_to_id(self._end)
        if end_id is None:
            raise TinyrlError(f"{folder}: the tokenizer has no token for its eos_token {self._end!r}")
        self.end_id: int = end_id

    def encode_chat(self, messages: list[dict[str, Any]]) -> list[int]:
        """Token ids up to the point where the assistant speaks."""
        text = self._template.render(messages=messages, add_generation_prompt=True, eos_token=self._end)
        return self.encode(text)

    def encode(self, text: str) -> list[int]:
        """Token ids; special tokens may be written out in `text`."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: list[int]) -> str:
        """The text without special tokens."""
        return str(self._tokenizer.decode(token_ids, skip_special_tokens=True))

    def token_text(self, token_id: int) -> str:
        """One token as written, special tokens included."""
        return str(self._tokenizer.decode([token_id], skip_special_tokens=False))
