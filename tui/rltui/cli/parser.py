"""Arguments of every command. `handler` names a module in `rltui.cli` and the function to call there."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rltui import __version__
from rltui.cli import run_parser
from rltui.cli.arguments import (
    Commands,
    OneCommand,
    add_creation,
    add_devices,
    add_framework,
    add_json,
    add_keymap,
    add_looks,
    add_name,
    add_set,
    add_slurm,
    add_wait,
    add_watch,
    checkpoint,
    command,
    count,
    interval,
    interval_or_name,
    positive,
    step,
    steps,
    tokens,
)
from rltui.cli.config_line import Given, is_pasted
from rltui.core import hints
from rltui.errors import RltuiError, UsageError

_DESCRIPTION = """\
Manage reinforcement-learning experiments on this box: inference, orchestrator and trainer,
each in a pane, kept alive in tmux. Closing the terminal stops nothing.

  rltui CONFIG…     open an experiment (a new one is made and started only once you say so)
  rltui [NAME]      attach to the experiment that runs, or to this one
  rltui --readonly  the same, to look only: nothing can be changed from there
  rltui watch DIR   a run that somebody else started, seen through its output folder
  rltui demo        a real small run on this machine's CPU, no GPU needed
"""
_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage, 3 invalid config (nothing written),
            4 conflict (file changed, name, port or folder taken), 5 a component failed, 130 interrupted
"""


