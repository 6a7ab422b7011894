"""The table of levers against the knob tables of the frameworks."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path

import pytest

from rltui.base.toml.edit import edit
from rltui.core.config.report import KnobInfo
from rltui.core.gpu.advice import Advice, MemoryFailure, advise
from rltui.core.gpu.report import OutOfMemory
from rltui.frameworks.base import Framework
from rltui.frameworks.generic import GENERIC
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.frameworks.memory_levers import LEVERS
from rltui.frameworks.roles import TABLES
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.config.knob_table import KnobCatalog

EXAMPLE = Path(__file__).parents[2] / "examples" / "reverse_text"
ALLOCATION = OutOfMemory(kind="allocation", tried_bytes=2 << 30)


def parsed(texts: dict[str, str]) -> ConfigFiles:
    return {role: ConfigFile(role, f"{role}.toml", tomllib.loads(text)) for role, text in texts.items()}


def rows(framework: Framework, files: ConfigFiles) -> tuple[KnobInfo, ...]:
    knobs = framework.config.knobs(files)
    catalog = KnobCatalog(framework, components=(), launched={})
    return catalog.rows([knob for knob in knobs if knob.file in files], files, {})


def advice(framework: Framework, texts: dict[str, str], component: str, kind: str) -> tuple[Advice, ...]:
    memory = ALLOCATION if kind == "allocation" else OutOfMemory.from_plain({"kind": kind})
    return advise(MemoryFailure(memory, rows(framework, parsed(texts)), component, tables=TABLES), LEVERS)


def example() -> dict[str, str]:
    return {role: (EXAMPLE / f"{role}.toml").read_text() for role in ("rl", "sft")}


@pytest.mark.parametrize(
    ("component", "kind", "first"),
    [
        ("trainer", "allocation", "seq_len"),
        ("sft", "allocation", "sft.data.micro_batch_size"),
        ("inference", "allocation", "inference.gpu_memory_utilization"),
        ("inference", "start_check", "inference.gpu_memory_utilization"),
        ("inference", "no_kv_cache", "inference.gpu_memory_utilization"),
        ("inference", "kv_cache_small", "inference.model.max_model_len"),
        ("inference", "warm_up", "inference.max_num_seqs"),
    ],
)
def test_the_embedded_engine_takes_what_is_advised(component: str, kind: str, first: str) -> None:
    texts = example()
    remedies = advice(TINYRL, texts, component, kind)
    assert remedies[0].edits.keys() == {first} or first in remedies[0].edits
    for remedy in remedies:
        assert not errors_after(texts, remedy)


@pytest.mark.parametrize(
    "lengths",
    list(itertools.product((None, 300), (None, 200), (None, 512))),
    ids=lambda lengths: "-".join(map(str, lengths)),
)
def test_the_trainer_still_takes_the_orchestrators_sequences(lengths: tuple[int | None, ...]) -> None:
    keys = ("seq_len", "orchestrator.seq_len", "trainer.model.seq_len")
    text = edit(example()["rl"], dict(zip(keys, lengths, strict=True)))
    texts = example() | {"rl": text}
    if any(problem.severity == "error" for problem in TINYRL.config.check(parsed(texts))):
        pytest.skip("refused as it is")
    before = {row.key: row.value for row in rows(TINYRL, parsed(texts))}
    (shorter,) = advice(TINYRL, texts, "trainer", "allocation")
    assert not errors_after(texts, shorter)
    after = {row.key: row.value for row in rows(TINYRL, parsed(edited(texts, shorter)))}
    assert after["trainer.model.seq_len"] == before["trainer.model.seq_len"] // 2
    assert after["orchestrator.seq_len"] <= after["trainer.model.seq_len"]


def edited(texts: dict[str, str], remedy: Advice) -> dict[str, str]:
    known = {knob.name: knob for knob in TINYRL.config.knobs(parsed(texts))}
    for name, value in remedy.edits.items():
        knob = known[name]
        texts = texts | {knob.file: edit(texts[knob.file], {knob.key: value})}
    return texts


def errors_after(texts: dict[str, str], remedy: Advice) -> list[str]:
    problems = TINYRL.config.check(parsed(edited(texts, remedy)))
    return [problem.message for problem in problems if problem.severity == "error"]


def test_the_keys_of_any_file_are_levers_where_they_bear_the_names() -> None:
    text = """
        [train]
        micro_batch_size = 4
        [vllm]
        gpu_memory_utilization = 0.9
        max_model_len = 8192
    """
    train = advice(GENERIC, {"run": text}, "*", "allocation")
    assert [dict(remedy.edits) for remedy in train] == [
        {"train.micro_batch_size": 2},
        {"vllm.gpu_memory_utilization": 0.85},
        {"vllm.max_model_len": 4096},
    ]
