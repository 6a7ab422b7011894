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
    argument,
    checkpoint,
    command,
    count,
    flag,
    interval,
    interval_or_name,
    positive,
    repeatable,
    step,
    steps,
    tokens,
)
from rltui.cli.config_line import ManualArguments, is_pasted
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
    given = ManualArguments(argv[1:], options)
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
    opening = command(commands, "open", "commands.open:open_experiment", "open an experiment in the TUI")
    argument(
        opening,
        "config",
        "CONFIG",
        "TOML files of the run, or their folder; or the name of an experiment",
        nargs="*",
    )
    flag(opening, "--readonly", "only look; in place of CONFIG, the experiment's name may follow")
    add_creation(opening)
    add_slurm(opening)
    add_keymap(opening)
    demo = command(commands, "demo", "commands.demo:demo", "a real small run on the CPU, in the TUI")
    argument(demo, "-o --output-dir", "DIR", "folder of the demo (default: outputs/demo)")
    flag(demo, "--no-tui", "start it headless, like `up`")
    add_keymap(demo)
    watch = command(commands, "watch", "commands.watch:watch", "look at a run that somebody else started")
    argument(watch, "run_dir", "RUN_DIR", "its output folder, the one with logs/ in it")
    argument(watch, "-n --name", "NAME", "name of the observation (default: the folder's)")
    argument(watch, "-l --layout", "LAYOUT", "layout of [[log]] entries (default: watch)")
    add_framework(watch)
    flag(watch, "--no-tui", "only begin, and print the status")
    add_keymap(watch)
    add_json(watch)
    up = command(commands, "up", "commands.up:up", "start an experiment headless; returns when all is ready")
    argument(up, "config", "CONFIG", _CONFIG_HELP, nargs="*")
    add_creation(up)
    add_slurm(up)
    flag(up, "--dry-run", "with --slurm: print the job's script, and submit nothing")
    argument(up, "--only", "C,…", "start only these components (and what they need)")
    argument(
        up,
        "--resume-step",
        "STEP",
        "as --resume, from the checkpoint of this step rather than the newest",
        type=step,
    )
    _add_moved(up, "--from-checkpoint", "up --resume-step STEP")
    for name in ("--entry", "--group", "--array"):  # of the queue that starts it: its sweep and job array
        up.add_argument(name, default="", help=argparse.SUPPRESS)
    flag(up, "--yes", "do not ask about a plan that loses work")
    add_wait(up)
    argument(up, "--timeout", "S", "give up waiting after S seconds", type=float)
    add_json(up)
    down = command(commands, "down", "commands.down:down", "stop everything; leaves no process behind")
    flag(down, "--plan", "only say what would end, and what is lost")
    flag(down, "--all", "all that lives; the queue is paused")
    flag(down, "--yes", "do not ask about --all")
    add_name(down, positional=True)
    add_json(down)
    listing = command(commands, "ls", "commands.ls:list_experiments", "list the experiments, running or not")
    add_json(listing)
    status = command(commands, "status", "commands.status:show_status", "components, step and reward")
    add_name(status, positional=True)
    add_watch(status, interval_or_name, "stay, and look again every S seconds")
    flag(status, "--plain", "in sentences, and with --watch one for each change")
    add_json(status, "one JSON document on stdout; with --watch, one per line")


def _add_processes(commands: Commands[argparse.ArgumentParser]) -> None:
    for name, text in (
        ("start", "start components (all, where none is named) and what they need"),
        ("stop", "stop components and what depends on them"),
        ("restart", "restart components, and those that must restart with them"),
    ):
        parser = command(commands, name, "component_actions:change", text)
        parser.set_defaults(action=name)
        argument(parser, "component", "C", "component id", nargs="*")
        flag(parser, "--plan", "only print what would be done")
        flag(parser, "--yes", "do not ask")
        add_wait(parser, is_usual=None)
        if name != "stop":
            begin = parser.add_mutually_exclusive_group()
            flag(begin, "--from-scratch", "do not resume from a checkpoint")
            argument(
                begin,
                "--from",
                "STEP|last|best",
                "resume from the checkpoint of this step, or of the highest reward (default: the "
                "newest); without C, just what writes the run. What came later is moved aside, later "
                "checkpoints too",
                dest="begin",
                type=checkpoint,
            )
            _add_moved(parser, "--from-checkpoint", f"{name} --from STEP")
        else:
            flag(parser, "--kill", "no grace: end the whole tree at once")
        add_name(parser)
        add_json(parser)
    orphans = command(
        commands, "orphans", "commands.orphans:orphans", "processes that outlived their component"
    )
    add_name(orphans, positional=True)
    argument(
        orphans, "--free", "PID", "end these (all, where no pid is given); asks first", nargs="*", type=int
    )
    argument(
        orphans, "--forget", "C", "take it for ended where it ran, on a machine that is gone for good; asks"
    )
    flag(orphans, "--yes", "do not ask")
    add_json(orphans)
    attach = command(commands, "attach", "commands.attach:attach", "show the raw tmux pane (q leaves it)")
    argument(attach, "component", "C", "component id, or supervisor")
    flag(attach, "--readonly", "pass no keys on")
    add_name(attach)


