"""How runs are told."""

from __future__ import annotations

from tests.fakes.runs import run_row

from rltui.views.run import run_details, run_summary, sweep_texts


def test_a_run_at_a_glance() -> None:
    run = run_row("x", state="done", step=200, max_steps=200, tags=("baseline",), archived_at=1.0)
    assert run_summary(run).startswith("✓ done · step 200/200")
    assert run_summary(run).endswith("baseline · archived")


def test_all_that_is_known_of_one_by_labels() -> None:
    run = run_row("x", parent="p", parent_step=100, changed={"seed": (0, 1)}, note="")
    details = dict(run_details(run, {"p": "parent"}))
    assert details["from"] == ["forked from parent at step 100"]
    assert details["changed"] == ["seed 0 → 1"]
    assert details["note"] == [""]


def test_a_sweep_counts_its_runs_by_state() -> None:
    runs = [run_row("a", state="done"), run_row("b", state="failed"), run_row("c", state="done")]
    assert sweep_texts(runs)[:3] == ["3 runs", "2 done", "1 failed"]
