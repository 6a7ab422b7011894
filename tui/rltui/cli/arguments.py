"""Arguments that several commands take, and what their values may be."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from rltui.cli.command import (
    Argument,
    Declared,
    argument,
    choice,
    exclusive,
    flag,
    moved,
    repeatable,
    section,
    switch,
)
from rltui.core import hints
from rltui.core.text import parse_number
from rltui.errors import UsageError

if TYPE_CHECKING:
    from rltui.core.forks import CheckpointChoice

_LONGEST_STEP = 15
"""Digits of a step's number; frameworks name folders by it."""
_SHORTEST_WATCH_S, _LONGEST_WATCH_S = 0.5, 3600.0
"""Bounds of the interval of `--watch`."""
WATCH_S = 1.0
"""Default interval of `--watch` in seconds."""
KEYMAP_VARIABLE = "RLTUI_KEYMAP"
"""Names a keymap for all that this shell opens; `--keymap` is for one command."""


# --- what values may be -----------------------------------------------------------------------------------


def tokens(text: str) -> float:
    amount = parse_number(text)
    if not 0 < amount < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens above 0")
    return amount


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def step(text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_STEP:
        raise argparse.ArgumentTypeError(f"{text!r} is no step; {hints.CHECKPOINTS} lists those there are")
    return int(text)


def checkpoint(text: str) -> CheckpointChoice:
    from rltui.core.forks import parse_checkpoint

    try:
        return parse_checkpoint(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error.title}: {error.hint}") from None


def steps(text: str) -> tuple[int, ...]:
    return tuple(step(item) for item in text.split(","))


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1 or len(text) > _LONGEST_STEP:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def age_s(option: str, text: str) -> float:
    """Parse the value of an option that says how old things are."""
    from rltui.core.times import parse_span

    age = parse_span(text)
    if age is None:
        raise UsageError(f"{option} {text!r} is no age", hint="so old: 12h, 30d, 2w")
    return age


def interval_or_name(text: str) -> float | str:
    """Parse seconds as `interval` does; a name stays a name, as in `status -w NAME`."""
    return text if math.isnan(parse_number(text)) else interval(text)


def interval(text: str) -> float:
    """Parse the seconds between two polls."""
    seconds = parse_number(text)
    if not _SHORTEST_WATCH_S <= seconds <= _LONGEST_WATCH_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds from {_SHORTEST_WATCH_S:g} to {_LONGEST_WATCH_S:g}"
        )
    return seconds


# --- arguments --------------------------------------------------------------------------------------------


def json_flag(text: str = "one JSON document on stdout") -> Argument:
    return flag("--json", text)


def watch(kind: Callable[[str], object], text: str = "again every S seconds") -> Argument:
    return argument(
        "-w --watch",
        "S",
        f"{text} (default: {WATCH_S:g}), until ctrl+c",
        nargs="?",
        const=WATCH_S,
        type=kind,
    )


def _wait(default: bool | None, text: str) -> Argument:
    return switch("--wait", f"return when it is ready or done ({text}); --no-wait: at once", default=default)


def name_option(text: str) -> Argument:
    return argument("-n --name", "NAME", text, completes="experiments")


def layout_option(text: str) -> Argument:
    return argument("-l --layout", "LAYOUT", text, completes="layouts")


def output_dir_option(text: str) -> Argument:
    return argument("-o --output-dir", "DIR", text, completes="folders")


