"""How long a run will be, from what it wrote down itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.services.runs.observed import written_max_steps


@pytest.mark.parametrize(
    ("name", "text", "steps"),
    [
        ("configs/trainer.json", '{"max_steps": 20, "model": {}}', 20),
        ("configs/sft.json", '{"max_steps": 7}', 7),
        ("configs/latest/resolved/trainer.json", '{"max_steps": 21}', 21),
        ("configs/resolved/sft.json", '{"max_steps": 8}', 8),
        ("configs/trainer.toml", "max_steps = 30\n", 30),
        ("run_default/control/orch.toml", "max_steps = 40\n", 40),
        ("configs/trainer.json", '{"max_steps": null}', None),
        ("configs/trainer.json", '{"max_steps": tr', None),
        ("configs/trainer.json", '["max_steps"]', None),
        ("configs/trainer.toml", "max_steps = true\n", None),
        ("logs/rl.log", "max_steps = 3", None),
    ],
)
def test_first_that_says_so(tmp_path: Path, name: str, text: str, steps: int | None) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    assert written_max_steps(tmp_path) == steps


def test_a_file_without_it_leaves_it_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "trainer.json").write_text("{}")
    (tmp_path / "configs" / "sft.json").write_text('{"max_steps": 9}')
    assert written_max_steps(tmp_path) == 9
