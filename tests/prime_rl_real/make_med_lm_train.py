"""Make checkouts of med-lm-train that run without a GPU, for `test_med_lm_train.py`.

    python tests/prime_rl_real/make_med_lm_train.py --to /opt/med-lm-train \\
        --med-lm-train ~/med-lm-train --fork ~/fork --prime-rl ~/prime-rl
    RLTUI_MED_LM_TRAIN=/opt/med-lm-train pytest -m primerl -n 0 tests/prime_rl_real/test_med_lm_train.py

The three are git repositories: MedARC-AI/med-lm-train, marii-moe/med-lm-train, PrimeIntellect-ai/prime-rl.
What of the checkouts is real: `medarc_train`, `medarc_slurm`, their launcher, prime-rl's config classes and
its `rl`. What they start (`inference`, `orchestrator`, `torchrun`, `sft`) are the stand-ins of
`tests/fakes/prime_rl`; torch is needed for its import alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

PINS = {
    "works": ("med_lm_train", "0d45b55", "4825d76e7599"),
    "published": ("med_lm_train", "f5a60db", "7104dbdb5d28"),
    "fork": ("fork", "5ab148e", "63331ad8b170"),
}
"""Repository, its commit, and that of prime-rl, which it pins."""
PACKAGES = (
    *(
        "torch",
        "pydantic",
        "pydantic-settings",
        "prime-pydantic-config",
        "tomli",
        "tomli_w",
        "typer",
        "jinja2",
        "loguru",
    ),
    *("nvidia-ml-py", "wandb", "psutil", "pandas"),
)
STAND_INS = ("inference", "orchestrator", "torchrun", "sft", "sft-trainer", "trainer")
_REPOSITORY = Path(__file__).parents[2]
_FAKES = "tests.fakes.prime_rl"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--med-lm-train", "--fork", "--prime-rl", "--to"):
        parser.add_argument(name, type=Path, required=True)
    arguments = parser.parse_args()
    packages = arguments.to / "packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--target", packages, *PACKAGES], check=True
    )
    for name, (repository, commit, prime_rl) in PINS.items():
        folder = arguments.to / name
        _unpack(getattr(arguments, repository), commit, folder)
        _unpack(arguments.prime_rl, prime_rl, folder / "prime-rl")
        _programs(folder, packages, "B1" if name == "fork" else "B0")


def _unpack(repository: Path, commit: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "-C", repository, "archive", commit], check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")


def _programs(folder: Path, packages: Path, generation: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (site,) = (folder / ".venv/lib").glob("python*/site-packages")
    (site / "real.pth").write_text(f"{folder}\n{folder / 'prime-rl/src'}\n{packages}\n")
    real = f"{folder / '.venv/bin/python'}"
    for name in ("medarc_train", "medarc_slurm"):
        _script(folder / f".venv/bin/{name}", real, f"from medarc_rl.{name} import app\nsys.exit(app())")
    _script(folder / ".venv/bin/rl", real, "from prime_rl.entrypoints.rl import main\nsys.exit(main())")
    fake, path = f"{sys.executable} -S", f"sys.path.insert(0, {str(_REPOSITORY)!r})\n"
    for name in STAND_INS:
        code = f"{path}from {_FAKES}.main import run\nrun({name!r}, {generation!r})"
        _script(folder / ".venv/bin" / name, fake, code)
    _script(folder / "tools/uv", fake, f"{path}from {_FAKES}.uv import uv\nsys.exit(uv(sys.argv[1:]))")


def _script(path: Path, interpreter: str, code: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{interpreter}\nimport sys\n{code}\n")
    path.chmod(0o755)


if __name__ == "__main__":
    main()