JSON = json_flag()
NAME = name_option("which experiment (default: the one that runs)")
NAME_OR_FIRST = (NAME, argument("experiment", "NAME", "which experiment", nargs="?", completes="experiments"))
_REFERENCES = "a name or the beginning of one, an id, a folder, -1 (the newest), @best"
RUN = argument(
    "run",
    "RUN",
    f"{_REFERENCES} (default: the run of this folder, or the one that runs)",
    nargs="?",
    completes="runs",
)
RUNS = argument("run", "RUN", _REFERENCES, nargs="+", completes="runs")
COMPONENT = repeatable(
    "-c --component",
    "COMPONENT",
    "this component, as often as needed, as is RUN/COMPONENT; trainer#2 is its second attempt",
    completes="components",
)
CONFIG = argument(
    "config",
    "CONFIG",
    "TOML files of the run, or their folder; or as launchers take them: @ base.toml @ overlay.toml. "
    "Behind --: keys to set in a copy of this run, --model.name X",
    nargs="*",
    completes="configs",
)
YES = flag("--yes", "do not ask")
WAIT = _wait(True, "the default")
WAIT_ON_TERMINAL = _wait(None, "on a terminal, unless with --json")
"""`waiting.should_wait` decides where neither of the two is given."""
TIMEOUT = argument("--timeout", "S", "give up waiting after S seconds", type=float)
KEYMAP = choice("--keymap", ("vim", "k9s"), "keys as this program has them (`keys` lists them)")
FRAMEWORK = argument(
    "--framework",
    "ID",
    "whose config it is, where its keys do not tell: prime-rl, tinyrl, …",
    completes="frameworks",
)
SET = repeatable(
    "--set",
    "KEY=VALUE",
    "set a knob in this run's own copy of the config, which stays as it is; as often as needed",
    dest="edits",
    completes="edits",
)
DEVICES = exclusive(
    argument("--devices", "0,…", "GPUs it may use, as nvidia-smi numbers them, or by UUID"),
    flag("--single-gpu", "inference and trainer share the GPU with the most memory free"),
)
CREATION = (
    layout_option("layout name or file (default: by the config)"),
    FRAMEWORK,
    SET,
    name_option("name of the experiment"),
    output_dir_option("output folder (default: by the config)"),
    argument("--workspace", "DIR", "folder the components run in (default: here)", completes="folders"),
    exclusive(
        argument(
            "--inference",
            "URL",
            "use the inference server there and start none; several times for several; `config`: as it says",
            action="append",
        ),
        argument(
            "--inference-of",
            "EXPERIMENT",
            "use that experiment's inference server, while that trains nothing",
            completes="experiments",
        ),
    ),
    exclusive(
        flag("--resume", "continue the earlier run in the output folder"),
        flag("--new", "leave the earlier run alone, use the next free folder"),
    ),
    DEVICES,
    flag("--force", "go on although rltui's own rules refuse the config"),
)
SLURM = section(
    "as a SLURM job, with --slurm",
    flag("--slurm", "submit it as a job, and follow that"),
    argument("--partition", "PARTITION", "where it runs", default="", completes="slurm_partitions"),
    argument("--time", "LIMIT", "its time limit: 30 (minutes), 4:00:00, 2-12 (days-hours)", default=""),
    argument("--nodes", "N", "how many nodes", default=""),
    argument("--gpus", "N", "GPUs of each node", default=""),
    argument("--account", "ACCOUNT", "who pays", default=""),
    argument("--qos", "QOS", "quality of service", default=""),
    argument("--dependency", "WHAT", "what it waits for: afterok:1234", default=""),
    argument("--job-name", "JOB", "what it is called in SLURM (default: by the experiment)", default=""),
    argument(
        "--after-run",
        "EXPERIMENT",
        "it waits until the job of that experiment has succeeded, such as SFT before RL",
        default="",
        completes="experiments",
    ),
    repeatable(
        "--slurm-option",
        "OPTION",
        "a further option of sbatch, as often as needed: --slurm-option=--constraint=h200",
    ),
    repeatable(
        "--launcher-option",
        "WORD",
        "a further word for a launcher that writes the job's script, as often as needed",
    ),
    flag(
        "--auto-auth",
        "where HF_TOKEN is not set, the job gets the token of `hf auth login`; it is written nowhere",
    ),
)
EDIT = (
    flag("--restart", "also restart what reads the knobs"),
    WAIT_ON_TERMINAL,
    argument(
        "--from",
        "STEP|last|best",
        "with --restart: the run too, from the checkpoint of this step, or of the highest reward",
        dest="begin",
        type=checkpoint,
        completes="starts",
    ),
    flag("--dry-run", "change nothing"),
    YES,
    NAME,
    JSON,
)
COMPONENTS = (
    argument("component", "C", "component id", nargs="*", completes="components"),
    flag("--plan", "only print what would be done"),
    YES,
    WAIT_ON_TERMINAL,
)


def resume(command: str) -> tuple[Declared, ...]:
    """Arguments for the checkpoint that a component goes on from after `command`."""
    return (
        exclusive(
            flag("--from-scratch", "do not resume from a checkpoint"),
            argument(
                "--from",
                "STEP|last|best",
                "resume from the checkpoint of this step, or of the highest reward (default: the "
                "newest); without C, just what writes the run. What came later is moved aside, later "
                "checkpoints too",
                dest="begin",
                type=checkpoint,
                completes="starts",
            ),
        ),
        moved("--from-checkpoint", f"{command} --from STEP"),
    )
