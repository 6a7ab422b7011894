"""The list of all runs: which of them, in which order, and what its title says."""

from __future__ import annotations

from tests.ui.run_cases import QUEUE, RUNS

from rltui.views.run_filter import parse_filter
from rltui.views.run_list import RunSelection, RunView, line_key, title_facts

QUEUED = QUEUE.entries


def test_living_runs_come_first_whatever_is_sorted_by() -> None:
    def names(view: RunView, **values: object) -> list[str]:
        selection = RunSelection(view, **values)  # type: ignore[arg-type]
        return [line_key(line) for line in selection.lines(RUNS, {}, QUEUED)]

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
    facts = title_facts(RUNS, selection, (), QUEUE.model_copy(update={"paused": "by ada"}), archive_key="A")
    texts = [fact.text for fact in facts]
    assert texts[0].endswith(" running")
    assert texts[1] == f"{len(QUEUED)} queued, paused"
    assert texts[-2].endswith(" archived (A)")
    assert texts[-1] == "by reward reversed"


def test_the_next_column_is_sorted_by_and_after_the_last_one_the_usual_order() -> None:
    selection = RunSelection(RunView(("name", "reward")))
    assert selection.sorted_beside(1).sort == "name"
    assert RunSelection(RunView(("name", "reward"), sort="reward")).sorted_beside(1).sort == ""
