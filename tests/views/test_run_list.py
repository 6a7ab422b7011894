"""The list of all runs: which of them, in which order, and what its title says."""

from __future__ import annotations

import pytest
from tests.fakes.runs import run_row, selected
from tests.ui.run_cases import QUEUE, RUNS

from rltui.core.runs.row import RunRow
from rltui.views.run_filter import parse_filter
from rltui.views.run_list import RunSelection, RunView, changes_among, line_key, shorten_changes, title_facts

QUEUED = QUEUE.entries


def test_living_runs_come_first_whatever_is_sorted_by() -> None:
    def names(view: RunView, **values: object) -> list[str]:
        selection = RunSelection(view, **values)  # type: ignore[arg-type]
        return [line_key(line) for line in selection.lines(selected(selection.query, RUNS), QUEUED)]

    assert names(RunView())[:3] == ["id-lr-lr3e-06", "id-lr-lr1e-06", "id-reverse-text-b"]
    assert names(RunView())[3:6] == ["queue:q1", "queue:q2", "id-lr-lr1e-05"]
    by_reward = names(RunView(sort="reward"))
    assert by_reward[:3] == ["id-reverse-text-b", "id-lr-lr1e-06", "id-lr-lr3e-06"]
    assert by_reward[5:7] == ["id-lr-lr1e-05", "id-baseline"]
    assert names(RunView(sort="reward", is_reversed=True))[0] == "id-lr-lr3e-06"
    grouped = names(RunView(is_grouped=True))
    assert grouped[:10] == [
        ":lr", "id-lr-lr3e-06", "id-lr-lr1e-06", "id-lr-lr1e-05",
        "id-baseline", "id-reverse-text-b", "id-collapsed", "id-half", "queue:q1", "queue:q2",
    ]  # fmt: skip
    assert "id-old" not in grouped
    assert "id-old" in names(RunView(), with_archived=True)
    assert "id-thrown-away" not in names(RunView(), with_archived=True)
    assert names(RunView(), filter=parse_filter("reward > 0.7 and not state == running")) == [
        "id-lr-lr1e-05", "id-baseline"
    ]  # fmt: skip


def test_the_title_says_how_many_run_wait_and_are_archived() -> None:
    selection = RunSelection(RunView(sort="reward", is_reversed=True))
    facts = title_facts(RUNS, selection, (), QUEUE.replace(paused="by ada"), archive_key="A")
    texts = [fact.text for fact in facts]
    assert texts[0].endswith(" running")
    assert texts[1] == f"{len(QUEUED)} queued, paused"
    assert texts[-2].endswith(" archived (A)")
    assert texts[-1] == "by reward reversed"
    serving = run_row("serving", state="done", is_alive=True)
    facts = title_facts([serving], RunSelection(), (), QUEUE.replace(entries=()), archive_key="A")
    assert [fact.text for fact in facts] == ["1 in total"], "it is done, though its server is up"


def test_the_next_column_is_sorted_by_and_after_the_last_one_the_usual_order() -> None:
    selection = RunSelection(RunView(("name", "reward")))
    assert selection.sorted_by_adjacent(1).sort == "name"
    assert RunSelection(RunView(("name", "reward"), sort="reward")).sorted_by_adjacent(1).sort == ""


STEPS = {"max_steps": (100, 200)}
LR, SEED = "trainer.optim.lr", "seed"


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        pytest.param(
            [run_row(f"{lr}", changed={**STEPS, LR: (1e-5, lr)}) for lr in (1e-6, 3e-6)],
            ["lr=1e-6", "lr=3e-6"],
            id="what-all-have-is-left-out",
        ),
        pytest.param(
            [run_row("parent", changed=STEPS), run_row("fork", parent="id-parent", changed={SEED: (0, 1)}),
             run_row("plain")],
            ["max_steps=200", "seed=1 max_steps=200", ""],
            id="a-fork-has-the-changes-of-its-parent",
        ),
        pytest.param(
            [run_row("parent", changed=STEPS), run_row("fork", parent="id-parent", changed={SEED: (0, 1)})],
            ["", "seed=1"],
            id="equal-through-the-parent",
        ),
        pytest.param(
            [run_row("parent", changed=STEPS),
             run_row("back", parent="id-parent", changed={"max_steps": (200, 100)})],
            ["max_steps=200", "max_steps=100"],
            id="a-value-taken-back-is-that-of-the-base",
        ),
        pytest.param(
            [run_row("a", group="g", changed={LR: (1e-5, 1e-6)}), run_row("b", group="g"), run_row("other")],
            ["lr=1e-6", "lr=1e-5", ""],
            id="a-sweep-has-the-value-of-the-base-too",
        ),
        pytest.param(
            [run_row("a", changed={"a.lr": (0, 1)}), run_row("b", changed={"b.lr": (0, 1)})],
            ["a.lr=1", "b.lr=1"],
            id="short-names-are-clear-in-all-rows",
        ),
        pytest.param([run_row("a", parent="id-a", changed=STEPS)], [""], id="damaged-its-own-parent"),
    ],
)  # fmt: skip
def test_changed_keys_are_those_in_which_the_rows_differ(rows: list[RunRow], texts: list[str]) -> None:
    assert list(changes_among(rows, {row.id: row for row in rows}).values()) == texts


@pytest.mark.parametrize(
    ("cells", "text"),
    [(30, "lr=1e-5 batch_size=128"), (19, "lr=1e-5 batch_…=128"), (5, "lr=1e-5 ba…=128")],
)
def test_values_of_changed_keys_are_never_cut_to_make_them_fit(cells: int, text: str) -> None:
    assert shorten_changes("lr=1e-5 batch_size=128", cells) == text
