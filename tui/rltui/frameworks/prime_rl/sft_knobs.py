"""Knobs of `[data]` in the files of the SFT trainer, which hardly changed between generations."""

from __future__ import annotations

from rltui.core.knobs import Knob

DATA = (
    Knob(
        "data.name", "str", (),
        "Dataset to learn from: a name on the Hugging Face hub, or a folder.",
        "PrimeIntellect/Reverse-Text-SFT",
    ),
    Knob(
        "data.type", "enum", (),
        "sft reads the dataset; fake makes up tokens, to measure speed and memory.",
        "sft", choices=("sft", "fake"),
    ),
    Knob(
        "data.batch_size", "int", (),
        "Rows of seq_len tokens per optimizer step, over all GPUs.",
        128, minimum=1, unit="examples", control="doubling",
    ),
    Knob(
        "data.micro_batch_size", "int", (),
        "Rows that one GPU computes at once; batch_size is reached in several such rounds.",
        1, minimum=1, unit="examples", control="doubling",
    ),
    Knob(
        "data.seq_len", "int", (),
        "Tokens of one row; longer examples are cut.",
        128, minimum=1, unit="tokens", control="doubling",
    ),
    Knob(
        "data.shuffle", "bool", (),
        "Shuffle the examples at the beginning of each epoch.",
        default=True,
    ),
    Knob("data.seed", "int", (), "Start of the shuffling: same seed, same order.", 0),
    Knob(
        "data.subsets", "list", (),
        "Parts of the dataset that are mixed; one split for each.",
        nullable=True,
    ),
    Knob("data.splits", "list", (), "Splits that are read, one for each subset.", nullable=True),
    Knob(
        "data.probabilities", "list", (),
        "How often each subset or split is drawn from.",
        nullable=True,
    ),
    *(
        Knob(
            f"data.loss_mask.{who}", "bool", (),
            f"Whether the model learns to write messages of the role {who}.",
            default=who == "assistant",
        )
        for who in ("system", "user", "assistant", "tool")
    ),
)  # fmt: skip
PACK_FUNCTION = Knob(
    "data.pack_function", "enum", (),
    "cat fills rows with examples one after the other; stack packs whole ones, in lengths of 256 tokens.",
    "cat", choices=("cat", "stack"),
)  # fmt: skip
LOSS_IMPL = Knob(
    "loss_impl", "enum", (),
    "Whose code computes the loss; liger needs less memory.",
    "torch", choices=("liger", "torch"),
)  # fmt: skip
