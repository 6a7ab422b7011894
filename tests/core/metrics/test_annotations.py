from __future__ import annotations

from typing import Any

import pytest

from rltui.core.experiment.journal import JournalEntry
from rltui.core.metrics.annotations import Annotation, AnnotationKind, annotations_of


def entry(kind: str, text: str = "what", **fields: Any) -> JournalEntry:
    """One at the second of its step."""
    return JournalEntry(at=float(fields.get("step") or 0), kind=kind, text=text, **fields)


def test_the_story_of_a_run_is_a_mark_for_each_turn() -> None:
    pair = {"stop": ["trainer", "orchestrator"], "start": ["orchestrator", "trainer"]}
    journal = [
        entry("supervisor", "supervisor started"),
        entry("plan", "start orchestrator, trainer", data={"stop": [], "start": ["orchestrator", "trainer"]}),
        entry("resume", "from the start", data={"step": None}),
        entry("ready", "trainer ready", component="trainer"),
        entry("checkpoint", "checkpoint 10", step=10),
        entry("edit", "lr 1e-5 → 1e-4", step=12),
        entry("plan", "stop trainer, orchestrator; start orchestrator, trainer", step=12, data=pair),
        entry("resume", "from checkpoint 10", step=10, data={"step": 10}),
        entry("plan", "done in 4s: …", step=12, data={"plan_s": 4.0}),
        entry("note", "looks better", step=14),
        entry("exit", "trainer failed: killed", component="trainer", step=15, data={"failed": True}),
        entry("alert", "trainer failed: …", step=15, data={"alert": "crash", "severity": "error"}),
        entry("alert", "reward collapsed: …", step=16, data={"alert": "notice", "severity": "warning"}),
        entry("exit", "trainer stopped", step=17, data={"stopped": True}),
    ]
    assert annotations_of(journal) == (
        Annotation(10.0, 10, AnnotationKind.CHECKPOINT, "checkpoint 10"),
        Annotation(12.0, 12, AnnotationKind.EDIT, "lr 1e-5 → 1e-4", line_step=10),
        Annotation(12.0, 12, AnnotationKind.RESTART, "restart orchestrator, trainer", line_step=10),
        Annotation(10.0, 10, AnnotationKind.RESUME, "resumed from checkpoint 10"),
        Annotation(14.0, 14, AnnotationKind.NOTE, "looks better"),
        Annotation(15.0, 15, AnnotationKind.CRASH, "trainer failed: killed", "trainer"),
        Annotation(16.0, 16, AnnotationKind.ALERT, "reward collapsed: …"),
    )


def test_what_lies_on_an_abandoned_line_has_no_place_on_the_new_one() -> None:
    pair = {"stop": ["trainer"], "start": ["trainer"]}
    journal = [
        entry("resume", "from the start", data={"step": None}),
        entry("alert", "reward dropped: …", step=3, data={"alert": "notice", "severity": "warning"}),
        entry("edit", "lr 1 → 2", step=5),
        entry("plan", "…", step=6, data=pair),
        entry("resume", "from checkpoint 4", step=4, data={"step": 4}),
        entry("checkpoint", "checkpoint 8", step=8),
        entry("edit", "lr 2 → 3", step=9),
        entry("plan", "…", step=9, data=pair),
        entry("resume", "from the start", data={"step": None}),
        entry("checkpoint", "checkpoint 4", step=4),
    ]
    annotations = [
        (mark.kind.value, mark.step, mark.line_step, mark.is_abandoned) for mark in annotations_of(journal)
    ]
    assert annotations == [
        ("alert", 3, None, True),
        ("edit", 5, 4, True),  # the new line has it from its beginning
        ("restart", 6, 4, True),
        ("resume", 4, None, True),
        ("checkpoint", 8, None, True),
        ("edit", 9, None, True),
        ("restart", 9, None, True),
        ("resume", None, None, False),
        ("checkpoint", 4, None, False),
    ]


def test_what_has_no_step_lies_on_the_line_of_what_came_before() -> None:
    """Finding U8: a crash before the first step was drawn at the first step of the line after it."""
    journal = [
        entry("resume", "from the beginning", data={"step": None}),
        entry("exit", "inference failed", component="inference", data={"failed": True}),
        entry("resume", "from the beginning", data={"step": None}),
        entry("note", "before"),
        entry("checkpoint", "checkpoint 8", step=8),
        entry("note", "on the line that is left"),
        entry("resume", "from checkpoint 4", step=4, data={"step": 4}),
        entry("note", "after"),
    ]
    places = [(mark.text, mark.is_abandoned) for mark in annotations_of(journal) if mark.step is None]
    assert places == [
        ("inference failed", True),
        ("resumed from the beginning", False),
        ("before", False),
        ("on the line that is left", True),
        ("after", False),
    ]


def test_only_the_first_beginning_is_none() -> None:
    begin = [
        entry("plan", "start trainer", data={"action": "start", "start": ["trainer"], "stop": []}),
        entry("resume", "from the start", data={"step": None}),
    ]
    assert [mark.kind for mark in annotations_of([*begin, *begin])] == [AnnotationKind.RESUME]


def test_a_start_that_a_policy_promised_is_a_restart() -> None:
    data = {"action": "restart", "start": ["trainer"], "stop": []}
    assert [mark.text for mark in annotations_of([entry("plan", "start trainer", data=data)])] == [
        "start trainer"
    ]


def test_a_run_that_begins_from_a_checkpoint_says_so() -> None:
    annotations = annotations_of([entry("resume", "from checkpoint 40", step=40, data={"step": 40})])
    assert [(mark.kind, mark.step) for mark in annotations] == [(AnnotationKind.RESUME, 40)]


@pytest.mark.parametrize(
    "data",
    [{"start": "trainer", "stop": 3}, {"start": [None], "stop": [{}]}, {"start": {"a": 1}, "stop": [1]}],
)
def test_data_of_another_shape_is_told_by_its_text(data: dict[str, Any]) -> None:
    assert [mark.text for mark in annotations_of([entry("plan", "stop a; start b", data=data)])] == [
        "stop a; start b"
    ]
