"""How evaluations are told: in which order, and beside what."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import NOW
from tests.ui.eval_cases import REPORT

from rltui.views.evaluation import VIEW, compared
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