def _add_by_hand(commands: Commands[argparse.ArgumentParser]) -> None:
    shell = command(
        commands, "shell", "commands.shell:shell", "a terminal where a component runs (ctrl+] leaves it)"
    )
    argument(
        shell,
        "--as",
        "C",
        "with the folder, variables and devices of this component (default: the one that trains)",
        dest="like",
    )
    argument(shell, "--workspace", "DIR", "run nothing of an experiment: with the programs of this checkout")
    flag(shell, "--detach", "only start it; `rltui attach shell` shows it")
    argument(shell, "command", "COMMAND", "after --: what to run (default: $SHELL)", nargs="*")
    add_name(shell)
    publish = command(
        commands, "publish", "commands.publish:publish", "upload weights of the run to the hub, by `hf`"
    )
    argument(publish, "what", "STEP", "whose weights; or a folder of weights")
    argument(publish, "repo", "USER/NAME", "the repository; made where there is none")
    flag(publish, "--private", "one that is made is only for its owner")
    argument(publish, "--revision", "R", "branch (default: main)")
    argument(publish, "--message", "TEXT", "of the commit (default: experiment and step)")
    for option, what in (("--include", "only files like this"), ("--exclude", "no files like this")):
        publish.add_argument(option, action="append", default=[], metavar="GLOB", help=what)
    flag(publish, "--plan", "only say what would be uploaded")
    flag(publish, "--yes", "do not ask")
    add_wait(publish)
    add_name(publish)
    add_json(publish)


def _add_config(commands: Commands[argparse.ArgumentParser]) -> None:
    knobs = command(
        commands, "knobs", "commands.knobs:show_knobs", "every knob: value, default, bounds, readers"
    )
    argument(
        knobs,
        "pattern",
        "WORD",
        "only those with all these words; where files are among them (rl.toml), those of the files",
        nargs="*",
    )
    argument(knobs, "-l --layout", "LAYOUT", "with files: layout name or file")
    add_framework(knobs)
    flag(knobs, "--all", "also the keys of the files that are no knobs")
    flag(knobs, "-v --verbose", "also what each one means")
    add_name(knobs)
    add_json(knobs)
    _add_edits(commands)
    diff = command(
        commands,
        "diff",
        "commands.diff:diff",
        "what the files say beside what runs; or two attempts, or runs",
    )
    argument(
        diff,
        "attempt",
        "C[#K]|RUN",
        "a component's attempt (default: the newest), or `original`, what the run's own copy of the "
        "config was made from; one is compared with the files; or two runs, by name or id",
        nargs="*",
    )
    flag(diff, "--text", "the lines of the files, not the keys")
    add_name(diff)
    add_json(diff)
    _add_check(commands)
    _add_layouts(commands)


def _add_edits(commands: Commands[argparse.ArgumentParser]) -> None:
    edit = command(
        commands, "set", "commands.set:set_knobs", "edit the TOML; prints the diff and the restart set"
    )
    argument(
        edit,
        "edit",
        "KEY=VALUE",
        "knob and new value; `none` removes one that may be absent; rl.toml among them: of that file",
        nargs="*",
    )
    repeatable(edit, "--unset", "KEY", "remove a key")
    flag(edit, "--force", "also what nobody knows, or our rules refuse")
    _add_edit(edit)
    add_framework(edit)
    taking_back = command(commands, "undo", "commands.undo:undo", "take back the newest edit of the config")
    _add_edit(taking_back)
    again = command(commands, "redo", "commands.redo:redo", "make the edit again that was undone last")
    _add_edit(again)
    _add_convert(commands)
    model = command(
        commands,
        "use-checkpoint",
        "commands.use_checkpoint:use_checkpoint",
        "make trained weights the model of a config, as an edit",
    )
    argument(model, "target", "STEP|DIR", "step of a run (-n NAME), such as of SFT; or a folder")
    argument(model, "config", "CONFIG", "config to edit (default: the experiment's)", nargs="?")
    _add_edit(model)
    add_framework(model)


