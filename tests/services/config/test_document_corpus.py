"""Every key of every config there is can be edited alone."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from tests.params import slow_but

from rltui.base.toml.values import TomlValue
from rltui.core.config.report import KnobInfo
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.config.document import ConfigDocument

PRIME_RL = registry.get("prime-rl")
PRIME_RL_MERGED = registry.get("prime-rl-merged")
PRIME_RL_SPLIT = registry.get("prime-rl-split")

ROOT = Path(__file__).parents[3]
CONFIGS: dict[str, tuple[Framework, tuple[str, ...]]] = {
    "era_c-rl": (PRIME_RL, ("tests/data/prime_rl/era_c/rl.toml",)),
    "era_c-sft": (PRIME_RL, ("tests/data/prime_rl/era_c/sft.toml",)),
    "era_b-rl": (PRIME_RL_MERGED, ("tests/data/prime_rl/era_b/rl.toml",)),
    "era_b-sft": (PRIME_RL_MERGED, ("tests/data/prime_rl/era_b/sft.toml",)),
    "era_a-rl": (
        PRIME_RL_SPLIT,
        tuple(f"tests/data/prime_rl/era_a/{name}.toml" for name in ("train", "orch", "infer")),
    ),
    "era_a-sft": (PRIME_RL_SPLIT, ("tests/data/prime_rl/era_a/sft.toml",)),
    "tinyrl": (TINYRL, ("examples/reverse_text/rl.toml",)),
}


def another(row: KnobInfo) -> TomlValue:
    """A value that the row does not hold."""
    match row.value:
        case bool():
            return not row.value
        case int() | float():
            _, high = row.bounds
            doubled = row.value * 2 or 1
            return doubled if high is None or doubled <= high else row.value / 2
        case list():
            return [*row.value, "more"] if not row.value else row.value[:-1]
    return next(choice for choice in (*row.choices, f"{row.value}x") if choice != row.value)


@pytest.mark.parametrize("config", slow_but(CONFIGS, "era_b-sft"))
def test_each_key_is_edited_in_its_own_line(config: tuple[Framework, tuple[str, ...]]) -> None:
    framework, paths = config
    document = ConfigDocument([ROOT / path for path in paths], framework, components=["trainer"])
    table = document.knob_table({})
    rows = [row for row in (*table.knobs, *table.others) if row.is_set]
    assert len(rows) > 5
    for row in rows:
        proposal = document.with_edits({row.key: another(row)})
        assert proposal.readers, row.key
        (change,) = proposal.changes.values()
        assert len(change.keys) == 1
        before, after = (file.text.splitlines() for file in (change.before, change.after))
        changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
        assert [line[0] for line in changed] == ["-", "+"], row.key
        removed = document.with_edits({row.key: None})
        assert removed.diff.count("\n-") == 1
