from __future__ import annotations

from rltui.frameworks import registry
from rltui.frameworks.prime_rl.main_knobs import MAIN_OF_SPLIT_FILES

GENERATIONS = [registry.get(name) for name in ("prime-rl", "prime-rl-merged", "prime-rl-split")]


def test_every_main_knob_is_one_of_some_generation() -> None:
    known = {knob.name for framework in GENERATIONS for knob in framework.knobs}
    assert [name for name in MAIN_OF_SPLIT_FILES if name not in known] == []


def test_each_generation_has_a_screenful_of_main_knobs() -> None:
    for framework in GENERATIONS:
        names = {knob.name for knob in framework.knobs}
        assert 15 < len(names & set(framework.main_knobs)) < 50
