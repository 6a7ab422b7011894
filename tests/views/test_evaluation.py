"""How evaluations are told: in which order, and beside what."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import NOW
from tests.ui.eval_cases import REPORT

from rltui.core.runs.evals import EvalReport, training_evals
from rltui.views.evaluation import VIEW, compared, eval_summary
from rltui.views.table import Arranged


@pytest.mark.parametrize(
    ("steps", "ids"), [(0, "81234576"), (1, "87654321"), (2, "86432715"), (3, "81234576")], ids=str
)
def test_they_are_ordered_from_base_to_the_last_step_by_time_and_by_the_mean(steps: int, ids: str) -> None:
    arranged = Arranged(VIEW)
    arranged.sort(steps)
    assert "".join(row.evaluation.id for row in arranged.listed(compared(REPORT.evaluations))) == ids


def test_the_one_that_a_person_chose_is_what_all_are_compared_with() -> None:
    evaluation = next(candidate for candidate in REPORT.evaluations if candidate.id == "1")
    (standing,) = VIEW.named(["difference"], is_brief=True)
    cells = {row.evaluation.id: standing.cell(row, NOW) for row in compared(REPORT.evaluations, evaluation)}
    assert cells["1"].text == "baseline"
    assert cells["4"].text.endswith("▲")
    assert cells["4"].role == "good"


def test_evaluations_while_it_trains_are_a_line_for_each_environment_the_newest_first() -> None:
    metrics = {
        0: {
            "eval/a/effective/agent/reward/mean": 0.1,
            "eval/b/effective/agent/reward/mean": 0.2,
            "loss": 1.0,
        },
        25: {"eval/a/all/cancelled/mean": 0.5},
        50: {"eval/a/effective/agent/reward/mean": 0.4, "eval/a/all/cancelled/mean": 0.5},
    }
    report = EvalReport(experiment="x", training=training_evals(metrics))
    assert eval_summary(report) == [
        "a while training: 0.400 at step 50, cancelled at 25, 0.100 at 0",
        "b while training: 0.200 at step 0",
    ]