_CONFIG_HELP = (
    "TOML files of the run, or their folder; or as launchers take them: @ base.toml @ overlay.toml. "
    "Behind --: keys to set in a copy of this run, --model.name X"
)
_OF_CONFIGS = frozenset({"open", "up", "check"})
"""Commands whose config may also be given as launchers take it."""
_MOST_NAMED = 8
"""Experiments that a refusal names, the newest."""


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse a command line. Without a command, the arguments are those of `open`."""
    parser, commands = build(argv[0] if argv else "open")
    if argv and argv[0] not in commands.choices:  # a name, a file, an option, or misspelt
        parser, commands = build()
    if not argv or (argv[0] not in commands.choices and argv[0] not in ("-h", "--help", "--version")):
        is_config = bool(argv) and (argv[0].startswith("-") or is_pasted(argv))
        if argv and not is_config and not is_file_name(argv[0]):
            _refuse_unless_experiment(argv[0], commands.choices)
        argv = ["open", *argv]
    if argv[0] == "eval" and "--" in argv:
        end = argv.index("--")
        parsed = _parsed(parser, commands, argv[:end])
        parsed.arguments = tuple(argv[end + 1 :])
        return parsed
    if argv[0] == "sweep" or argv[:2] == ["queue", "add"]:
        return run_parser.queued(parser, argv)
    if argv[0] not in _OF_CONFIGS:
        return _parsed(parser, commands, argv)
    options = commands.choices[argv[0]]._option_string_actions  # noqa: SLF001
    given = Given(argv[1:], options)
    return _parsed(parser, commands, [argv[0], *given.rest], argparse.Namespace(given=given))


def _parsed(
    parser: argparse.ArgumentParser,
    commands: Commands[argparse.ArgumentParser],
    argv: list[str],
    known: argparse.Namespace | None = None,
) -> argparse.Namespace:
    """Raises UsageError for words that the command does not know, with those that it may have meant."""
    found, unknown = parser.parse_known_args(argv, known)
    if not unknown:
        return found
    from rltui.core.text import did_you_mean

    name, word = argv[0], unknown[0]
    options = [each for each in commands.choices[name]._option_string_actions if each.startswith("--")]  # noqa: SLF001
    guess = did_you_mean(word.partition("=")[0], options) if word.startswith("-") else ""
    raise UsageError(
        f"rltui {name} does not know {' '.join(unknown)}",
        hint=f"{guess} options: {hints.OPTIONS(command=name)}".strip(),
    )


def is_file_name(word: str) -> bool:
    """It names a config file, or their folder, rather than an experiment or a run. What lies in the working
    folder under the name of one that is known does not hide it: `./NAME` is always the file.
    """
    if word.endswith(".toml") or "/" in word:
        return True
    return Path(word).exists() and not _is_known(word)


def _is_known(word: str) -> bool:
    from rltui.services.runs.experiments import find_experiment
    from rltui.services.runs.index import RunIndex

    if find_experiment(word) is not None:
        return True
    with suppress(RltuiError):  # a damaged one is told by those who need it
        return bool(RunIndex().named(word))
    return False


def _refuse_unless_experiment(word: str, commands: Iterable[str]) -> None:
    """Raises UsageError for a word that is nothing, such as a misspelt command."""
    from rltui.core.text import did_you_mean
    from rltui.services.runs.experiments import find_experiment, known_experiments
    from rltui.services.runs.index import RunIndex

    if find_experiment(word) is not None:
        return
    index, runs = RunIndex(), []
    with suppress(RltuiError):  # a damaged one is told by those who need it
        if index.named(word):
            return
        runs = index.names()
    names = [record.name for record in known_experiments()]
    known = f"experiments: {_some(names)}; " if names else ""
    more = f"{len(runs)} runs: {hints.RUNS}; " if len(runs) > len(names) else ""
    guess = did_you_mean(word, dict.fromkeys((*commands, *names, *runs)))
    raise UsageError(
        f"{word!r} is no command, no experiment, no run and no file",
        hint=f"{guess} {known}{more}commands: {hints.COMMANDS}; topics: {hints.HELP}".strip(),
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join([*names[:_MOST_NAMED], f"{more} more"] if more > 1 else names)


_JOBS: Mapping[str, str] = {
    "start and end a run": "open demo up down watch check init queue sweep fork rerun k8s",
    "look at it": "ls status logs metrics rollouts events gpus evals checkpoints orphans knobs diff attach",
    "change it": "set undo redo convert use-checkpoint start stop restart eval note shell publish promote",
    "all runs": "runs compare export add tag describe best archive unarchive rm restore trash",
    "this box, and help": "doctor layouts trust serve keys completion help man",
}
"""Commands by what people want to do; one that is nowhere comes last."""


class _Overview(argparse.ArgumentParser):
    """The help of `rltui` itself: commands by what people want to do."""

    def format_help(self) -> str:
        """Usage, commands, the options that all have."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        left = {action.dest: action for action in _named_commands(self)}
        for job, names in _JOBS.items():
            formatter.start_section(job)
            formatter.add_arguments([left.pop(name) for name in names.split() if name in left])
            if job == list(_JOBS)[-1]:
                formatter.add_arguments(left.values())
            formatter.end_section()
        for group in self._action_groups:
            if shown := [each for each in group._group_actions if not isinstance(each, Commands)]:  # noqa: SLF001
                formatter.start_section(group.title)
                formatter.add_arguments(shown)
                formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def _named_commands(top: argparse.ArgumentParser) -> list[argparse.Action]:
    """One for each, with its name as `dest` and its help."""
    return [
        named
        for action in top._actions  # noqa: SLF001
        if isinstance(action, Commands)
        for named in action._choices_actions  # noqa: SLF001
    ]


