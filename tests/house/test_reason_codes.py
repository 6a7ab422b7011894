"""The codes of errors, refusals and states against the source that gives them."""

from __future__ import annotations

import re

from tests.house.source import ROOT

from rltui.cli.help_pages import page
from rltui.core.experiment.reason_codes import GROUPS, REASON_CODES
from rltui.core.metrics.health.findings import RULES

GIVEN = re.compile(
    r"""\bcode(?:: str)? ?= ?(?:[\w.]+ or )?"([a-z]\w*)"|\b(?:Reason|_about)\(\s*"([a-z]\w*)\""""
)
"""A code where the source gives it: to an error, a problem, a pattern, a transition; or to a run."""
TABLE = ROOT / "rltui/core/experiment/reason_codes.py"


def test_every_code_has_its_row_and_every_row_is_given_somewhere() -> None:
    text = "\n".join(
        file.read_text()
        for file in (ROOT / "rltui").rglob("*.py")
        if file != TABLE and file.parts[-2] != "tinyrl"
    )
    given = {match[1] or match[2] for match in GIVEN.finditer(text)}
    assert not given - REASON_CODES.keys()
    assert not {code for code in REASON_CODES if f'"{code}"' not in text}
    assert GROUPS["health of a run"].keys() == RULES.keys()
    assert len(REASON_CODES) == sum(map(len, GROUPS.values())), "a code stands in two groups"


def test_the_help_page_has_every_code_with_its_sentence() -> None:
    text = " ".join(page("reasons").split())
    assert not {code for code, row in REASON_CODES.items() if f"{code} {row.text}" not in text}
