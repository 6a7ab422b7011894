"""A config that several frameworks would take: who decides."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.client.test_creation import ANY_SFT

from rltui.cli.choosing import answered, chosen_framework
from rltui.frameworks.registry import AmbiguousConfigError
from rltui.services.experiment_files import ControlFolder, ExperimentRecord


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def sft(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path]:
    monkeypatch.delenv("RLTUI_PRIME_RL", raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sft.toml"
    path.write_text(ANY_SFT)
    return (path,)


def test_the_command_line_decides(sft: tuple[Path]) -> None:
    assert chosen_framework(sft, None, "prime-rl-merged") == "prime-rl-merged"


def test_a_clear_config_needs_nobody(sft: tuple[Path]) -> None:
    sft[0].write_text(ANY_SFT + "[monitors]\n")
    assert chosen_framework(sft, None, None) is None


def test_a_person_is_asked(
    sft: tuple[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("2\n"))
    assert chosen_framework(sft, None, None) == "prime-rl-merged"
    assert "(--framework prime-rl-split)" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    with pytest.raises(AmbiguousConfigError):
        chosen_framework(sft, None, None)


def test_without_a_terminal_the_candidates_are_told(
    sft: tuple[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n"))
    with pytest.raises(AmbiguousConfigError) as caught:
        chosen_framework(sft, None, None)
    assert caught.value.exit_code == 3
    assert any(line.startswith("--framework prime-rl: ") for line in caught.value.details)


def test_nobody_is_asked_twice(sft: tuple[Path], tmp_path: Path) -> None:
    record = ExperimentRecord(
        "a", str(tmp_path / "a"), "/w", (str(sft[0]),), "/l.toml", "prime-rl-split", 1.0
    )
    ControlFolder(tmp_path / "a").write_record(record)
    assert chosen_framework(sft, None, None) == "prime-rl-split"


def test_the_checkout_at_hand_decides(sft: tuple[Path], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    (tmp_path / "packages" / "prime-rl-configs").mkdir(parents=True)
    assert chosen_framework(sft, None, None) is None


@pytest.mark.parametrize(
    ("answer", "choice"), [("1\n", "a"), (" 2 ", "b"), ("b", "b"), ("0", None), ("3", None), ("", None)]
)
def test_answers(answer: str, choice: str | None) -> None:
    assert answered(answer, ("a", "b")) == choice
