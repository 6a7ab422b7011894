"""Arguments that several commands take, and what their values may be."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from rltui.cli.colour import When
from rltui.core import hints
from rltui.core.text import number, unknown
from rltui.errors import UsageError

if TYPE_CHECKING:
    from rltui.core.forks import Checkpointed

Commands = argparse._SubParsersAction  # noqa: SLF001  (argparse has no public name for it)


class OneCommand(Commands):  # type: ignore[type-arg]  # it takes none when it runs
    """Commands of which one is asked for: the parsers of all others are not made, which takes 10 ms."""

    only = ""
    """Its name."""

    def add_parser(self, name: str, **values: Any) -> argparse.ArgumentParser:  # noqa: ANN401 - as argparse
        """The parser of that command; for another one, something that takes arguments and keeps none."""
        parser = super().add_parser(name, **values) if name == self.only else _Unasked()
        return cast("argparse.ArgumentParser", parser)


class _Unasked:
    def __getattr__(self, _: str) -> _Unasked:
        return self

    def __call__(self, *_: object, **__: object) -> _Unasked:
        return self


_LONGEST_STEP = 15
"""Digits, as of the folders that frameworks make."""
_SHORTEST_WATCH_S, _LONGEST_WATCH_S = 0.5, 3600.0
"""What `--watch` takes."""
WATCH_S = 1.0
"""Where it is not said."""


def command(
    commands: Commands[argparse.ArgumentParser], name: str, handler: str, text: str
) -> argparse.ArgumentParser:
    """The parser of a new command. `handler` names a module in `rltui.cli` and the function to call there."""
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    module, _, function = handler.partition(":")
    parser.set_defaults(handler=(module, function))
    return parser


def flag(parser: argparse._ActionsContainer, names: str, text: str) -> None:
    parser.add_argument(*names.split(), action="store_true", help=text)


def argument(parser: argparse._ActionsContainer, names: str, metavar: str, text: str, **values: Any) -> None:  # noqa: ANN401
    """An option that takes a value, or a word that stands by itself."""
    parser.add_argument(*names.split(), metavar=metavar, help=text, **values)


def repeatable(
    parser: argparse._ActionsContainer,
    names: str,
    metavar: str,
    text: str,
    **values: Any,  # noqa: ANN401
) -> None:
    argument(parser, names, metavar, text, action="append", default=[], **values)


def add_name(parser: argparse.ArgumentParser, *, positional: bool = False) -> None:
    argument(parser, "-n --name", "NAME", "which experiment (default: the one that runs)")
    if positional:
        argument(parser, "experiment", "NAME", "which experiment", nargs="?")


def add_json(parser: argparse._ActionsContainer, text: str = "one JSON document on stdout") -> None:
    flag(parser, "--json", text)


KEYMAP_VARIABLE = "RLTUI_KEYMAP"
"""Names a keymap for all that this shell opens; `--keymap` is for one command."""
_KEYMAPS = ("vim", "k9s")


def add_keymap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keymap", choices=_KEYMAPS, help="keys as this program has them (`keys` lists them)"
    )


def add_creation(parser: argparse.ArgumentParser) -> None:
    argument(parser, "-l --layout", "LAYOUT", "layout name or file (default: by the config)")
    add_framework(parser)
    add_set(parser)
    argument(parser, "-n --name", "NAME", "name of the experiment")
    argument(parser, "-o --output-dir", "DIR", "output folder (default: by the config)")
    argument(parser, "--workspace", "DIR", "folder the components run in (default: here)")
    servers = parser.add_mutually_exclusive_group()
    argument(
        servers,
        "--inference",
        "URL",
        "use the inference server there and start none; several times for several; `config`: as it says",
        action="append",
    )
    argument(
        servers,
        "--inference-of",
        "EXPERIMENT",
        "use that experiment's inference server, while that trains nothing",
    )
    again = parser.add_mutually_exclusive_group()
    flag(again, "--resume", "continue the earlier run in the output folder")
    flag(again, "--new", "leave the earlier run alone, use the next free folder")
    add_devices(parser)
    flag(parser, "--force", "go on although rltui's own rules refuse the config")


def add_slurm(parser: argparse.ArgumentParser) -> None:
    """That a run is submitted to a cluster, and what its job is told."""
    jobs = parser.add_argument_group("as a SLURM job, with --slurm")
    flag(jobs, "--slurm", "submit it as a job, and follow that")
    for option, metavar, text in (
        ("--partition", "PARTITION", "where it runs"),
        ("--time", "LIMIT", "its time limit: 30 (minutes), 4:00:00, 2-12 (days-hours)"),
        ("--nodes", "N", "how many nodes"),
        ("--gpus", "N", "GPUs of each node"),
        ("--account", "ACCOUNT", "who pays"),
        ("--qos", "QOS", "quality of service"),
        ("--dependency", "WHAT", "what it waits for: afterok:1234"),
        ("--job-name", "JOB", "what it is called in SLURM (default: by the experiment)"),
    ):
        jobs.add_argument(option, metavar=metavar, default="", help=text)
    argument(
        jobs,
        "--after-run",
        "EXPERIMENT",
        "it waits until the job of that experiment has succeeded, such as SFT before RL",
        default="",
    )
    repeatable(
        jobs,
        "--slurm-option",
        "OPTION",
        "a further option of sbatch, as often as needed: --slurm-option=--constraint=h200",
    )
    repeatable(
        jobs,
        "--launcher-option",
        "WORD",
        "a further word for a launcher that writes the job's script, as often as needed",
    )
    flag(
        jobs,
        "--auto-auth",
        "where HF_TOKEN is not set, the job gets the token of `hf auth login`; it is written nowhere",
    )


def add_set(parser: argparse.ArgumentParser) -> None:
    repeatable(
        parser,
        "--set",
        "KEY=VALUE",
        "set a knob in this run's own copy of the config, which stays as it is; as often as needed",
        dest="edits",
    )


def add_devices(parser: argparse.ArgumentParser) -> None:
    among = parser.add_mutually_exclusive_group()
    argument(among, "--devices", "0,…", "GPUs it may use, as nvidia-smi numbers them, or by UUID")
    flag(among, "--single-gpu", "inference and trainer share the GPU with the most memory free")


def add_framework(parser: argparse.ArgumentParser) -> None:
    argument(
        parser, "--framework", "ID", "whose config it is, where its keys do not tell: prime-rl, tinyrl, …"
    )


class Looks(NamedTuple):
    """What every command takes, before its name or behind it."""

    colours: When = "auto"
    is_ascii: bool = False


def looks_of(argv: Sequence[str]) -> tuple[Looks, list[str]]:
    """How the output is to look, and the other words. What stands behind `--` is for others.

    Raises:
        UsageError: for another word than `--color` takes.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    looks, rest, words = Looks(), [], iter(argv[:end])
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--color":
            when = value if equals else next(words, "")
            if when not in get_args(When):
                raise unknown("--color", when, get_args(When))
            looks = looks._replace(colours=cast("When", when))
        elif word == "--no-color":
            looks = looks._replace(colours="never")
        elif word == "--ascii":
            looks = looks._replace(is_ascii=True)
        else:
            rest.append(word)
    return looks, [*rest, *argv[end:]]


