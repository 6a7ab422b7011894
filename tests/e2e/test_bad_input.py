"""Bad input: one screen that says what to do, the exit code of the contract, no traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.conftest import Box

pytestmark = pytest.mark.e2e

GOOD = """\
seed = 0
max_steps = 20
[model]
name = "model"
[orchestrator]
batch_size = 128
rollouts_per_example = 16
[[orchestrator.env]]
id = "reverse-text"
[trainer.optim]
lr = 3e-4
[inference]
"""


def refused(result: subprocess.CompletedProcess[str], code: int, *texts: str) -> None:
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) <= 24
    for text in texts:
        assert text in result.stderr, result.stderr


@pytest.fixture
def good(box: Box) -> Box:
    (box.work / "rl.toml").write_text(GOOD)
    (box.work / "model").mkdir()
    (box.work / "model/config.json").write_text("{}")  # nobody need make it
    return box


def test_missing_file(box: Box) -> None:
    refused(box.run("up", "nothing.toml"), 2, "file not found", "nothing.toml")


def test_toml_syntax_error_has_a_place(box: Box) -> None:
    (box.work / "rl.toml").write_text("max_steps = 20\n[orchestrator\nbatch_size = 1\n")
    refused(box.run("up", "rl.toml"), 3, "rl.toml:2:")


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (("batch_size = 128", "batch_sise = 128"), ("batch_sise", "batch_size", "rl.toml:6")),
        (("batch_size = 128", "batch_size = 100"), ("batch_size", "rollouts_per_example", "96", "112")),
        (("batch_size = 128", 'batch_size = "many"'), ("batch_size", "rl.toml:6")),
        (("max_steps = 20", "max_steps = -1"), ("max_steps", "rl.toml:2")),
    ],
    ids=["unknown key", "rule", "type", "bound"],
)
def test_config_errors(good: Box, change: tuple[str, str], texts: tuple[str, ...]) -> None:
    (good.work / "rl.toml").write_text(GOOD.replace(*change))
    for command in ("up", "check"):
        result = good.run(command, "rl.toml")
        output = result.stderr + result.stdout
        assert result.returncode == 3, output
        assert "Traceback" not in output
        for text in texts:
            assert text in output
    assert not (good.work / "outputs").exists(), "nothing was written"


def test_unknown_layout(good: Box) -> None:
    refused(good.run("up", "rl.toml", "-l", "tinyrll"), 2, "unknown layout: tinyrll", "did you mean tinyrl?")


def test_unwritable_output_folder(good: Box) -> None:
    (good.work / "file").write_text("")
    refused(good.run("up", "rl.toml", "-o", "file/below"), 1, "file/below", "-o")


def test_full_disk(good: Box) -> None:
    mount = good.root / "full"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=6", "tmpfs", str(mount)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a full disk needs a small tmpfs, which needs root")
    try:
        (mount / "ballast").write_bytes(b"x" * 60_000)
        refused(good.run("up", "rl.toml", "-o", str(mount / "out")), 1, str(mount))
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_tmux_missing(good: Box) -> None:
    bare = Box(good.root, {**good.env, "PATH": str(good.root / "empty")})
    refused(bare.run("up", "rl.toml"), 1, "tmux", "install")


def test_tmux_too_old(good: Box) -> None:
    folder = good.root / "old"
    folder.mkdir()
    (folder / "tmux").write_text("#!/bin/sh\necho tmux 2.9\n")
    (folder / "tmux").chmod(0o755)
    old = Box(good.root, {**good.env, "PATH": f"{folder}:/bin:/usr/bin"})
    refused(old.run("up", "rl.toml"), 1, "2.9", "3.2")


def test_torch_missing(good: Box) -> None:
    """Seen from the manager: the demo says it before anything is made."""
    blocker = good.root / "block"
    blocker.mkdir()
    (blocker / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else find(name, *a)\n"
    )
    box = Box(good.root, {**good.env, "PYTHONPATH": str(blocker)})
    refused(box.run("demo"), 1, "torch", "rltui[local]")
    assert not Path(good.work / "outputs").exists()


def test_unknown_experiment_and_component(box: Box) -> None:
    refused(box.run("status", "nobody"), 2, "nobody", "no runs yet")
    refused(box.run("knobs"), 2, "no runs yet", "rltui up")


@pytest.mark.parametrize("arguments", [("up",), ("set",), ("gpus", "--wrong"), ("logs", "many", "-c", "x")])
def test_usage(box: Box, arguments: tuple[str, ...]) -> None:
    assert box.run(*arguments).returncode == 2


def test_errors_as_json_for_scripts(box: Box) -> None:
    result = box.run("status", "nobody", "--json")
    assert result.returncode == 2
    assert '"exit_code": 2' in result.stdout


def test_tui_without_a_terminal(box: Box) -> None:
    result = box.run("--help")
    assert result.returncode == 0
    assert "\n  demo   train a small model on the CPU, to try rltui\n" in result.stdout
    refused(box.run(), 2, "the TUI needs a terminal", "rltui up CONFIG.toml")


def test_a_demo_folder_whose_name_does_not_suit_is_not_made(box: Box) -> None:
    """Finding H11: the refused demo left its folder behind."""
    refusal = box.run("demo", "--no-tui", "-o", "a.b")
    assert (refusal.returncode, "not a name" in refusal.stderr) == (3, True)
    assert list(box.work.iterdir()) == []