def _add_layouts(commands: Commands[argparse.ArgumentParser]) -> None:
    layouts = command(
        commands, "layouts", "commands.layouts:list_layouts", "list the layouts and where they lie"
    )
    add_json(layouts)
    init = command(
        commands,
        "init",
        "commands.init:init",
        "write a commented layout for your own programs, by questions or options; or a workspace",
    )
    argument(init, "layout_name", "NAME", "of the layout, or the folder for --from", nargs="?")
    init.add_argument(
        "--from",
        dest="of",
        choices=("verifiers", "prime-rl"),
        help="make a workspace in this folder: commented configs to begin with, endpoints, environments",
    )
    repeatable(
        init,
        "--component",
        "NAME='COMMAND'",
        "a program of the run, as often as needed; {port.NAME} in it makes it a service on a free port",
    )
    flag(init, "--user", "for all folders (default: for this one, in .rltui/layouts)")


def _add_check(commands: Commands[argparse.ArgumentParser]) -> None:
    check = command(commands, "check", "commands.check:check", "validate a config; no side effects")
    argument(check, "config", "CONFIG", _CONFIG_HELP, nargs="*")
    argument(check, "-l --layout", "LAYOUT", "layout name or file")
    add_framework(check)
    add_set(check)
    add_devices(check)
    flag(check, "--no-own", "do not ask the framework's own validators, if they are found")
    add_json(check)


def _add_convert(commands: Commands[argparse.ArgumentParser]) -> None:
    convert = command(
        commands,
        "convert",
        "commands.convert:convert",
        "count the batch in tokens instead of rollouts, or back; or write a config for another framework",
    )
    argument(
        convert,
        "what",
        "tokens|rollouts|CONFIG",
        "tokens or rollouts (default: the other way); with --to, the config file",
        nargs="?",
    )
    argument(convert, "--to", "FRAMEWORK", "write CONFIG for this one, such as prime-rl, into a new file")
    argument(
        convert, "--output", "FILE", "with --to: the new file (default: CONFIG.FRAMEWORK.toml beside it)"
    )
    argument(
        convert, "--mean-tokens", "N", "tokens of a mean rollout (default: as this run measured)", type=tokens
    )
    _add_edit(convert)


def _add_edit(parser: argparse.ArgumentParser) -> None:
    flag(parser, "--restart", "also restart what reads the knobs")
    add_wait(parser, is_usual=None)
    argument(
        parser,
        "--from",
        "STEP|last|best",
        "with --restart: the run too, from the checkpoint of this step, or of the highest reward",
        dest="begin",
        type=checkpoint,
    )
    flag(parser, "--dry-run", "change nothing")
    flag(parser, "--yes", "do not ask")
    add_name(parser)
    add_json(parser)


def _add_looking(commands: Commands[argparse.ArgumentParser]) -> None:
    logs = command(
        commands, "logs", "commands.logs:logs", "what a component printed; all of them are searched at once"
    )
    argument(
        logs,
        "component",
        "C",
        "component id (default: the list of logs); with --all: only its attempts",
        nargs="?",
    )
    flag(logs, "-f --follow", "go on as it grows")
    argument(logs, "-N --lines", "N", "only the last N lines (default: 1000)", type=count)
    flag(logs, "--full", "all lines, not only the last 1000; a file has all")
    argument(logs, "--attempt", "K", "an earlier start, counted from 1", type=int)
    flag(logs, "--all", "search all components and attempts, with --grep or --level")
    argument(logs, "--grep", "RE", "only lines that match the regular expression")
    flag(logs, "-i --ignore-case", "upper and lower case are one in RE")
    argument(logs, "--level", "L", "only lines of this level or above: info, warning, error")
    flag(
        logs,
        "--raw",
        "the bytes as they were printed, with colours, redraws and secrets; for a pipe or a file",
    )
    add_name(logs)
    add_json(logs, "one JSON document; with -f, one per line")
    _add_metrics(commands)
    _add_rollouts(commands)
    events = command(
        commands,
        "events",
        "commands.events:events",
        "the journal: starts, exits, edits with their diffs, alerts, notes",
    )
    flag(events, "-f --follow", "go on as it grows")
    repeatable(events, "--kind", "K,…", "only these: edit, crash, alert, note, …")
    repeatable(events, "--component", "C,…", "only of these")
    argument(
        events, "--since", "T", "only from then on: 2h or 1d12h ago, 14:30, 2026-11-22, '2026-11-22 14:30'"
    )
    argument(events, "--limit", "N", "only the last N of them", type=positive)
    argument(events, "--grep", "WORDS", "only with all these words", default="")
    flag(events, "--brief", "a line for each, without diffs")
    add_name(events)
    add_json(events, "one JSON document; with -f, one per line")

    note = command(
        commands, "note", "commands.note:note", "keep a sentence in the journal; a mark on the charts"
    )
    argument(note, "text", "TEXT", "what is to be remembered; - reads it from stdin", nargs="+")
    add_name(note)
    add_json(note)


