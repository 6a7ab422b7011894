"""Arguments that several commands take, and what their values may be."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rltui.base.text import parse_number
from rltui.cli.command import (
    Argument,
    argument,
    choice,
    exclusive,
    flag,
    repeatable,
    section,
    switch,
)
from rltui.errors import UsageError

if TYPE_CHECKING:
    from rltui.base.times import Moment
    from rltui.core.experiment.cursor import Cursor
    from rltui.core.runs.forks import CheckpointChoice
    from rltui.frameworks.launchers.line import Options

_LONGEST_STEP = 15
"""Digits of a step's number; frameworks name folders by it."""
_SHORTEST_WATCH_S, _LONGEST_WATCH_S = 0.5, 3600.0
"""Bounds of the interval of `--watch`."""
WATCH_S = 1.0
"""Default interval of `--watch` in seconds."""
_FIRST_TIME = 10**8
"""A larger number is a time in seconds since the epoch, as JSON has them, and no step."""
_MOMENTS = "a step, 2h (ago), 14:30, 2026-11-22 or '2026-11-22 14:30'"
KEYMAP_VARIABLE = "RLTUI_KEYMAP"
"""Names a keymap for all that this shell opens; `--keymap` is for one command."""


# --- what values may be -----------------------------------------------------------------------------------


def tokens(text: str) -> float:
    amount = parse_number(text)
    if not 0 < amount < math.inf:
        raise argparse.ArgumentTypeError(f"not a number of tokens: {text}")
    return amount


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"not a number ≥ 0: {text}")
    return int(text)


