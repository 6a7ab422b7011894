"""What prime-rl's own models made of configs before and after they were converted, as recorded from them.

`RECORD=1 RLTUI_PRIME_RL_CHECKOUTS=FOLDER` asks them again; `tests/prime_rl_configs/make_checkouts.py` makes
that folder. Releases without a checkout are read by the shipped schemas.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.prime_rl.test_migration import CASES, again, read

from rltui.core.config.equivalence import Resolved, equivalence
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFile
from rltui.frameworks.migration import ConfigRelease
from rltui.frameworks.prime_rl import meaning, migration
from rltui.services.config.meaning import Meanings
from rltui.services.experiment import trust
from rltui.views.equivalence import equivalence_lines

FOLDER = Path(__file__).parents[2] / "data" / "prime_rl" / "meanings"
CHECKOUTS = {"A": "A1", "B": "B1", "C": "C"}
"""Release → folder of its checkout."""
RECORDED = [case for case in CASES if os.environ.get("RECORD") or (FOLDER / f"{case.name}.json").exists()]
"""What the models of its own release refuse is not."""
FIRST = {"a": "A", "b": "B", "c": "C"}


def asked(files: dict[str, ConfigFile], release: ConfigRelease) -> dict[str, Any]:
    checkout = Path(os.environ["RLTUI_PRIME_RL_CHECKOUTS"]) / CHECKOUTS[release.name]
    trust.trust(checkout)
    framework = registry.get("prime-rl")
    assert framework.migration is not None
    with closing(Meanings(framework.migration, registry.get)) as meanings:
        found = meanings.of(files, release, checkout)
        assert found.is_own, meanings.reason
        return dict(found.values)


@pytest.mark.parametrize("case", RECORDED, ids=lambda path: path.name)
def test_both_generations_read_the_same(case: Path, own_user: Path) -> None:
    recorded_file = FOLDER / f"{case.name}.json"
    recorded = {} if os.environ.get("RECORD") else json.loads(recorded_file.read_text())
    files = read(sorted(path for path in case.glob("*.toml") if not path.name.startswith("to_")))
    source = next(release for release in migration.RELEASES if release.name == FIRST[case.name[0]])
    for target in migration.RELEASES:
        if target.day <= source.day or target.name not in CHECKOUTS:
            continue
        converted = [again(file) for file in migration.migrate(files, target, source).files]
        before, after = ({file.role: file for file in some} for some in (files, converted))
        data = {role: file.data for role, file in after.items()}
        if os.environ.get("RECORD"):
            recorded.setdefault(source.name, asked(before, source))
            recorded[target.name] = {"data": data, "values": asked(after, target)}
        old = Resolved(recorded[source.name], f"models of {source.name}", is_own=True)
        new = Resolved(recorded[target.name]["values"], f"models of {target.name}", is_own=True)
        assert data == recorded[target.name]["data"], "converted otherwise: record what the models make of it"
        found = equivalence(old, new, meaning.moved(old, before, source, target), meaning.set_values(before))
        lines = sorted(equivalence_lines(found))
        if os.environ.get("RECORD"):
            recorded[target.name]["told"] = lines
        assert lines == sorted(recorded[target.name]["told"])
    if os.environ.get("RECORD") and len(recorded) > 1:
        FOLDER.mkdir(exist_ok=True)
        recorded_file.write_text(json.dumps(recorded, separators=(",", ":"), sort_keys=True) + "\n")
