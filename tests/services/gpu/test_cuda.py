"""Whether an interpreter's torch is a CUDA build, read from its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rltui.services.gpu.cuda import uses_cuda

TODAY = "from typing import Optional\n__version__ = '2.13.0{local}'\ncuda: Optional[str] = {cuda}\n"


def site_packages(prefix: Path) -> Path:
    return prefix / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Interpreter of a virtual environment without packages."""
    prefix = tmp_path / "venv"
    command = [sys.executable, "-m", "venv", "--without-pip", str(prefix)]
    subprocess.run(command, check=True, timeout=60)
    return str(prefix / "bin/python")


def install(python: str, text: str) -> None:
    folder = site_packages(Path(python).parent.parent) / "torch"
    folder.mkdir(exist_ok=True)
    (folder / "version.py").write_text(text)


def test_build_is_read_from_torchs_own_version_file(python: str) -> None:
    assert uses_cuda(python) is None
    cases = {
        TODAY.format(local="+cpu", cuda="None"): False,
        TODAY.format(local="", cuda="'13.0'"): True,
        "cuda = '11.7'\n": True,
        "cuda: str | None = None\nhip: str | None = '6.4'\n": False,
        "__version__ = '2'\n": None,
        "cuda = (\n": None,
    }
    for text, expected in cases.items():
        install(python, text)
        assert uses_cuda(python) is expected, text


@pytest.mark.slow
def test_own_interpreter_agrees_with_torch_itself() -> None:
    torch = pytest.importorskip("torch")
    assert uses_cuda(sys.executable) == (torch.version.cuda is not None)


def test_interpreter_is_asked_once_and_again_when_replaced(tmp_path: Path, python: str) -> None:
    """A stand-in that counts how often it runs."""
    program = tmp_path / "python"
    calls = tmp_path / "calls"
    script = f'#!/bin/sh\necho x >> {calls}\nexec {python} "$@"\n'
    program.write_text(script)
    program.chmod(0o755)
    install(python, TODAY.format(local="", cuda="'13.0'"))
    assert [uses_cuda(str(program)), uses_cuda(str(program))] == [True, True]
    assert len(calls.read_text().split()) == 1
    program.write_text(script + "# another one\n")
    assert uses_cuda(str(program)) is True
    assert len(calls.read_text().split()) == 2


@pytest.mark.parametrize(
    "script", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n"], ids=["fails", "babbles"]
)
def test_program_that_is_no_interpreter_is_unknown(tmp_path: Path, script: str) -> None:
    program = tmp_path / "python"
    program.write_text(script)
    program.chmod(0o755)
    assert uses_cuda(str(program)) is None
    assert uses_cuda(str(tmp_path / "nowhere")) is None