def step(text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_STEP:
        raise argparse.ArgumentTypeError(f"not a step: {text}")
    return int(text)


def checkpoint(text: str) -> CheckpointChoice:
    from rltui.core.runs.forks import parse_checkpoint

    try:
        return parse_checkpoint(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error.title}; {error.hint}") from None


def steps(text: str) -> tuple[int, ...]:
    return tuple(step(item) for item in text.split(","))


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1 or len(text) > _LONGEST_STEP:
        raise argparse.ArgumentTypeError(f"not a number ≥ 1: {text}")
    return int(text)


def moment(text: str) -> Moment:
    from rltui.base.times import Moment, parse_moment

    if text.isdecimal() and len(text) <= _LONGEST_STEP and int(text) < _FIRST_TIME:
        return Moment(step=int(text))
    at = parse_moment(text, time.time())
    if at is None:
        raise argparse.ArgumentTypeError(f"not a time or step: {text}")
    return Moment(at=at)


def since(text: str) -> Moment | Cursor:
    """Parse a cursor of an earlier answer, or what `moment` parses."""
    from rltui.core.experiment.cursor import parse_cursor

    return parse_cursor(text) or moment(text)


def moment_of_step(text: str) -> Moment:
    from rltui.base.times import Moment

    return Moment(step=step(text))


def age_s(option: str, text: str) -> float:
    """Parse the value of an option that says how old things are."""
    from rltui.base.times import parse_span

    age = parse_span(text)
    if age is None:
        raise UsageError(f"{option}: not an age: {text}", hint="write it as 12h, 30d or 2w")
    return age


def interval_or_name(text: str) -> float | str:
    """Parse seconds as `interval` does; a name stays a name, as in `status -w NAME`."""
    return text if math.isnan(parse_number(text)) else interval(text)


def interval(text: str) -> float:
    """Parse the seconds between two polls."""
    seconds = parse_number(text)
    if not _SHORTEST_WATCH_S <= seconds <= _LONGEST_WATCH_S:
        raise argparse.ArgumentTypeError(
            f"not a number of seconds from {_SHORTEST_WATCH_S:g} to {_LONGEST_WATCH_S:g}: {text}"
        )
    return seconds


def after_dashes(argv: list[str], _: Options) -> tuple[list[str], Mapping[str, object]]:
    """The grammar of a command that passes on what follows `--`, as `rest` of the namespace."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], {"rest": tuple(argv[end + 1 :])}


# --- arguments --------------------------------------------------------------------------------------------


def json_flag(text: str = "print one JSON document") -> Argument:
    return flag("--json", text, heading=GENERAL)


def watch(kind: Callable[[str], object], text: str = "repeat") -> Argument:
    return argument(
        "-w --watch",
        "SECONDS",
        f"{text} every SECONDS (default: {WATCH_S:g}) until ctrl+c",
        nargs="?",
        const=WATCH_S,
        type=kind,
    )


def _wait(default: bool | None, text: str) -> Argument:
    return switch("--wait", f"wait until ready or done ({text})", default=default, heading=GENERAL)


def name_option(text: str) -> Argument:
    return argument("-n --name", "NAME", text, completes="experiments")


def layout_option(text: str) -> Argument:
    return argument("-l --layout", "LAYOUT", text, completes="layouts")


def output_dir_option(text: str) -> Argument:
    return argument("-o --output-dir", "FOLDER", text, completes="folders")


GENERAL = "general"
"""Heading of the options that mean the same in every command."""


def plan_flag(text: str = "show the plan and change nothing") -> Argument:
    return flag("--plan", text, heading=GENERAL)


def limit_option(text: str) -> Argument:
    return argument("--limit", "NUMBER", text, type=positive)


def listing(limit_text: str, json_text: str = "") -> tuple[Argument, ...]:
    """Options of a command that lists something, whose JSON `print_rows` prints."""
    return (limit_option(limit_text), FULL, FIELDS, json_flag(json_text) if json_text else JSON)


def field_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


JSON = json_flag()
FULL = flag("--full", "print the complete answer, also a long one", heading=GENERAL)
FIELDS = argument(
    "--fields", "KEY,…", "only these keys of each item; implies --json", type=field_names, heading=GENERAL
)
PLAN = plan_flag()
FOLLOW = flag("-f --follow", "keep printing new lines until ctrl+c")
SINCE = argument("--since", "WHEN", f"start at {_MOMENTS}, or the cursor of an answer", type=since)
UNTIL = argument("--until", "WHEN", "end at, written like --since", type=moment)
REFERENCES = "name or prefix, id, folder, -1 (newest), @best"
RUN = argument(
    "run",
    "RUN",
    f"{REFERENCES} (default: the run of this folder, or the only running one)",
    nargs="?",
    completes="runs",
)
NAMED_RUN = argument("run", "RUN", REFERENCES, completes="runs")
RUNS = argument("run", "RUN", REFERENCES, nargs="+", completes="runs")
COMPONENT = repeatable(
    "-c --component", "COMPONENT", "component; repeatable; also RUN/COMPONENT", completes="components"
)
ATTEMPT = repeatable(
    "-c --component",
    "COMPONENT",
    "component, or an attempt: trainer#2; repeatable; also RUN/COMPONENT",
    completes="components",
)
CONFIG = argument(
    "config",
    "CONFIG",
    "TOML files, or their folder; config keys come after --: -- --lr 1e-5",
    nargs="*",
    completes="configs",
)
YES = flag("--yes", "do not ask", heading=GENERAL)
WAIT = _wait(True, "default")
WAIT_ON_TERMINAL = _wait(None, "default on a terminal")
"""`waiting.should_wait` decides where neither of the two is given."""
TIMEOUT = argument("--timeout", "SECONDS", "stop waiting after SECONDS", type=float, heading=GENERAL)
NO_TUI = flag("--no-tui", "print the status instead of opening the TUI")
KEYMAP = choice("--keymap", ("vim", "k9s"), "use the keys of vim or k9s")
FOLDER_BESIDE = output_dir_option("output folder (default: NAME, next to that of RUN)")
FRAMEWORK = argument(
    "--framework",
    "FRAMEWORK",
    "prime-rl, tinyrl, … (default: detected from the config)",
    completes="frameworks",
)
SET = repeatable(
    "--set",
    "KEY=VALUE",
    "set a knob in a copy of the config; repeatable",
    dest="edits",
    completes="assignments",
)
DEVICES = exclusive(
    argument("--devices", "GPUS", "GPUs by number as in nvidia-smi, by UUID, or none"),
    flag("--single-gpu", "put everything on the GPU with the most free memory"),
)
CREATION = (
    section(
        "config",
        layout_option("layout name or file (default: from the config)"),
        FRAMEWORK,
        SET,
        flag("--force", "ignore errors found only by rltui's own rules"),
    ),
    section(
        "run",
        name_option("name of the new run"),
        output_dir_option("output folder (default: from the config)"),
        argument("--workspace", "FOLDER", "working folder (default: this one)", completes="folders"),
        exclusive(
            flag("--resume", "continue the run in the output folder"),
            flag("--new", "keep the run there; use the next free folder"),
        ),
    ),
    section(
        "inference and GPUs",
        exclusive(
            argument(
                "--inference",
                "URL",
                "use this server; repeatable; `config`: as in the config",
                action="append",
            ),
            argument(
                "--inference-of",
                "RUN",
                "use the inference server of a run that does not train",
                completes="experiments",
            ),
        ),
        DEVICES,
    ),
)
NEW_RUN = section("options of the new run", *CREATION, page="up")
"""The same as `CREATION`, for a command whose help refers to that of `up`."""
JOB = section(
    "SLURM job",
    flag("--slurm", "submit the run as a job and follow it"),
    argument("--partition", "PARTITION", "SLURM partition", default="", completes="slurm_partitions"),
    argument("--time", "LIMIT", "time limit: 30 (minutes), 4:00:00, 2-12 (days-hours)", default=""),
    argument("--nodes", "NUMBER", "number of nodes", default=""),
    argument("--gpus", "NUMBER", "GPUs per node", default=""),
    argument("--account", "ACCOUNT", "account to charge", default=""),
    argument("--qos", "QOS", "quality of service", default=""),
    argument("--dependency", "JOBS", "start after other jobs: afterok:1234", default=""),
    argument("--job-name", "NAME", "job name (default: from the run)", default=""),
    argument(
        "--after-run",
        "RUN",
        "start after the job of this run succeeds, such as SFT before RL",
        default="",
        completes="experiments",
    ),
    repeatable(
        "--slurm-option", "OPTION", "further sbatch option: --slurm-option=--constraint=h200; repeatable"
    ),
    repeatable(
        "--launcher-option", "WORD", "further argument of the launcher that writes the script; repeatable"
    ),
    flag("--auto-auth", "pass the token of `hf auth login` to the job if HF_TOKEN is not set; never stored"),
    page="slurm",
)
FROM = argument(
    "--from",
    "best|last|STEP",
    "from this checkpoint: highest reward, newest, or a step",
    dest="begin",
    type=checkpoint,
    completes="starts",
)
EDIT = (
    flag("--restart", "also restart the components that read these knobs"),
    FROM,
    PLAN,
    YES,
    WAIT_ON_TERMINAL,
    JSON,
)
"""Options of every command that edits a config."""
COMPONENTS = (RUN, COMPONENT, PLAN, YES, WAIT_ON_TERMINAL, JSON)
"""Arguments of every command that starts or stops components."""
RESUME = exclusive(flag("--from-scratch", "ignore checkpoints, start at step 0"), FROM)
"""Checkpoint that a component resumes from. Later steps are moved aside, later checkpoints too."""
