"""Whatever a record holds, reading it neither fails nor lets anything unexpected through."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes import rollouts as fakes

from rltui.core.rollouts import rows
from rltui.core.rollouts.batches import Sample, SampleTable, Transcript, histogram, sort_samples

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Of everything inside a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in places(item, (*path, key)))]


def swapped(document: Any, path: tuple[Any, ...], value: object) -> Any:
    """A copy with something else at a place."""
    if not path:
        return value
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return copy


Reader = Callable[[Mapping[str, Any], Sample], Transcript]
SHAPES: dict[str, tuple[dict[str, Any], Callable[[Mapping[str, Any], int], Sample], Reader]] = {
    "flat": (fakes.flat_row(1, 2, 0.5), rows.flat_sample, rows.flat_transcript),
    "episode": (fakes.tool_episode(), rows.episode_sample, rows.episode_transcript),
    "live": (
        fakes.tool_episode()["traces"][0] | {"dispatch": {"group": "g", "started": 1.0}},
        rows.live_sample,
        rows.live_transcript,
    ),
}


@pytest.mark.parametrize("name", list(SHAPES))
@given(data=st.data())
def test_any_value_anywhere(name: str, data: st.DataObject) -> None:
    document, sample_of, transcript_of = SHAPES[name]
    row = swapped(document, data.draw(st.sampled_from(places(document))), data.draw(_JSON))
    if not isinstance(row, dict):
        return
    sample = sample_of(row, 7)
    table = SampleTable([sample])
    assert next(iter(table)).where == 7
    assert isinstance(transcript_of(row, sample).text, str)


@given(row=st.dictionaries(st.sampled_from([*fakes.index_row(1, fakes.tool_episode(), 0, 0, 1.0)]), _JSON))
def test_any_row_of_the_index(row: dict[str, Any]) -> None:
    table = SampleTable([rows.index_sample(row, 1)])
    assert len(sort_samples(table, "worst")) == 1


@given(
    deltas=st.lists(
        st.dictionaries(st.sampled_from(["open", "set", "nodes", "calls", "pending", "discard", "x"]), _JSON)
    )
)
def test_any_delta(deltas: list[dict[str, Any]]) -> None:
    trace: dict[str, Any] = {}
    for delta in deltas:
        rows.fold_delta(trace, delta)
    rows.live_transcript(trace, rows.live_sample(trace, 0))


def test_tinyrl_rows(data_rows: list[dict[str, Any]]) -> None:
    table = SampleTable(rows.flat_sample(row, at) for at, row in enumerate(data_rows))
    assert [group.name for group in table.groups()] == ["16", "17", "18"]
    assert table[0].reward == pytest.approx(2 / 3)
    assert table[0].output_tokens == 3
    conversation = rows.flat_transcript(data_rows[0], table[0]).conversations[0]
    assert [message.text for message in conversation.completion] == ["jc"]


def test_an_episode_without_an_answer_failed_whatever_it_says() -> None:
    """As the agent `null` of verifiers 0.4.0 leaves one whose prompt was too long, with exit code 0."""
    error = {
        "type": "ProviderError",
        "message": "upstream 400: maximum context length is 128",
        "status_code": 400,
    }
    call = {"model": "m", "endpoint": "/chat/completions", "error": error}
    for calls, failed in (([call, call], True), ([call, {"model": "m", "node": 1}], False), ([], False)):
        trace = fakes.trace("tr1", [], 0.0, calls=calls, ok=True, errors=[])
        record = fakes.episode(1, 0.0, traces=[trace])
        sample = rows.episode_sample(record, 0)
        assert (sample.failed, sample.reward) == (failed, 0.0)
        errors = rows.episode_transcript(record, sample).errors
        assert errors == (("ProviderError: upstream 400: maximum context length is 128",) if failed else ())


def test_the_agents_of_an_episode_have_a_reward_each() -> None:
    def trace(agent: str, *scores: float) -> dict[str, Any]:
        rewards = {f"r{number}": {"score": score, "weight": 1.0} for number, score in enumerate(scores)}
        return {"id": agent, "agent": {"name": agent}, "rewards": rewards, "nodes": []}

    traces = [trace("proposer", 0.5), trace("solver", 1.0), trace("solver", 0.0), trace("judge")]
    sample = rows.episode_sample({"id": "e", "ok": True, "traces": traces}, 0)
    assert sample.agents == "proposer 0.50, solver 0.50, judge"
    assert SampleTable([sample])[0].agents == sample.agents
    alone = rows.episode_sample({"id": "e", "ok": True, "traces": traces[1:3]}, 0)
    assert alone.agents == ""


def test_a_rollout_under_way_says_how_far_it_is() -> None:
    timing: dict[str, Any] = {}
    trace = {"timing": timing, "dispatch": {"task": 1}}
    stages = [rows.live_sample(trace, 0).stop]
    for span, moment in (("setup", "start"), ("agent", "start"), ("scoring", "start"), ("scoring", "end")):
        timing.setdefault(span, {})[moment] = 1.0
        stages.append(rows.live_sample(trace, 0).stop)
    assert stages == ["pending", "setup", "running", "scoring", "done"]
    failed = rows.live_sample({**trace, "errors": [{"type": "E"}]}, 0)
    assert (failed.stop, failed.failed) == ("error", True)


@pytest.fixture
def data_rows(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    path = request.config.rootpath / "tests/data/rollouts/tinyrl.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_orders_put_the_unknown_last() -> None:
    rewards = [0.5, math.nan, 0.1, 0.9]
    table = SampleTable(Sample(at, reward=reward) for at, reward in enumerate(rewards))
    assert sort_samples(table, "worst") == [2, 0, 3, 1]
    assert sort_samples(table, "best") == [3, 0, 2, 1]
    assert histogram(rewards, 2, 0.0, 1.0) == [1, 2]
