"""Rollouts of every generation, in one way."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from tests.fakes import rollouts as fakes

from rltui.core.rollouts.batches import (
    ABANDONED,
    ALL,
    BatchKey,
    BatchSummary,
    RolloutSource,
    Sample,
    Transcript,
    prompt_text,
)
from rltui.errors import ConflictError, RltuiError
from rltui.services.rollouts import chunks, files, open_rollouts


def read(folder: Path, *keys: BatchKey) -> RolloutSource:
    source = open_rollouts(folder)
    for key in (None, *keys):
        while source.poll(key):
            pass
    return source


def completion_text(transcript: Transcript) -> str:
    return "\n".join(message.text for message in transcript.conversations[0].completion if message.text)


def labels(source: RolloutSource) -> dict[str, int | None]:
    return {batch.key.label: batch.samples for batch in source.batches()}


@pytest.mark.parametrize("root", ["rollouts", "run_default/rollouts"], ids=["tinyrl", "spring-2026"])
def test_flat_rows(tmp_path: Path, root: str) -> None:
    fakes.write_flat_run(tmp_path, root=root)
    key = BatchKey("train", 2)
    source = read(tmp_path, key)
    assert labels(source) == {"3": None, "2": 16, "1": None}
    table = source.table(key)
    summary = BatchSummary.of(table)
    assert (summary.count, summary.groups, summary.flat_groups, summary.truncated) == (16, 4, 1, 4)
    sample = table[3]
    assert sample[1:] == (
        "0",
        "0",
        "reverse-text",
        0.5,
        0.0,
        12,
        33,
        1,
        "max_output_tokens",
        True,
        False,
        "",
        sample.at,
    )
    opened = source.open(key, sample)
    assert prompt_text(opened) == "Reverse: word0"
    assert completion_text(opened) == "answer 3 of 0"
    assert dict(opened.facts)["answer"] == "0drow"


def test_a_batch_grows_and_a_resume_takes_steps_away(tmp_path: Path) -> None:
    fakes.write_flat_run(tmp_path)
    key = BatchKey("train", 3)
    source = read(tmp_path, key)
    with (tmp_path / "rollouts/step_3/train_rollouts.jsonl").open("a") as file:
        file.write('{"example_id": 9, "reward": 0.1')
    source.poll(key)
    assert len(source.table(key)) == 16, "a torn last line waits"
    with (tmp_path / "rollouts/step_3/train_rollouts.jsonl").open("a") as file:
        file.write("}\nno json\n")
    source.poll(key)
    assert len(source.table(key)) == 17
    sample = source.table(key)[16]
    (tmp_path / "rollouts/step_3").rename(tmp_path / "aside")
    source.poll(key)
    assert labels(source) == {"2": None, "1": None}
    with pytest.raises(RltuiError, match="the rollouts of 3 are gone"):
        source.open(key, sample)


def test_episodes_in_step_folders(tmp_path: Path) -> None:
    fakes.write_episode_run(tmp_path)
    key, every = BatchKey("train", 2), BatchKey("train", 2, ALL)
    source = read(tmp_path, key, every)
    assert labels(source) == {
        "2": 6,
        "2 all": 8,
        "eval 2 all": None,
        "1": None,
        "1 all": None,
        "eval 1 all": None,
    }
    sample = source.table(key)[5]
    assert (sample.group, sample.task, sample.reward, sample.advantage) == ("g1", "hash-t1", 0.625, 0.25)
    assert (sample.input_tokens, sample.output_tokens, sample.turns) == (11, 7, 1)
    assert math.isnan(source.table(every)[0].advantage)
    opened = source.open(key, sample)
    assert [message.role for message in opened.conversations[0].prompt] == ["system", "user"]
    assert opened.conversations[0].completion[0].reasoning == "let me think"
    assert ("policy", "v0 to v1") in opened.facts


def test_agents_branches_tools(tmp_path: Path) -> None:
    path = fakes.write_lines(tmp_path / "traces.jsonl", [fakes.tool_episode()])
    for place in (tmp_path, path):
        source = open_rollouts(place)
        source.poll()
        key = source.batches()[0].key
        while source.poll(key):
            pass
        sample = source.table(key)[0]
        assert (sample.truncated, sample.failed, sample.reward) == (True, True, 1.0)
        opened = source.open(key, sample)
        assert [each.title for each in opened.conversations] == [
            "agent branch 1 of 2",
            "agent branch 2 of 2",
            "judge",
        ]
        first = opened.conversations[0]
        assert first.prompt[0].text == "Look:\n[image_url]"
        assert first.completion[0].calls[0].name == "run"
        assert opened.errors == ("ToolError: it broke",)


@pytest.mark.parametrize("index", [True, False], ids=["index", "derived"])
def test_stream(tmp_path: Path, index: bool) -> None:
    writer = fakes.write_stream_run(tmp_path)
    if not index:
        (writer.folder / "stream.index.jsonl").unlink()
    source = read(tmp_path)
    found = labels(source)
    batches = {"3": 7, "2": 7, "1": 7, "eval 1": 1, "2 all": 8}
    assert {name: found[name] for name in batches} == batches
    key = BatchKey("train", 2)
    table = source.table(key)
    rewards = sorted(sample.reward for sample in table)
    assert rewards == [at / 8 for at in range(7)]
    assert {sample.advantage for sample in table} == {0.25}
    for sample in table:
        opened = source.open(key, sample)
        assert f"answer {2000 + round(sample.reward * 8)} to" in completion_text(opened)
        assert dict(opened.facts)["shipped at step"] == "2"
    assert source.problem == ""


def test_live_stream_grows(tmp_path: Path) -> None:
    writer = fakes.write_stream_run(tmp_path, steps=1)
    source = read(tmp_path)
    records = [fakes.episode(5000 + at, 0.5, group="new") for at in range(4)]
    for at, record in enumerate(records):
        writer.arrive(record, fakes.T0 + 500 + at)
    source.poll()
    assert labels(source)["2 all"] == 4
    assert "2" not in labels(source)
    writer.ship(["tr5000", "tr5001"], 2, fakes.T0 + 550)
    source.poll()
    assert labels(source)["2"] == 2
    assert source.table(BatchKey("train", 2))[0].advantage == 0.25


def test_a_resume_leaves_an_abandoned_line(tmp_path: Path) -> None:
    writer = fakes.write_stream_run(tmp_path, steps=3)
    again = [fakes.episode(7000 + at, 1.0, group="again") for at in range(4)]
    for at, record in enumerate(again):
        writer.arrive(record, fakes.T0 + 900 + at)
    writer.ship([f"tr{7000 + at}" for at in range(4)], 2, fakes.T0 + 950)
    source = read(tmp_path)
    found = labels(source)
    assert (found["1"], found["2"], found[f"2 {ABANDONED}"], found[f"3 {ABANDONED}"]) == (7, 4, 7, 7)
    assert "3" not in found


@pytest.mark.parametrize("is_seekable", [True, False])
def test_sealed_chunks(tmp_path: Path, is_seekable: bool) -> None:
    writer = fakes.write_stream_run(tmp_path, steps=1)
    writer.seal(frame_bytes=333, is_seekable=is_seekable)
    source = read(tmp_path)
    key = BatchKey("train", 1)
    texts = [completion_text(source.open(key, sample)) for sample in source.table(key)]
    assert sorted(texts) == sorted(f"answer {1000 + at} to t{at // 4}" for at in range(7))
    sealed = next(writer.folder.glob("stream/*.zst"))
    sealed.write_bytes(sealed.read_bytes()[:50] + b"\0" * 400)
    broken = read(tmp_path)
    with pytest.raises(RltuiError, match=r"damaged|no episode"):
        broken.open(key, broken.table(key)[0])


def test_live_rollouts(tmp_path: Path) -> None:
    writer = fakes.StreamWriter(tmp_path)
    dispatch = {
        "id": "d1",
        "kind": "train",
        "env": "reverse-text",
        "group": "g",
        "step": 3,
        "started": fakes.T0,
    }
    writer.delta("t1", {"open": {"version": 1, "id": "t1", "task": {"key": "k"}}, "dispatch": dispatch})
    writer.delta(
        "t1", {"nodes": [fakes.node("user", "Say", None)], "set": {"timing": {"agent": {"start": 1.0}}}}
    )
    writer.delta("t1", {"pending": [{"role": "user", "content": "asked"}]})
    (writer.folder / "live/pending").mkdir()
    pending = {"id": "d2", "kind": "train", "env": "other", "group": "g", "task": 4, "started": fakes.T0 + 1}
    (writer.folder / "live/pending/d2.json").write_text(json.dumps(pending))
    key = BatchKey("live")
    source = read(tmp_path, key)
    assert labels(source) == {"live": 2}
    table = source.table(key)
    assert [(sample.stop, sample.env) for sample in table] == [
        ("running", "reverse-text"),
        ("pending", "other"),
    ]
    assert [m.text for m in source.open(key, table[0]).conversations[0].messages] == ["Say", "asked"]
    writer.delta("t1", {"nodes": [fakes.node("assistant", "hello", 0)]})
    source.poll(key)
    assert [m.text for m in source.open(key, source.table(key)[0]).conversations[0].messages] == [
        "Say",
        "hello",
    ]
    (writer.folder / "live/t1.jsonl").unlink()
    source.poll(key)
    assert [sample.env for sample in source.table(key)] == ["other"]


def test_evaluations_of_both_generations(tmp_path: Path) -> None:
    fakes.write_old_evaluation(tmp_path)
    fakes.write_new_evaluation(tmp_path)
    old, new = (
        BatchKey("eval", part="gsm8k--gpt-4.1-mini/1a2b3c4d"),
        BatchKey("eval", part="gsm8k--gpt-4.1-mini--single--1a2b3c4d"),
    )
    source = read(tmp_path, old, new)
    assert labels(source) == {new.part: 4, old.part: 6}
    table = source.table(old)
    assert [sample.turns for sample in table] == [2, 2, 0, 2, 2, 2]
    assert [sample.failed for sample in table] == [at == 2 for at in range(6)]
    opened = source.open(old, table[5])
    assert opened.conversations[0].completion[0].calls[0].name == "add"
    assert completion_text(opened).endswith("It is 2.")
    assert BatchSummary.of(source.table(new)).flat_groups == 0


def test_the_same_prompt_at_other_steps(tmp_path: Path) -> None:
    fakes.write_flat_run(tmp_path / "flat", steps=(1, 2, 5))
    fakes.write_stream_run(tmp_path / "stream")
    for folder, step in (("flat", 2), ("stream", 2)):
        key = BatchKey("train", step)
        source = read(tmp_path / folder, key)
        opened = source.open(key, source.table(key)[0])
        found = list(source.same_prompt(key, opened))
        assert {other.step for other, _ in found} == {1, 5 if folder == "flat" else 3}
        for other, sample in found:
            assert sample is not None
            assert prompt_text(source.open(other, sample)) == prompt_text(opened)


def test_search_and_export(tmp_path: Path) -> None:
    fakes.write_flat_run(tmp_path)
    key = BatchKey("train", 1)
    source = read(tmp_path, key)
    matches = source.search(key, source.table(key), re.compile("answer 2 of [13]"))
    found = [at for at, matching in enumerate(matches) if matching]
    assert found == [6, 14]
    opened = [source.open(key, source.table(key)[at]) for at in found]
    source.export(opened, tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["example_id"] for row in rows] == [1, 3]
    source.export(opened, tmp_path / "out.md")
    assert "**assistant**\n\n```\nanswer 2 of 1\n```" in (tmp_path / "out.md").read_text()
    with pytest.raises(ConflictError):
        source.export(opened, tmp_path / "out.md")
    with pytest.raises(RltuiError, match="cannot write"):
        source.export(opened, tmp_path / "no/such/out.md")


@pytest.mark.parametrize(
    "write",
    [
        fakes.write_flat_run,
        fakes.write_episode_run,
        fakes.write_stream_run,
        fakes.write_old_evaluation,
        fakes.write_new_evaluation,
    ],
)
def test_a_search_finds_what_the_samples_in_full_say(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(tmp_path)
    source = read(tmp_path)
    searched = 0
    for key in [batch.key for batch in source.batches()]:
        while source.poll(key):
            pass
        samples = [*source.table(key)]
        texts = [source.open(key, sample).text for sample in samples]
        words = {word for text in texts[:2] for word in text.split()}
        typed = [*map(re.escape, words), "answer \\d+", "(?i)ANSWER", "^a|^R", "[aä]n", "\\{.*:", "nowhere"]
        for pattern in map(re.compile, typed):
            found = list(source.search(key, samples, pattern))
            assert found == [pattern.search(text) is not None for text in texts], pattern
            searched += sum(found)
    assert searched


def test_only_records_that_may_match_are_parsed(tmp_path: Path) -> None:
    """Finding X10: 50 s for 200,000 rows."""
    rows = [fakes.flat_row(1, at, 0.5, completion="a Zebra" if at == 7 else "a horse") for at in range(50)]
    fakes.write_lines(tmp_path / "rollouts/step_1/train_rollouts.jsonl", rows)
    key = BatchKey("train", 1)
    source = read(tmp_path, key)
    with mock.patch.object(files, "record", wraps=chunks.record) as parsed:
        assert [*source.search(key, source.table(key), re.compile("Zebra|yaks?"))].index(True) == 7
        assert parsed.call_count == 1


def test_prompts_that_are_plain_text(tmp_path: Path) -> None:
    error = {"error": "X", "error_chain_str": "Y"}
    row = fakes.flat_row(1, 1, 0.5, prompt="Say", completion="said", error=error)
    fakes.write_lines(tmp_path / "run_default/rollouts/step_0/eval_rollouts.jsonl", [row])
    key = BatchKey("eval", 0)
    source = read(tmp_path, key)
    opened = source.open(key, source.table(key)[0])
    assert (prompt_text(opened), completion_text(opened), opened.errors) == ("Say", "said", ("X: Y",))


def test_no_rollouts(tmp_path: Path) -> None:
    source = read(tmp_path / "nowhere")
    assert source.batches() == []
    assert len(source.table(BatchKey("train", 1))) == 0


def test_of_a_sealed_chunk_only_the_frames_are_read_that_are_needed(tmp_path: Path) -> None:
    writer = fakes.write_stream_run(tmp_path, steps=1)
    writer.seal(frame_bytes=333)
    sealed = next(writer.folder.glob("stream/*.zst"))
    data = sealed.read_bytes()
    frames = [found.start() for found in re.finditer(rb"\x28\xb5\x2f\xfd", data)]
    begin = frames[len(frames) // 2]
    sealed.write_bytes(data[: begin + 4] + b"\0" * 8 + data[begin + 12 :])
    source, key = read(tmp_path), BatchKey("train", 1)
    opened = [sample for sample in source.table(key) if _opens(source, key, sample)]
    assert len(opened) == 6, "all but the one in the damaged frame, for the table tells where they are"


def _opens(source: RolloutSource, key: BatchKey, sample: Sample) -> bool:
    try:
        return bool(source.open(key, sample).text)
    except RltuiError:
        return False


@pytest.mark.parametrize("forward", [False, True])
def test_lines_are_read_block_by_block_and_it_is_told_how_long_there_are_more(
    tmp_path: Path, forward: bool
) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"".join(b"%03d\n" % number for number in range(10)))
    lines = chunks.NewestFirst(path, forward=forward, block_bytes=16)
    blocks = [lines.read()]
    while lines.is_behind:
        blocks.append(lines.read())
    assert len(blocks) >= 3
    in_order = blocks if forward else blocks[::-1]
    assert [line for block in in_order for line in block] == [(4 * n, b"%03d" % n) for n in range(10)]
    assert lines.read() == []
    with path.open("ab") as file:
        file.write(b"new\nhal")
    assert lines.read() == [(40, b"new")]
    assert lines.read() == []
    assert not lines.is_behind, "half a line is no news"