def host_of(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The machine that a command is for (empty: this one), and the other words.

    It stands before the command: behind it, `--host` may be for a program that somebody starts.

    Raises:
        UsageError: where it is not said, or twice.
    """
    hosts, rest = [], [*argv]
    at = 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "--":
        name, equals, value = rest[at].partition("=")
        if name == "--host":
            hosts.append(value if equals else "".join(rest[at + 1 : at + 2]))
            del rest[at : at + 1 if equals else at + 2]
        else:
            at += 1
    if len(hosts) > 1 or "" in hosts:
        raise UsageError("--host takes the name of one machine", hint="rltui --host gpubox")
    return "".join(hosts), rest


def add_looks(parser: argparse.ArgumentParser) -> None:
    """For the help: `looks_of` has taken them by then."""
    shared = parser.add_argument_group("with every command, before it or behind")
    argument(
        shared,
        "--color",
        "WHEN",
        "auto: on a terminal, unless NO_COLOR is set; always; never",
        choices=get_args(When),
    )
    flag(shared, "--no-color", "as --color=never")
    flag(shared, "--ascii", "no signs but those of ASCII")
    above = parser.add_argument_group("before any command")
    argument(
        above,
        "--host",
        "HOST",
        "on another machine, which ssh reaches; alone: the TUI here, on what is there",
    )


def tokens(text: str) -> float:
    amount = number(text)
    if not 0 < amount < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens above 0")
    return amount


def count(text: str) -> int:
    """A number from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def step(text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_STEP:
        raise argparse.ArgumentTypeError(f"{text!r} is no step; {hints.CHECKPOINTS} lists those there are")
    return int(text)


def checkpoint(text: str) -> Checkpointed:
    """A checkpoint: its step, `last` or `best`."""
    from rltui.core.forks import checkpointed

    try:
        return checkpointed(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error.title}: {error.hint}") from None


def steps(text: str) -> tuple[int, ...]:
    return tuple(step(word) for word in text.split(","))


def positive(text: str) -> int:
    """A number from 1 on."""
    if not text.isdecimal() or int(text) < 1 or len(text) > _LONGEST_STEP:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def add_watch(
    parser: argparse.ArgumentParser, kind: Callable[[str], object], text: str = "again every S seconds"
) -> None:
    argument(
        parser,
        "-w --watch",
        "S",
        f"{text} (default: {WATCH_S:g}), until ctrl+c",
        nargs="?",
        const=WATCH_S,
        type=kind,
    )


def add_wait(parser: argparse.ArgumentParser, *, is_usual: bool | None = True) -> None:
    """`--wait`, `--no-wait`. `is_usual`: what holds where neither is said; `None`: as `is_awaited` says."""
    usual = "on a terminal, unless with --json" if is_usual is None else "the default"
    parser.add_argument(
        "--wait",
        action=argparse.BooleanOptionalAction,
        default=is_usual,
        help=f"return when it is ready or done ({usual}); --no-wait: at once",
    )


def interval_or_name(text: str) -> float | str:
    """As `interval`; or the name that stands where it might: `status -w NAME`."""
    return text if math.isnan(number(text)) else interval(text)


def interval(text: str) -> float:
    """Seconds between two looks."""
    seconds = number(text)
    if not _SHORTEST_WATCH_S <= seconds <= _LONGEST_WATCH_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds from {_SHORTEST_WATCH_S:g} to {_LONGEST_WATCH_S:g}"
        )
    return seconds
