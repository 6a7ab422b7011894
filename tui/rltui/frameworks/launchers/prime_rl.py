"""`rl @ rl.toml`, its programs one by one, and its trainers under torchrun: prime-rl."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from rltui.core import hints
from rltui.errors import UsageError
from rltui.frameworks.launchers.line import LauncherLine, Options

PREFIXES = frozenset({"rl", "sft", "prime-rl"})
REFUSED = frozenset({"env-server"})
NOT_KEYS = {
    "dry_run": f"to validate without changes: {hints.CHECK}",
    "dump_config": f"{hints.CHECK} validates",
    "api_key": "export VLLM_API_KEY, which vLLM reads, and which `ps` does not show",
}
_PROGRAMS = ("inference", "orchestrator", "trainer")
"""Each with a file of its own: a line that begins with one starts that component alone."""
_SCRIPT = re.compile(r"prime_rl[./]trainer[./](rl|sft)[./]train(\.py)?$")
"""The module or script that torchrun starts: the trainer of RL, or that of SFT."""
_RANKS = re.compile(r"--nproc[-_]per[-_]node")
_NODES = re.compile(r"--(nnodes|node[-_]rank|rdzv[-_]\w+|master[-_]\w+)")


def begins_line(argv: list[str]) -> bool:
    """A program, with at least one key: `inference` alone may be a name."""
    keys = (arg.partition("=")[0] for arg in argv[1:] if arg.startswith("--"))
    return argv[0] in _PROGRAMS and any("." in key for key in keys)


def read(argv: list[str], _: Options) -> LauncherLine | None:
    """The line of one program; `None`: it is of all of them, or of no such launcher.

    Raises:
        UsageError: for torchrun with another program, or over several nodes.
    """
    first = next((index for index, arg in enumerate(argv) if arg not in ("uv", "run")), len(argv))
    program, rest = argv[first] if first < len(argv) else "", argv[first + 1 :]
    if program in _PROGRAMS and (first or not Path(program).exists()):
        return LauncherLine(rest, component=program, table=program, options={"--only": program})
    return _of_torchrun(rest) if program == "torchrun" else None


def _of_torchrun(argv: list[str]) -> LauncherLine:
    """A trainer on so many GPUs as it has ranks."""
    script = next((index for index, arg in enumerate(argv) if _SCRIPT.search(arg)), None)
    if script is None:
        raise UsageError(
            "torchrun is only supported with prime-rl's trainers", hint="… sft/train.py @ sft.toml"
        )
    if any(_NODES.match(arg) for arg in argv[:script]):
        hint = "copy the layout torchrun-nodes (see examples/several-machines)"
        raise UsageError("a trainer on several nodes needs a layout", hint=hint)
    options = " ".join(argv[:script]).replace("=", " ").split()
    text = next((value for name, value in pairwise(options) if _RANKS.fullmatch(name)), "1")
    ranks = int(text) if text.isdigit() else 1
    rest = argv[script + 1 :]
    if "rl" in _SCRIPT.findall(argv[script])[0]:
        overrides = {"orchestrator.num_train_workers": (str(ranks),)} if ranks > 1 else {}
        only = {"--only": "trainer"}
        return LauncherLine(rest, component="trainer", table="trainer", overrides=overrides, options=only)
    devices = {"--devices": ",".join(map(str, range(ranks)))} if ranks > 1 else {}
    return LauncherLine(rest, component="sft", options={"--layout": "torchrun-sft", **devices})
