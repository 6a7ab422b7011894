from __future__ import annotations

import pytest

from rltui.core.gpu.budget import RULES, VllmRule, rule
from rltui.core.text import GIB
from rltui.frameworks.memory import MEMORY


@pytest.mark.parametrize(
    ("version", "utilization", "graphs_in_budget"),
    [
        ((0, 10), 0.9, False),
        ((0, 16), 0.9, False),
        ((0, 18), 0.9, False),
        ((0, 21), 0.92, True),
        ((0, 32), 0.92, True),
        ((1, 0), 0.92, True),
        (None, 0.92, True),
    ],
)
def test_a_version_has_its_rule(
    version: tuple[int, int] | None, utilization: float, graphs_in_budget: bool
) -> None:
    found = rule(version)
    assert (found.default_utilization, found.graphs_in_budget) == (utilization, graphs_in_budget)


def test_only_from_0_14_on_the_error_names_the_device() -> None:
    assert [rule(version).names_device for version in ((0, 12), (0, 14))] == [False, True]


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: str(entry.since))
def test_what_is_predicted_reads_like_what_vllm_says(entry: VllmRule) -> None:
    pattern = next(pattern for pattern in MEMORY if pattern.name == "F_FREE")
    text = entry.refusal(
        free_bytes=5 * GIB, usable_bytes=23 * GIB, utilization=0.8, budget_bytes=18 * GIB, local_device=2
    )
    found = pattern.compiled.search(text)
    assert found
    assert found.groupdict() | {"free": "5.00", "total": "23.00", "want": "18.00"} == found.groupdict()
