"""What shells complete."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Box

from rltui.cli.completion import script

PRESS_TAB = """
rltui() { "$PYTHON" -m rltui "$@"; }
source <(rltui completion bash)
COMP_WORDS=("${@}"); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
_rltui
printf '%s\\n' "${COMPREPLY[@]}"
"""
RECORD = """
from pathlib import Path
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
folder = Path(FOLDER)
record = ExperimentRecord(
    name="reverse", output_dir=str(folder), workspace=str(folder), config_files=(), layout_file="/l.toml",
    framework="generic", created_at=1.0,
)
control = ControlFolder(folder)
control.write_record(record)
for name in ("trainer", "$(touch HACKED)"):
    (control.path / "components" / name / "attempt-1").mkdir(parents=True)
"""


def completed(box: Box, *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", PRESS_TAB, "bash", *words],
        env={**box.env, "PYTHON": sys.executable},
        cwd=box.work,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.slow
def test_bash_completes_commands_names_components_and_options(box: Box) -> None:
    folder = box.work / "out"
    folder.mkdir()
    code = RECORD.replace("FOLDER", repr(str(folder)))
    subprocess.run([sys.executable, "-c", code], env=box.env, check=True)
    (box.work / "rl.toml").touch()
    assert completed(box, "rltui", "stat") == ["status"]
    assert set(completed(box, "rltui", "r")) >= {"restart", "reverse", "redo", "rl.toml"}
    assert completed(box, "rltui", "restart", "t") == ["trainer"]
    assert completed(box, "rltui", "logs", "trainer", "-n", "") == ["reverse"]
    assert "--from-scratch" in completed(box, "rltui", "restart", "--fr")
    completed(box, "rltui", "logs", "")
    assert not (box.work / "HACKED").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_understood_by_their_shell(shell: str, tmp_path: Path) -> None:
    text = script(shell)
    assert "restart" in text
    path = tmp_path / "script"
    path.write_text(text)
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    subprocess.run([shell, "-n", str(path)], check=True)