def commands_with_help(top: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """Every command with the sentence about it, in the order of the overview."""
    known = {action.dest: action.help or "" for action in _named_commands(top)}
    names = [name for names in _JOBS.values() for name in names.split() if name in known]
    return [(name, known[name]) for name in dict.fromkeys((*names, *known))]


def build(only: str = "") -> tuple[argparse.ArgumentParser, Commands[argparse.ArgumentParser]]:
    """`only`: of the other commands the names alone, as a command line needs that has this one."""
    parser = _Overview(
        prog="rltui",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rltui {__version__}")
    add_looks(parser)
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        required=True,
        parser_class=argparse.ArgumentParser,
        action=OneCommand if only else Commands,
    )
    if isinstance(commands, OneCommand):
        commands.only = only
    for add in (_add_running, _add_processes, _add_by_hand, _add_config, _add_looking, _add_evals, _add_box):
        add(commands)
    run_parser.add(commands)
    return parser, commands


def _add_running(commands: Commands[argparse.ArgumentParser]) -> None:
    opening = command(commands, "open", "opening:open_experiment", "open an experiment in the TUI")
    opening.add_argument(
        "config",
        nargs="*",
        metavar="CONFIG",
        help="TOML files of the run, or their folder; or the name of an experiment",
    )
    opening.add_argument(
        "--readonly",
        action="store_true",
        help="only look; in place of CONFIG, the experiment's name may follow",
    )
    add_creation(opening)
    add_slurm(opening)
    add_keymap(opening)
    demo = command(commands, "demo", "running:demo", "a real small run on the CPU, in the TUI")
    demo.add_argument("-o", "--output-dir", metavar="DIR", help="folder of the demo (default: outputs/demo)")
    demo.add_argument("--no-tui", action="store_true", help="start it headless, like `up`")
    add_keymap(demo)
    watch = command(commands, "watch", "running:watch", "look at a run that somebody else started")
    watch.add_argument("run_dir", metavar="RUN_DIR", help="its output folder, the one with logs/ in it")
    watch.add_argument("-n", "--name", metavar="NAME", help="name of the observation (default: the folder's)")
    watch.add_argument("-l", "--layout", metavar="LAYOUT", help="layout of [[log]] entries (default: watch)")
    add_framework(watch)
    watch.add_argument("--no-tui", action="store_true", help="only begin, and print the status")
    add_keymap(watch)
    add_json(watch)
    up = command(commands, "up", "running:up", "start an experiment headless; returns when all is ready")
    up.add_argument("config", nargs="*", metavar="CONFIG", help=_CONFIG_HELP)
    add_creation(up)
    add_slurm(up)
    up.add_argument(
        "--dry-run", action="store_true", help="with --slurm: print the job's script, and submit nothing"
    )
    up.add_argument("--only", metavar="C,…", help="start only these components (and what they need)")
    up.add_argument(
        "--resume-step",
        type=step,
        metavar="STEP",
        help="as --resume, from the checkpoint of this step rather than the newest",
    )
    _add_moved(up, "--from-checkpoint", "up --resume-step STEP")
    for name in ("--entry", "--group", "--array"):  # of the queue that starts it: its sweep and job array
        up.add_argument(name, default="", help=argparse.SUPPRESS)
    up.add_argument("--yes", action="store_true", help="do not ask about a plan that loses work")
    add_wait(up)
    up.add_argument("--timeout", type=float, metavar="S", help="give up waiting after S seconds")
    add_json(up)
    down = command(commands, "down", "running:down", "stop everything; leaves no process behind")
    down.add_argument("--plan", action="store_true", help="only say what would end, and what is lost")
    down.add_argument("--all", action="store_true", help="all that lives; the queue is paused")
    down.add_argument("--yes", action="store_true", help="do not ask about --all")
    add_name(down, positional=True)
    add_json(down)
    listing = command(commands, "ls", "status:list_experiments", "list the experiments, running or not")
    add_json(listing)
    status = command(commands, "status", "watching:show_status", "components, step and reward")
    add_name(status, positional=True)
    add_watch(status, interval_or_name, "stay, and look again every S seconds")
    status.add_argument(
        "--plain", action="store_true", help="in sentences, and with --watch one for each change"
    )
    add_json(status, "one JSON document on stdout; with --watch, one per line")


def _add_processes(commands: Commands[argparse.ArgumentParser]) -> None:
    for name, text in (
        ("start", "start components (all, where none is named) and what they need"),
        ("stop", "stop components and what depends on them"),
        ("restart", "restart components, and those that must restart with them"),
    ):
        parser = command(commands, name, "processes:change", text)
        parser.set_defaults(action=name)
        parser.add_argument("component", nargs="*", metavar="C", help="component id")
        parser.add_argument("--plan", action="store_true", help="only print what would be done")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        add_wait(parser, is_usual=None)
        if name != "stop":
            begin = parser.add_mutually_exclusive_group()
            begin.add_argument("--from-scratch", action="store_true", help="do not resume from a checkpoint")
            begin.add_argument(
                "--from",
                dest="begin",
                type=checkpoint,
                metavar="STEP|last|best",
                help="resume from the checkpoint of this step, or of the highest reward (default: the "
                "newest); without C, just what writes the run. What came later is moved aside, later "
                "checkpoints too",
            )
            _add_moved(parser, "--from-checkpoint", f"{name} --from STEP")
        else:
            parser.add_argument("--kill", action="store_true", help="no grace: end the whole tree at once")
        add_name(parser)
        add_json(parser)
    orphans = command(commands, "orphans", "processes:orphans", "processes that outlived their component")
    add_name(orphans, positional=True)
    orphans.add_argument(
        "--free",
        nargs="*",
        type=int,
        metavar="PID",
        help="end these (all, where no pid is given); asks first",
    )
    orphans.add_argument(
        "--forget",
        metavar="C",
        help="take it for ended where it ran, on a machine that is gone for good; asks",
    )
    orphans.add_argument("--yes", action="store_true", help="do not ask")
    add_json(orphans)
    attach = command(commands, "attach", "by_hand:attach", "show the raw tmux pane (q leaves it)")
    attach.add_argument("component", metavar="C", help="component id, or supervisor")
    attach.add_argument("--readonly", action="store_true", help="pass no keys on")
    add_name(attach)


def _add_by_hand(commands: Commands[argparse.ArgumentParser]) -> None:
    shell = command(
        commands, "shell", "by_hand:shell", "a terminal where a component runs (ctrl+] leaves it)"
    )
    shell.add_argument(
        "--as",
        dest="like",
        metavar="C",
        help="with the folder, variables and devices of this component (default: the one that trains)",
    )
    shell.add_argument(
        "--workspace", metavar="DIR", help="run nothing of an experiment: with the programs of this checkout"
    )
    shell.add_argument("--detach", action="store_true", help="only start it; `rltui attach shell` shows it")
    shell.add_argument(
        "command", nargs="*", metavar="COMMAND", help="after --: what to run (default: $SHELL)"
    )
    add_name(shell)
    publish = command(commands, "publish", "by_hand:publish", "upload weights of the run to the hub, by `hf`")
    publish.add_argument("what", metavar="STEP", help="whose weights; or a folder of weights")
    publish.add_argument("repo", metavar="USER/NAME", help="the repository; made where there is none")
    publish.add_argument("--private", action="store_true", help="one that is made is only for its owner")
    publish.add_argument("--revision", metavar="R", help="branch (default: main)")
    publish.add_argument("--message", metavar="TEXT", help="of the commit (default: experiment and step)")
    for option, what in (("--include", "only files like this"), ("--exclude", "no files like this")):
        publish.add_argument(option, action="append", default=[], metavar="GLOB", help=what)
    publish.add_argument("--plan", action="store_true", help="only say what would be uploaded")
    publish.add_argument("--yes", action="store_true", help="do not ask")
    add_wait(publish)
    add_name(publish)
    add_json(publish)


def _add_config(commands: Commands[argparse.ArgumentParser]) -> None:
    knobs = command(commands, "knobs", "knobs:show_knobs", "every knob: value, default, bounds, readers")
    knobs.add_argument(
        "pattern",
        nargs="*",
        metavar="WORD",
        help="only those with all these words; where files are among them (rl.toml), those of the files",
    )
    knobs.add_argument("-l", "--layout", metavar="LAYOUT", help="with files: layout name or file")
    add_framework(knobs)
    knobs.add_argument("--all", action="store_true", help="also the keys of the files that are no knobs")
    knobs.add_argument("-v", "--verbose", action="store_true", help="also what each one means")
    add_name(knobs)
    add_json(knobs)
    _add_edits(commands)
    diff = command(
        commands, "diff", "knobs:diff", "what the files say beside what runs; or two attempts, or runs"
    )
    diff.add_argument(
        "attempt",
        nargs="*",
        metavar="C[#K]|RUN",
        help="a component's attempt (default: the newest), or `original`, what the run's own copy of the "
        "config was made from; one is compared with the files; or two runs, by name or id",
    )
    diff.add_argument("--text", action="store_true", help="the lines of the files, not the keys")
    add_name(diff)
    add_json(diff)
    _add_check(commands)
    _add_layouts(commands)


def _add_edits(commands: Commands[argparse.ArgumentParser]) -> None:
    edit = command(commands, "set", "edits:set_knobs", "edit the TOML; prints the diff and the restart set")
    edit.add_argument(
        "edit",
        nargs="*",
        metavar="KEY=VALUE",
        help="knob and new value; `none` removes one that may be absent; rl.toml among them: of that file",
    )
    edit.add_argument("--unset", action="append", default=[], metavar="KEY", help="remove a key")
    edit.add_argument("--force", action="store_true", help="also what nobody knows, or our rules refuse")
    _add_edit(edit)
    add_framework(edit)
    taking_back = command(commands, "undo", "edits:undo", "take back the newest edit of the config")
    _add_edit(taking_back)
    again = command(commands, "redo", "edits:redo", "make the edit again that was undone last")
    _add_edit(again)
    _add_convert(commands)
    model = command(
        commands,
        "use-checkpoint",
        "edits:use_checkpoint",
        "make trained weights the model of a config, as an edit",
    )
    model.add_argument(
        "target", metavar="STEP|DIR", help="step of a run (-n NAME), such as of SFT; or a folder"
    )
    model.add_argument(
        "config", nargs="?", metavar="CONFIG", help="config to edit (default: the experiment's)"
    )
    _add_edit(model)
    add_framework(model)


def _add_layouts(commands: Commands[argparse.ArgumentParser]) -> None:
    layouts = command(commands, "layouts", "config:list_layouts", "list the layouts and where they lie")
    add_json(layouts)
    init = command(
        commands,
        "init",
        "init:init",
        "write a commented layout for your own programs, by questions or options; or a workspace",
    )
    init.add_argument(
        "layout_name", nargs="?", metavar="NAME", help="of the layout, or the folder for --from"
    )
    init.add_argument(
        "--from",
        dest="of",
        choices=("verifiers", "prime-rl"),
        help="make a workspace in this folder: commented configs to begin with, endpoints, environments",
    )
    init.add_argument(
        "--component",
        action="append",
        default=[],
        metavar="NAME='COMMAND'",
        help="a program of the run, as often as needed; {port.NAME} in it makes it a service on a free port",
    )
    init.add_argument(
        "--user", action="store_true", help="for all folders (default: for this one, in .rltui/layouts)"
    )


def _add_check(commands: Commands[argparse.ArgumentParser]) -> None:
    check = command(commands, "check", "config:check", "validate a config; no side effects")
    check.add_argument("config", nargs="*", metavar="CONFIG", help=_CONFIG_HELP)
    check.add_argument("-l", "--layout", metavar="LAYOUT", help="layout name or file")
    add_framework(check)
    add_set(check)
    add_devices(check)
    check.add_argument(
        "--no-own", action="store_true", help="do not ask the framework's own validators, if they are found"
    )
    add_json(check)


def _add_convert(commands: Commands[argparse.ArgumentParser]) -> None:
    convert = command(
        commands,
        "convert",
        "edits:convert",
        "count the batch in tokens instead of rollouts, or back; or write a config for another framework",
    )
    convert.add_argument(
        "what",
        nargs="?",
        metavar="tokens|rollouts|CONFIG",
        help="tokens or rollouts (default: the other way); with --to, the config file",
    )
    convert.add_argument(
        "--to", metavar="FRAMEWORK", help="write CONFIG for this one, such as prime-rl, into a new file"
    )
    convert.add_argument(
        "--output", metavar="FILE", help="with --to: the new file (default: CONFIG.FRAMEWORK.toml beside it)"
    )
    convert.add_argument(
        "--mean-tokens",
        type=tokens,
        metavar="N",
        help="tokens of a mean rollout (default: as this run measured)",
    )
    _add_edit(convert)


def _add_edit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--restart", action="store_true", help="also restart what reads the knobs")
    add_wait(parser, is_usual=None)
    parser.add_argument(
        "--from",
        dest="begin",
        type=checkpoint,
        metavar="STEP|last|best",
        help="with --restart: the run too, from the checkpoint of this step, or of the highest reward",
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_name(parser)
    add_json(parser)


def _add_looking(commands: Commands[argparse.ArgumentParser]) -> None:
    logs = command(
        commands, "logs", "logs:logs", "what a component printed; all of them are searched at once"
    )
    logs.add_argument(
        "component",
        nargs="?",
        metavar="C",
        help="component id (default: the list of logs); with --all: only its attempts",
    )
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows")
    logs.add_argument("-N", "--lines", type=count, metavar="N", help="only the last N lines (default: 1000)")
    logs.add_argument("--full", action="store_true", help="all lines, not only the last 1000")
    logs.add_argument("--attempt", type=int, metavar="K", help="an earlier start, counted from 1")
    logs.add_argument(
        "--all", action="store_true", help="search all components and attempts, with --grep or --level"
    )
    logs.add_argument("--grep", metavar="RE", help="only lines that match the regular expression")
    logs.add_argument("-i", "--ignore-case", action="store_true", help="upper and lower case are one in RE")
    logs.add_argument("--level", metavar="L", help="only lines of this level or above: info, warning, error")
    logs.add_argument(
        "--raw",
        action="store_true",
        help="the bytes as they were printed, with colours, redraws and secrets; for a pipe or a file",
    )
    add_name(logs)
    add_json(logs, "one JSON document; with -f, one per line")
    _add_metrics(commands)
    _add_rollouts(commands)
    events = command(
        commands,
        "events",
        "events:events",
        "the journal: starts, exits, edits with their diffs, alerts, notes",
    )
    events.add_argument("-f", "--follow", action="store_true", help="go on as it grows")
    events.add_argument(
        "--kind", action="append", default=[], metavar="K,…", help="only these: edit, crash, alert, note, …"
    )
    events.add_argument("--component", action="append", default=[], metavar="C,…", help="only of these")
    events.add_argument(
        "--since",
        metavar="T",
        help="only from then on: 2h or 1d12h ago, 14:30, 2026-11-22, '2026-11-22 14:30'",
    )
    events.add_argument("--grep", metavar="WORDS", default="", help="only with all these words")
    events.add_argument("--brief", action="store_true", help="a line for each, without diffs")
    add_name(events)
    add_json(events, "one JSON document; with -f, one per line")

    note = command(commands, "note", "events:note", "keep a sentence in the journal; a mark on the charts")
    note.add_argument(
        "text", nargs="+", metavar="TEXT", help="what is to be remembered; - reads it from stdin"
    )
    add_name(note)
    add_json(note)


def _add_metrics(commands: Commands[argparse.ArgumentParser]) -> None:
    metrics = command(commands, "metrics", "metrics:metrics", "the curves of a run, whole and up to now")
    metrics.add_argument(
        "metric",
        nargs="*",
        metavar="NAME",
        help="reward, loss, entropy, kl, grad_norm, step_time … ; a name as the program has it, or a regular "
        "expression for names (default: a line for each that has a chart)",
    )
    metrics.add_argument("--all", action="store_true", help="every series there is")
    metrics.add_argument("--last", type=count, metavar="N", help="only the newest N points")
    metrics.add_argument("--every", type=positive, metavar="K", help="only every K-th point, the newest too")
    shape = metrics.add_mutually_exclusive_group()
    shape.add_argument("--csv", action="store_true", help="a row for each step, a column for each series")
    shape.add_argument("--plot", action="store_true", help="draw them here, between the lines")
    shape.add_argument("--svg", metavar="FILE", help="one drawing of them, with marks of what happened")
    shape.add_argument("--json", action="store_true", help="one JSON document on stdout")
    add_name(metrics)


def _add_rollouts(commands: Commands[argparse.ArgumentParser]) -> None:
    rollouts = command(commands, "rollouts", "rollouts:rollouts", "what the model wrote, and its rewards")
    rollouts.add_argument(
        "where", nargs="?", metavar="DIR", help="a run's or an evaluation's folder, or a file of rollouts"
    )
    rollouts.add_argument("--step", type=count, metavar="S", help="of this step (default: the newest)")
    rollouts.add_argument("--eval", action="store_true", help="of evaluations")
    rollouts.add_argument("--live", action="store_true", help="under way just now")
    rollouts.add_argument("--all", action="store_true", help="also those that no batch took")
    chosen = rollouts.add_mutually_exclusive_group()
    for name, text in (
        ("worst", "the N with the lowest reward"),
        ("best", "the N with the highest"),
        ("random", "N by chance"),
    ):
        chosen.add_argument(f"--{name}", type=count, metavar="N", help=f"{text}, in full")
    rollouts.add_argument("--grep", metavar="RE", help="those whose text matches, in full")
    rollouts.add_argument("--group", metavar="ID", help="only this group of the step")
    rollouts.add_argument("--full", action="store_true", help="long messages whole, too")
    rollouts.add_argument(
        "--export",
        metavar="FILE",
        help="write them into a new file instead: Markdown if it is a .md, else JSONL",
    )
    add_name(rollouts)
    add_json(rollouts)


def _add_evals(commands: Commands[argparse.ArgumentParser]) -> None:
    asked = command(
        commands, "eval", "evals:evaluate", "evaluate the model: now, a checkpoint, what it began with"
    )
    asked.add_argument("env", nargs="?", default="", metavar="ENV", help="default: what the config trains on")
    target = asked.add_mutually_exclusive_group()
    target.add_argument("--now", action="store_true", help="what the server of the run has (the default)")
    target.add_argument("--checkpoint", type=step, metavar="STEP", help="with a server of its own")
    target.add_argument(
        "--model", metavar="MODEL", help="a folder of weights, or a name on the hub; likewise"
    )
    target.add_argument("--base", action="store_true", help="the model that training began from; likewise")
    target.add_argument("--sft", action="store_true", help="what the SFT of this experiment made; likewise")
    asked.add_argument(
        "-n",
        action="append",
        default=[],
        metavar="N",
        help="examples (default: 20); or the experiment's name",
    )
    asked.add_argument("-r", type=positive, default=3, metavar="R", help="answers to each (default: 3)")
    asked.add_argument(
        "--max-tokens", type=positive, metavar="T", help="of an answer (default: the config's)"
    )
    asked.add_argument("--when-done", action="store_true", help="not before the run is done; returns at once")
    asked.add_argument(
        "--every", type=count, metavar="K", help="from now on, one of K checkpoints as they come; 0: none"
    )
    add_wait(asked)
    asked.add_argument("--name", metavar="NAME", help="which experiment (default: the one that runs)")
    asked.epilog = "What follows -- is for the evaluator itself: rltui eval -- --temperature 0.2"
    asked.set_defaults(arguments=())
    add_json(asked)
    evals = command(commands, "evals", "evals:evals", "the evaluations, how they differ, what waits")
    evals.add_argument("--against", metavar="ID", help="differences to this one (default: to the base)")
    evals.add_argument("--all", action="store_true", help="those of all experiments")
    evals.add_argument("--cancel", metavar="ID", help="take it from the queue, or end it")
    add_name(evals, positional=True)
    add_json(evals)


def _add_box(commands: Commands[argparse.ArgumentParser]) -> None:
    gpus = command(commands, "gpus", "gpus:gpus", "the GPUs of this box and who holds their memory")
    add_watch(gpus, interval)
    gpus.add_argument(
        "-n", "--name", metavar="NAME", help="as this experiment sees them: budgets, peaks, other hosts"
    )
    add_json(gpus, "one JSON document; with --watch, one per line")
    found = command(
        commands, "checkpoints", "checkpoints:checkpoints", "the checkpoints of the run, and what may go"
    )
    found.add_argument("--prune", action="store_true", help="delete old ones; the plan is shown first")
    found.add_argument(
        "--restore",
        metavar="STAMP",
        help="bring back what a restart has set aside, and set aside what was written since",
    )
    keeping = found.add_argument_group("what --prune keeps, besides the newest and the best")
    keeping.add_argument("--keep-last", type=positive, metavar="N", help="the newest N (default: 3)")
    keeping.add_argument("--keep-every", type=positive, metavar="N", help="those of multiples of N")
    keeping.add_argument("--keep", type=steps, default=(), metavar="STEP,…", help="those of these steps")
    keeping.add_argument("--set-aside", action="store_true", help="also delete what restarts have set aside")
    found.add_argument("--plan", action="store_true", help="only print what would be done")
    found.add_argument("--yes", action="store_true", help="do not ask")
    add_name(found, positional=True)
    add_json(found)
    trusted = command(
        commands,
        "trust",
        "config:trust_folder",
        "let rltui run what a folder holds without a start: a layout's gpu_source, a checkout's python",
    )
    trusted.add_argument("folder", nargs="?", default=".", metavar="DIR", help="default: here")
    trusted.add_argument("--revoke", action="store_true", help="trust it no longer")
    completion = command(
        commands,
        "completion",
        "completion:completion",
        "what a shell completes: source <(rltui completion bash)",
    )
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish"
    )
    completion.add_argument("word", nargs="*", help=argparse.SUPPRESS)  # what is typed so far
    helping = command(commands, "help", "helping:show_help", "about a topic or a command, on a page")
    helping.add_argument("topic", nargs="?", metavar="TOPIC|COMMAND", help="default: the list of topics")
    manual = command(commands, "man", "manual:show_manual", "all commands and options as a manual page")
    manual.add_argument("--raw", action="store_true", help="its source: rltui man --raw > rltui.1")
    keys = command(commands, "keys", "keys:show_keys", "the keys of the TUI, as they are mapped now")
    keys.add_argument("word", nargs="*", metavar="WORD", help="only those with all these words")
    add_keymap(keys)
    add_json(keys)
    served = command(commands, "serve", "host:serve", "what an rltui on another machine starts here: --host")
    served.add_argument("--stdio", action="store_true", help="talk over stdin and stdout")
    doctor = command(commands, "doctor", "box:doctor", "check that this box, or nodes, have what rltui needs")
    doctor.add_argument("config", nargs="*", metavar="CONFIG", help="with --nodes: what would be run")
    doctor.add_argument(
        "--nodes",
        action="store_true",
        help="ask the nodes of a layout: reached, folder shared, clocks, ports, GPUs, versions, interfaces",
    )
    doctor.add_argument("-l", "--layout", metavar="LAYOUT", help="layout name or file")
    add_name(doctor)
    add_json(doctor)


class _Moved(argparse.Action):
    """An option that was, and what it is called now."""

    def __call__(self, *_: object) -> None:
        raise UsageError(f"there is no {self.option_strings[0]} any more", hint=f"it is: rltui {self.const}")


def _add_moved(parser: argparse.ArgumentParser, option: str, now: str) -> None:
    parser.add_argument(option, action=_Moved, const=now, help=argparse.SUPPRESS)
