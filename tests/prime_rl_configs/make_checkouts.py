"""Make the checkouts whose config models the tests beside this file ask: one per generation of prime-rl.

    python tests/prime_rl_configs/make_checkouts.py --mirror REPO --pydantic-config REPO --to /opt/prime-rls
    RLTUI_PRIME_RL_CHECKOUTS=/opt/prime-rls pytest -m primerl -n 0 -s tests/prime_rl_configs/test_migration.py

`--mirror` is any clone of prime-rl, `--pydantic-config` one of samsja/pydantic_config; it takes Python 3.12.
Each tree is `git archive` of its commit, with a `.venv` that has pydantic and the config library in the
versions of its `uv.lock`, and empty packages for all else (`absent.py`): three minutes, 800 MB, no GPU.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PYDANTIC_CONFIG = "1562882463aed6fca1964a1ae0aa4b5141f89d73"
HEAVY = (
    *("torch", "torchtitan", "transformers", "vllm", "verifiers", "datasets", "wandb", "httpx", "openai"),
    *("beartype", "jaxtyping", "huggingface_hub", "pynvml", "rich", "uvicorn", "uvloop", "fastapi", "psutil"),
    *("numpy", "pandas", "requests", "aiolimiter", "tenacity", "msgspec", "prime_evals", "setproctitle"),
)
"""Packages that modules beside the config classes import."""
ABSENT = Path(__file__).with_name("absent.py")


@dataclass(frozen=True)
class Era:
    commit: str
    packages: tuple[str, ...]
    absent: tuple[str, ...] = HEAVY
    sources: tuple[str, ...] = ("src",)
    needs_pydantic_config: bool = False


_SETTINGS = ("tomli", "tomli_w", "loguru")
ERAS = {
    "A0": Era("958b82a75", ("pydantic==2.11.9", "pydantic-settings==2.10.1", *_SETTINGS)),
    "A1": Era("e519eb0a5", ("pydantic==2.11.9", "pydantic-settings==2.10.1", *_SETTINGS)),
    "B0": Era("668579aaf", ("pydantic==2.12.5", "pydantic-settings==2.13.1", *_SETTINGS)),
    "B1": Era(
        "20454ecd7", ("pydantic==2.12.5", "tyro==1.0.8", "loguru", "tomli_w"), needs_pydantic_config=True
    ),
    "C": Era(
        "559b44772",
        ("prime-pydantic-config==0.4.3", "verifiers==0.3.1.dev59", "renderers==0.1.12"),
        absent=(),
        sources=("packages/prime-rl-configs/src",),
    ),
}


def main() -> None:
    """Make those that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mirror", required=True, type=Path)
    parser.add_argument("--pydantic-config", required=True, type=Path)
    parser.add_argument("--to", required=True, type=Path)
    arguments = parser.parse_args()
    for name, era in ERAS.items():
        folder = arguments.to.absolute() / name
        if not (folder / ".venv").exists():
            unfinished = folder.with_name(f"{name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            _extract(arguments.mirror, era.commit, unfinished)
            unfinished.rename(folder)
            if era.needs_pydantic_config:
                _extract(arguments.pydantic_config, PYDANTIC_CONFIG, folder / "pydantic-config")
            _make_environment(folder, era)
        print(f"{name}: {folder}")


def _extract(mirror: Path, commit: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", str(mirror), "archive", commit], check=True, capture_output=True)
    subprocess.run(["tar", "x", "-C", str(folder)], check=True, input=archive.stdout)


def _make_environment(folder: Path, era: Era) -> None:
    environment = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin/python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", *era.packages], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    sources = [*era.sources, *(("pydantic-config/src",) if era.needs_pydantic_config else ())]
    (packages / "prime_rl.pth").write_text("".join(f"{folder / source}\n" for source in sources))
    shutil.copy(ABSENT, packages / "absent.py")
    (packages / "zz_absent.pth").write_text(f"import absent; absent.install({era.absent!r})\n")


if __name__ == "__main__":
    main()
