"""What no schema says: every concept is a key of some release, and each generation has its main knobs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.frameworks.prime_rl.runs import framework

from rltui.frameworks.base import ConfigFile
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, OVERLAY, PARTS, SPLIT, snapshots

FIXTURES = Path(__file__).parents[2] / "data" / "prime_rl"
FILES = {"train": "trainer", "orch": "orchestrator", "infer": "inference"}


def known_keys() -> set[str]:
    found = set()
    for generation, roles in ((SPLIT, (*PARTS, "sft")), (MERGED, ("rl", "sft")), (CURRENT, ("rl", "sft"))):
        for role in roles:
            start = "" if role == "rl" else f"{role}."
            found |= {start + key for schema in snapshots(generation, role) for key in schema.keys}
    return found


def test_every_concept_is_a_key_of_some_release() -> None:
    known = known_keys()
    lost = [name for name, each in OVERLAY.concepts.items() if known.isdisjoint(each.keys)]
    assert lost == ["inference.vllm.max_num_seqs"]  # vLLM's own, which no schema of prime-rl names


def test_what_a_shared_key_fills_is_there_in_some_release() -> None:
    known = known_keys()
    assert [name for names in OVERLAY.shared.values() for name in names if name not in known] == []


@pytest.mark.parametrize(
    ("generation", "era"), [(SPLIT, "era_a"), (MERGED, "era_b"), (CURRENT, "era_c"), (CURRENT, "era_d")]
)
def test_each_generation_has_a_screenful_of_main_knobs(generation: str, era: str) -> None:
    files = {}
    for path in (FIXTURES / era).glob("*.toml"):
        role = FILES.get(path.stem, path.stem)
        if role != "sft":
            files[role] = ConfigFile(role, str(path), tomllib.loads(path.read_text()))
    main = [knob for knob in framework(generation).knobs(files) if knob.main]
    assert 15 < len(main) < 50
    assert all(knob.help.endswith(".") and knob.readers for knob in main)