def _add_metrics(commands: Commands[argparse.ArgumentParser]) -> None:
    metrics = command(
        commands, "metrics", "commands.metrics:metrics", "the curves of a run, whole and up to now"
    )
    argument(
        metrics,
        "metric",
        "NAME",
        "reward, loss, entropy, kl, grad_norm, step_time … ; a name as the program has it, or a regular "
        "expression for names (default: a line for each that has a chart)",
        nargs="*",
    )
    flag(metrics, "--all", "every series there is")
    argument(metrics, "--last", "N", "only the newest N points", type=count)
    argument(metrics, "--every", "K", "only every K-th point, the newest too", type=positive)
    shape = metrics.add_mutually_exclusive_group()
    flag(shape, "--csv", "a row for each step, a column for each series")
    flag(shape, "--plot", "draw them here, between the lines")
    argument(shape, "--svg", "FILE", "one drawing of them, with marks of what happened")
    flag(shape, "--json", "one JSON document on stdout")
    add_name(metrics)


def _add_rollouts(commands: Commands[argparse.ArgumentParser]) -> None:
    rollouts = command(
        commands, "rollouts", "commands.rollouts:rollouts", "what the model wrote, and its rewards"
    )
    argument(rollouts, "where", "DIR", "a run's or an evaluation's folder, or a file of rollouts", nargs="?")
    argument(rollouts, "--step", "S", "of this step (default: the newest)", type=count)
    flag(rollouts, "--eval", "of evaluations")
    flag(rollouts, "--live", "under way just now")
    flag(rollouts, "--all", "also those that no batch took")
    chosen = rollouts.add_mutually_exclusive_group()
    for name, text in (
        ("worst", "the N with the lowest reward"),
        ("best", "the N with the highest"),
        ("random", "N by chance"),
    ):
        chosen.add_argument(f"--{name}", type=count, metavar="N", help=f"{text}, in full")
    argument(rollouts, "--grep", "RE", "those whose text matches, in full")
    argument(rollouts, "--group", "ID", "only this group of the step")
    flag(rollouts, "--full", "long messages whole, too")
    argument(
        rollouts,
        "--export",
        "FILE",
        "write them into a new file instead: Markdown if it is a .md, else JSONL",
    )
    add_name(rollouts)
    add_json(rollouts)


def _add_evals(commands: Commands[argparse.ArgumentParser]) -> None:
    asked = command(
        commands,
        "eval",
        "commands.eval:evaluate",
        "evaluate the model: now, a checkpoint, what it began with",
    )
    argument(asked, "env", "ENV", "default: what the config trains on", nargs="?", default="")
    target = asked.add_mutually_exclusive_group()
    flag(target, "--now", "what the server of the run has (the default)")
    argument(target, "--checkpoint", "STEP", "with a server of its own", type=step)
    argument(target, "--model", "MODEL", "a folder of weights, or a name on the hub; likewise")
    flag(target, "--base", "the model that training began from; likewise")
    flag(target, "--sft", "what the SFT of this experiment made; likewise")
    repeatable(asked, "-n", "N", "examples (default: 20); or the experiment's name")
    argument(asked, "-r", "R", "answers to each (default: 3)", type=positive, default=3)
    argument(asked, "--max-tokens", "T", "of an answer (default: the config's)", type=positive)
    flag(asked, "--when-done", "not before the run is done; returns at once")
    argument(asked, "--every", "K", "from now on, one of K checkpoints as they come; 0: none", type=count)
    add_wait(asked)
    argument(asked, "--name", "NAME", "which experiment (default: the one that runs)")
    asked.epilog = "What follows -- is for the evaluator itself: rltui eval -- --temperature 0.2"
    asked.set_defaults(arguments=())
    add_json(asked)
    evals = command(commands, "evals", "commands.evals:evals", "the evaluations, how they differ, what waits")
    argument(evals, "--against", "ID", "differences to this one (default: to the base)")
    flag(evals, "--all", "those of all experiments")
    argument(evals, "--cancel", "ID", "take it from the queue, or end it")
    add_name(evals, positional=True)
    add_json(evals)


