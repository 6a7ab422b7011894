from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltui.tinyrl import __main__ as program


@pytest.fixture(autouse=True)
def restored_signals() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tinyrl", *words])
    return program.main()


@pytest.mark.parametrize("name", ["inference", "orchestrator", "trainer", "sft", "eval"])
def test_help_lists_every_key(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, name, "--help") == 0
    text = capsys.readouterr().out
    assert "--max-steps" in text
    assert ("--num-examples  (20)" in text) == (name == "eval")
    assert ("--data.batch-size" if name == "sft" else "--orchestrator.rollouts-per-example  (1)") in text


def test_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--help") == 0
    assert run(monkeypatch) == 2
    assert run(monkeypatch, "train") == 2
    assert "unknown program `train`" in capsys.readouterr().err


def test_config_errors_are_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "rl.toml"
    path.write_text("max_step = 3\n")
    assert run(monkeypatch, "trainer", "@", str(path)) == 1
    assert capsys.readouterr().err == f"{path}: max_step: unknown key. Did you mean max_steps?\n"


def test_missing_torch_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "find_spec", lambda name: None if name == "torch" else object())
    assert run(monkeypatch, "trainer") == 1
    assert "needs torch" in (text := capsys.readouterr().err)
    assert "pip install 'rltui[local]'" in text


def test_busy_port_is_named_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run(monkeypatch, "inference", "--inference.server.port", str(port)) == 1
    expected = f"[Errno 98] Address already in use: ('127.0.0.1', {port})"
    assert expected in capsys.readouterr().err
