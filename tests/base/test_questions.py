"""A question travels by its declaration: arguments and answers come out as they went in, or are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from rltui.base.protocol import plain
from rltui.base.questions import Question, command, question, question_of, questions_of, remote_method
from rltui.base.values import Value
from rltui.core.runs.checkpoints import Retention
from rltui.errors import UsageError

if TYPE_CHECKING:
    from rltui.core.runs.evals import EvalRequest


@dataclass(frozen=True)
class Point:
    x: int
    label: str = ""


class Declared:
    """Asked here, answered by `Answering`."""

    def __init__(self, answering: object) -> None:
        self.answering = answering

    def ask_now(self, question: Question, arguments: Mapping[str, Any]) -> Any:
        """Over text, as a line carries it."""
        request = json.loads(json.dumps(question.encode(arguments), default=plain))
        answer = getattr(self.answering, question.name)(**question.decode(request))
        return question.decode_answer(json.loads(json.dumps(answer, default=plain)))

    @question()
    def nearest(self, id_: str, points: tuple[Point, ...], most: float = 2.0) -> Point | None:
        """The nearest one."""

    @command()
    def keep(self, retention: Retention) -> int:  # type: ignore[empty-body]
        """A single value travels as its fields."""

    @question(starts_supervisor=True)
    def evaluate(self, request: EvalRequest) -> str:  # type: ignore[empty-body]
        """Its types are imported for the type checker alone."""


class Answering:
    def nearest(self, id_: str, points: tuple[Point, ...], most: float) -> Point | None:
        assert (id_, most) == ("a", 2.0)
        return min(points, key=lambda point: point.x, default=None)

    def keep(self, retention: Retention) -> int:
        return retention.keep_last

    def evaluate(self, request: EvalRequest) -> str:
        return type(request).__name__

    @remote_method
    def count(self, stop: int) -> Iterator[Point]:
        """A stream."""
        yield from (Point(number) for number in range(stop))


def test_arguments_and_answers_travel_by_their_types() -> None:
    asking = Declared(Answering())
    assert asking.nearest("a", (Point(3), Point(1, "one"))) == Point(1, "one")
    assert asking.nearest("a", ()) is None
    assert asking.keep(Retention(keep_last=7)) == 7
    from rltui.core.runs.evals import EvalRequest

    assert asking.evaluate(EvalRequest()) == "EvalRequest"


def test_what_travels_is_named_as_the_declaration_says() -> None:
    questions = questions_of(Declared)
    assert {name: (question.changes, question.starts_supervisor) for name, question in questions.items()} == {
        "nearest": (False, False),
        "keep": (True, True),
        "evaluate": (False, True),
    }
    arguments = questions["nearest"].arguments(None, "a", (Point(1),))
    assert questions["nearest"].encode(arguments) == {"id": "a", "points": (Point(1),), "most": 2.0}
    assert questions["keep"].encode({"retention": Retention(keep_last=5)})["keep_last"] == 5
    assert plain(Value()) == {}


@pytest.mark.parametrize("params", [None, {}, {"id": "a", "points": 3}, {"id": 3, "points": []}])
def test_other_arguments_are_refused_in_words(params: dict[str, Any] | None) -> None:
    with pytest.raises(UsageError, match=r"request: (id|points)"):
        questions_of(Declared)["nearest"].decode(params)


def test_of_a_stream_each_answer_travels() -> None:
    stream = question_of(Answering.count)
    assert stream.is_stream
    assert stream.decode_answer({"x": 1}) == Point(1)
