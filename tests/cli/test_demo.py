"""`rltui demo` where there is one already."""

from __future__ import annotations

import tomllib
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.conftest import planned

from rltui.cli import status_text
from rltui.cli.commands import demo
from rltui.client.demo import demo_request, evaluations
from rltui.core.gpu.devices import NO_DEVICES
from rltui.tinyrl.config import RlConfig


def test_without_a_screen_none_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finding A13: `demo --no-tui` opened the app where the demo runs already."""
    known = SimpleNamespace(name="demo", output_dir=str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    monkeypatch.setattr(demo, "find_experiment", lambda _: known)
    monkeypatch.setattr("rltui.client.launch.is_running", lambda _: True)
    monkeypatch.setattr(demo, "read_status", lambda _: {"experiment": "demo"})
    monkeypatch.setattr(status_text, "as_text", lambda told, **_: f"{told['experiment']} runs\n")
    monkeypatch.setattr(demo, "show", lambda _: pytest.fail("the app was opened"))
    assert demo.demo(Namespace(no_tui=True, output_dir=str(tmp_path))) == 0
    assert capsys.readouterr().out == "demo runs\n"


@pytest.mark.parametrize("is_quick", [False, True])
def test_its_evaluations_leave_room_for_the_longest_prompt(
    own_user: Path, tmp_path: Path, is_quick: bool
) -> None:
    """With words of 14 letters, every tenth rollout was refused: 17 + 112 tokens are more than 128."""
    (config_file,) = demo_request(tmp_path / "demo", is_quick=is_quick).config.files
    config = RlConfig.model_validate(tomllib.loads(config_file.read_text()))
    longest = config.orchestrator.env[0].args.max_chars + 3  # user, end, assistant
    for evaluation in evaluations():
        assert (evaluation.max_tokens or 0) + longest <= config.inference.model.max_model_len


def test_it_takes_no_gpu(own_user: Path, tmp_path: Path) -> None:
    """On an H200 it took 126 GiB, so its start asked whether to start anyway."""
    assert demo_request(tmp_path / "demo").devices == NO_DEVICES


def test_a_second_folder_gets_a_demo_of_another_name(own_user: Path, tmp_path: Path) -> None:
    """`rltui demo` in another folder said that the name is taken, and has no option for another."""
    first = demo_request(tmp_path / "a/demo")
    planned(first.config.files[0], name="demo")
    assert (first.name, demo_request(tmp_path / "b/demo").name) == ("demo", "demo-2")
    assert demo_request(tmp_path / "a/demo").name == "demo-2", "beside the first"


def test_another_name_is_said_before_the_start(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    monkeypatch.setattr(demo, "start_headless", lambda *_, **__: 0)
    planned(demo_request(tmp_path / "a/demo").config.files[0], name="demo")
    arguments = Namespace(no_tui=True, output_dir=str(tmp_path / "b/demo"), quick=False)
    assert demo.demo(arguments) == 0
    assert capsys.readouterr().err == (
        f"there is a run demo already; this one is demo-2, in {tmp_path / 'b/demo'}\n"
    )
