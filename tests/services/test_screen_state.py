"""State that screens keep between sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.services.screen_state import load_state, save_state, state_file

LONG = "a" * 80


@pytest.mark.parametrize(("one", "other"), [("lab/a", "lab-a"), (LONG, f"{LONG}b")], ids=["signs", "length"])
def test_owners_whose_names_are_alike_have_a_file_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    save_state(one, {"sort": "reward"})
    assert load_state(other) == {}
    assert load_state(one) == {"sort": "reward"}
    assert state_file("runs").name == "runs.json"