def _add_box(commands: Commands[argparse.ArgumentParser]) -> None:
    gpus = command(commands, "gpus", "commands.gpus:gpus", "the GPUs of this box and who holds their memory")
    add_watch(gpus, interval)
    argument(gpus, "-n --name", "NAME", "as this experiment sees them: budgets, peaks, other hosts")
    add_json(gpus, "one JSON document; with --watch, one per line")
    found = command(
        commands,
        "checkpoints",
        "commands.checkpoints:checkpoints",
        "the checkpoints of the run, and what may go",
    )
    flag(found, "--prune", "delete old ones; the plan is shown first")
    argument(
        found,
        "--restore",
        "STAMP",
        "bring back what a restart has set aside, and set aside what was written since",
    )
    keeping = found.add_argument_group("what --prune keeps, besides the newest and the best")
    argument(keeping, "--keep-last", "N", "the newest N (default: 3)", type=positive)
    argument(keeping, "--keep-every", "N", "those of multiples of N", type=positive)
    argument(keeping, "--keep", "STEP,…", "those of these steps", type=steps, default=())
    flag(keeping, "--set-aside", "also delete what restarts have set aside")
    flag(found, "--plan", "only print what would be done")
    flag(found, "--yes", "do not ask")
    add_name(found, positional=True)
    add_json(found)
    trusted = command(
        commands,
        "trust",
        "commands.trust:trust_folder",
        "let rltui run what a folder holds without a start: a layout's gpu_source, a checkout's python",
    )
    argument(trusted, "folder", "DIR", "default: here", nargs="?", default=".")
    flag(trusted, "--revoke", "trust it no longer")
    completion = command(
        commands,
        "completion",
        "completion:completion",
        "what a shell completes: source <(rltui completion bash)",
    )
    argument(completion, "shell", "SHELL", "bash, zsh or fish", choices=("bash", "zsh", "fish"))
    completion.add_argument("word", nargs="*", help=argparse.SUPPRESS)  # what is typed so far
    helping = command(commands, "help", "commands.help:show_help", "about a topic or a command, on a page")
    argument(helping, "topic", "TOPIC|COMMAND", "default: the list of topics", nargs="?")
    manual = command(commands, "man", "commands.man:show_manual", "all commands and options as a manual page")
    flag(manual, "--raw", "its source: rltui man --raw > rltui.1")
    keys = command(commands, "keys", "commands.keys:show_keys", "the keys of the TUI, as they are mapped now")
    argument(keys, "word", "WORD", "only those with all these words", nargs="*")
    add_keymap(keys)
    add_json(keys)
    served = command(
        commands, "serve", "commands.serve:serve", "what an rltui on another machine starts here: --host"
    )
    flag(served, "--stdio", "talk over stdin and stdout")
    doctor = command(
        commands, "doctor", "commands.doctor:doctor", "check that this box, or nodes, have what rltui needs"
    )
    argument(doctor, "config", "CONFIG", "with --nodes: what would be run", nargs="*")
    flag(
        doctor,
        "--nodes",
        "ask the nodes of a layout: reached, folder shared, clocks, ports, GPUs, versions, interfaces",
    )
    argument(doctor, "-l --layout", "LAYOUT", "layout name or file")
    add_name(doctor)
    add_json(doctor)


class _Moved(argparse.Action):
    """An option that was, and what it is called now."""

    def __call__(self, *_: object) -> None:
        raise UsageError(f"there is no {self.option_strings[0]} any more", hint=f"it is: rltui {self.const}")


def _add_moved(parser: argparse.ArgumentParser, option: str, now: str) -> None:
    parser.add_argument(option, action=_Moved, const=now, help=argparse.SUPPRESS)
