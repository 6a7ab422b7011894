"""All example configs of four commits of prime-rl, converted step by step, and proved by its own models.

    RLTUI_PRIME_RL_CHECKOUTS=/opt/prime-rls pytest -m primerl -n 0 -s tests/prime_rl_configs/test_migration.py

`make_checkouts.py` makes that folder. The counts are those in `migration.txt`; it takes five minutes.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from tests.prime_rl_configs.corpus import MIGRATION, TREES, Way, groups, told

from rltui.frameworks import registry
from rltui.services.config.meaning import Meanings
from rltui.services.experiment import trust

pytestmark = [pytest.mark.primerl, pytest.mark.timeout(1800)]
VARIABLE = "RLTUI_PRIME_RL_CHECKOUTS"
COUNTS = Path(__file__).with_name("migration.txt")
SAID_OTHERWISE = ['set: inference.vllm.tool_call_parser: "auto" → "glm47"']
"""It follows from the model."""


def test_example_configs_mean_the_same_to_the_next_release(
    own_user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (folder := os.environ.get(VARIABLE)):
        pytest.skip(f"{VARIABLE} names no folder that make_checkouts.py made")
    checkouts = Path(folder)
    with closing(Meanings(MIGRATION, registry.get)) as meanings:
        way = Way(checkouts, meanings)
        for tree in TREES:
            trust.trust(checkouts / tree)  # a step asks the next one, too
        for tree in TREES:
            for paths in groups(checkouts / tree):
                way.go(paths, tree)
    text = told(way.steps)
    with capsys.disabled():
        print(f"\n{text}")
    assert not any(step.failed for step in way.steps.values())
    changed = [text for step in way.steps.values() for text in step.different if text.startswith("set: ")]
    assert changed == SAID_OTHERWISE, "a value that a file sets is another one afterwards"
    counts = text.partition("\n\n")[0]
    assert counts in COUNTS.read_text(), "write down the new counts, if they are better or explained"
