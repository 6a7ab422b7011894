"""Arguments of the commands about many runs (list, keeping, comparing, forking, queueing), and of `k8s`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rltui.cli.arguments import (
    Commands,
    add_creation,
    add_devices,
    add_json,
    add_keymap,
    add_set,
    add_slurm,
    add_wait,
    argument,
    command,
    count,
    flag,
    positive,
    repeatable,
)


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    some = (_add_listing, _add_adding, _add_keeping, _add_queue)
    for add_some in (*some, _add_comparing, _add_rerun, _add_forking, _add_k8s):
        add_some(commands)


def _add_listing(commands: Commands[argparse.ArgumentParser]) -> None:
    runs = command(commands, "runs", "commands.runs:runs", "all runs there are, living and finished")
    argument(
        runs,
        "filter",
        "FILTER",
        "only those: a part of the name, tag:baseline, 'reward > 0.8 and lr < 1e-5'",
        nargs="*",
    )
    argument(runs, "--sort", "COL", "by this column: figures from the largest on, texts from A")
    flag(runs, "--reverse", "the other way round")
    argument(
        runs, "--columns", "COL,…", "these, or with + before each, also these: fields, metrics, config keys"
    )
    flag(runs, "--all", "also the archived")
    flag(runs, "--group", "sweeps and forks below what they come from")
    argument(runs, "--limit", "N", "only the first N", type=positive)
    flag(runs, "--rebuild", "read all folders again, into a new index")
    shape = runs.add_mutually_exclusive_group()
    flag(shape, "--csv", "a row for each run, with whole values")
    add_json(shape)
    keeping = runs.add_argument_group("putting old ones into the trash")
    flag(keeping, "--prune", "those of FILTER that nothing keeps; the plan is shown first")
    argument(keeping, "--keep-best", "N", "the N with the best mean reward over ten steps", type=positive)
    argument(keeping, "--keep-last", "N", "the newest N", type=positive)
    repeatable(keeping, "--keep-tag", "T", "those with this tag")
    argument(keeping, "--older-than", "AGE", "only those that ended so long ago: 30d, 12h")
    flag(keeping, "--plan", "only say what --prune would do")
    flag(keeping, "--yes", "do not ask")


def _add_adding(commands: Commands[argparse.ArgumentParser]) -> None:
    adding = command(commands, "add", "commands.add:add", "take runs that rltui did not start into the list")
    argument(
        adding,
        "folder",
        "DIR",
        "of a run, of results of vf-eval, or with any number of them below",
        nargs="+",
        type=Path,
    )
    argument(adding, "-n --name", "NAME", "of a single run (default: as its folder)")
    add_json(adding)


def _add_keeping(commands: Commands[argparse.ArgumentParser]) -> None:
    tag = command(commands, "tag", "commands.tag:tag", "the tags of runs: show, add, remove")
    argument(tag, "word", "RUN|+TAG", "runs by name or id, and +TAG to add", nargs="*")
    repeatable(tag, "--remove", "TAG,…", "tags to remove")
    describe = command(
        commands,
        "describe",
        "commands.describe:describe",
        "the note of a run, in the list of runs: show, write",
    )
    argument(describe, "run", "RUN", "name or id")
    argument(describe, "text", "TEXT", "the new note; - reads it from stdin", nargs="*")
    flag(describe, "--clear", "remove it")
    best = command(commands, "best", "commands.best:best", "mark runs as the best ones")
    flag(best, "--remove", "take the mark away")
    archive = command(
        commands, "archive", "commands.archive:archive", "list these runs no longer, unless asked to"
    )
    unarchive = command(commands, "unarchive", "commands.unarchive:unarchive", "list these runs again")
    rm = command(commands, "rm", "commands.rm:remove", "put runs into the trash, folder and all")
    flag(rm, "--plan", "only say what would go, and what it frees")
    flag(rm, "--yes", "do not ask")
    restore = command(commands, "restore", "commands.restore:restore", "take runs out of the trash")
    for parser in (best, archive, unarchive, rm, restore):
        argument(parser, "run", "RUN", "name or id", nargs="+")
    trash = command(commands, "trash", "commands.trash:trash", "what lies in the trash, and how large it is")
    flag(trash, "--empty", "delete it for good; asks first")
    argument(trash, "--older-than", "AGE", "only what has lain there so long: 30d, 12h")
    flag(trash, "--yes", "do not ask")
    for parser in (tag, describe, best, archive, unarchive, rm, restore, trash):
        add_json(parser)


def _add_queue(commands: Commands[argparse.ArgumentParser]) -> None:
    queue = command(
        commands, "queue", "commands.queue:show", "runs that wait for GPUs, and start by themselves"
    )
    add_json(queue)
    verbs = queue.add_subparsers(title="what to do", metavar="VERB")
    listing = command(verbs, "ls", "commands.queue:show", "what waits and why, what runs, what has ended")
    asked = command(verbs, "add", "commands.queue:add", "start a run when it can; all that `rltui up` takes")
    argument(asked, "config", "CONFIG", "as `rltui up` takes it; also -- --KEY VALUE", nargs="*")
    _add_queued(asked)
    add_creation(asked)
    paused = command(verbs, "pause", "commands.queue:pause", "start nothing any more; what runs goes on")
    resumed = command(verbs, "resume", "commands.queue:resume", "start what may start, also after a reboot")
    _add_after_reboot(resumed)
    removed = command(
        verbs, "rm", "commands.queue:remove", "do not start these; forget those that have ended"
    )
    again = command(
        verbs, "retry", "commands.queue:retry", "let these wait again, with config files as they are now"
    )
    for parser in (removed, again):
        argument(parser, "entry", "ENTRY", "name or id; or a sweep", nargs="+")
    add_set(again)
    moved = command(verbs, "move", "commands.queue:move", "let one start earlier, or later")
    argument(moved, "entry", "ENTRY", "name or id; or a sweep")
    argument(moved, "place", "PLACE", "first, last, up, down, or its number in the queue")
    limit = command(verbs, "limit", "commands.queue:limit", "how many run at once on this machine")
    argument(limit, "most", "N|none", "none: as GPUs allow; without GPUs one")
    for parser in (listing, asked, paused, resumed, removed, again, moved, limit):
        add_json(parser)
    sweep = command(commands, "sweep", "commands.sweep:sweep", "queue a run for each combination of values")
    argument(sweep, "config", "CONFIG|KEY=VALUES", "as `rltui up`; lr=1e-6,3e-6 seed=0..2", nargs="*")
    argument(sweep, "--random", "K", "only K of the combinations, by chance", type=positive)
    flag(sweep, "--dry-run", "only list them; queue nothing")
    argument(
        sweep, "--max-parallel", "N", "so many of them at once (SLURM jobs: so many submitted)", type=positive
    )
    flag(sweep, "--array", "with --slurm: the jobs are one job array (then N at once run)")
    _add_queued(sweep)
    add_creation(sweep)
    add_json(sweep)


def _add_queued(parser: argparse.ArgumentParser) -> None:
    argument(
        parser,
        "--gpus",
        "N",
        "wait until so many GPUs are free (of a SLURM job: GPUs of each node)",
        type=positive,
    )
    argument(parser, "--retries", "N", "start it again if it fails", type=positive, default=0)
    repeatable(parser, "--stop-if", "RULE", "end it early: 'reward < 0.2 at 50', or 'kl > 10' at any step")
    argument(parser, "--priority", "P", "higher ones go first (default: 0)", type=int, default=0)
    _add_after_reboot(parser)
    flag(parser, "--slurm", "each run is a SLURM job; with all that `rltui up` says of one")


def _add_after_reboot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--after-reboot",
        action=argparse.BooleanOptionalAction,
        help="the queue goes on by itself once the machine was restarted, with the next rltui command",
    )


_WITH_VALUE = frozenset({"--gpus", "--retries", "--stop-if", "--priority", "--random", "--max-parallel"})
_OWN_WORDS = _WITH_VALUE | {"--dry-run", "--array", "--after-reboot", "--no-after-reboot", "--json"}
"""Of `queue add` and `sweep`; all others are for `rltui up`."""


_OF_UP_WITH_VALUE = ("--only", "--resume-step", "--timeout")
"""Of `rltui up`, besides those that say what a new experiment is to be."""


def queued(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Parse `queue add` or `sweep`. `words` are for `rltui up`, as are `overrides`, from behind `--`; `axes`
    are the values of a sweep, `lr=1e-6,3e-6`.
    """
    of_up = argparse.ArgumentParser(add_help=False)
    add_creation(of_up)
    add_slurm(of_up)
    known = of_up._option_string_actions  # noqa: SLF001
    with_value = {name for name in known if known[name].nargs != 0} | {*_OF_UP_WITH_VALUE}
    begin = 1 if argv[0] == "sweep" else 2
    end = argv.index("--") if "--" in argv else len(argv)
    own, words, axes, rest = [], [], [], argv[begin:end]
    ours = _OWN_WORDS
    if "--slurm" in rest or "medarc_slurm" in rest:  # then these are of each node of the job
        ours -= {"--gpus"}
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if name in ("-h", "--help") or name in ours:
            takes_one = not equals and name in _WITH_VALUE and bool(rest)
            own += [word, rest.pop(0)] if takes_one else [word]
        elif not equals and name in with_value and rest:
            words += [word, rest.pop(0)]
        elif begin == 1 and equals and not word.startswith("-"):
            axes.append(word)
        else:
            words.append(word)
    found = parser.parse_args([*argv[:begin], *own])
    found.words, found.overrides, found.axes = words, argv[end + 1 :], axes
    return found


def _add_comparing(commands: Commands[argparse.ArgumentParser]) -> None:
    compare = command(
        commands,
        "compare",
        "commands.compare:compare",
        "runs beside each other: the keys that differ, the metrics",
    )
    argument(compare, "run", "RUN", "two or more, by name or id", nargs="+")
    repeatable(compare, "--metric", "M", "this one: reward, loss, a series (again for more)")
    flag(compare, "--all-keys", "also the keys that are alike")
    shape = compare.add_mutually_exclusive_group()
    flag(shape, "--csv", "a row for each run, with whole values")
    flag(shape, "--md", "a table for GitHub")
    add_json(shape)
    export = command(
        commands,
        "export",
        "commands.export:export",
        "a report of a run in a folder: Markdown, curves, configs",
    )
    argument(export, "run", "RUN", "name or id")
    argument(export, "-o --output-dir", "DIR", "the folder (default: ./RUN-report)")
    argument(
        export, "--rollouts", "N", "so many of the best and the worst (default: 3)", type=count, default=3
    )
    add_json(export)


def _add_rerun(commands: Commands[argparse.ArgumentParser]) -> None:
    rerun = command(
        commands,
        "rerun",
        "commands.rerun:rerun",
        "a run again, from its recorded config; tells what is another now",
    )
    argument(rerun, "run", "RUN", "name or id; also a finished or archived one")
    argument(rerun, "-n --name", "NAME", "of the new run (default: RUN-again)")
    argument(rerun, "-o --output-dir", "DIR", "its folder (default: NAME, beside RUN's)")
    add_devices(rerun)
    flag(rerun, "--plan", "only say what would start, and what is another")
    flag(rerun, "--yes", "do not ask where commit, versions or data differ")
    add_wait(rerun)
    argument(rerun, "--timeout", "S", "give up waiting after S seconds", type=float)
    add_json(rerun)


def _add_forking(commands: Commands[argparse.ArgumentParser]) -> None:
    fork = command(
        commands,
        "fork",
        "commands.fork:fork",
        "a new run with the config of another, or from a checkpoint of it",
    )
    argument(fork, "run", "RUN", "name or id; living, finished or archived")
    argument(
        fork,
        "--from",
        "STEP|last|best",
        "begin with a copy of this checkpoint (default: at the beginning)",
        dest="begin",
    )
    add_set(fork)
    argument(fork, "-n --name", "NAME", "of the new run (default: by what is changed)")
    argument(fork, "-o --output-dir", "DIR", "its folder (default: NAME, beside RUN's)")
    add_devices(fork)
    flag(fork, "--plan", "only say what would be copied and started")
    add_wait(fork)
    argument(fork, "--timeout", "S", "give up waiting after S seconds", type=float)
    add_json(fork)
    promote = command(
        commands,
        "promote",
        "commands.promote:promote",
        "what a run's own copy of the config has changed, written into the files that it was made of",
    )
    argument(promote, "run", "RUN", "name or id")
    flag(promote, "--undo", "take the newest one back")
    flag(promote, "--plan", "only show what would change")
    flag(promote, "--yes", "do not ask")
    promote.epilog = "A key that both have changed is not written, and told; the exit code is 4 then."
    add_json(promote)


_K8S_CONFIG = """\
A run in pods has its config in the image and on /data, which rltui cannot edit from here: its knobs are what
the chart has values for (rltui k8s upgrade RELEASE -f FILE --set trainer.command=…), seen before they count.
"""


def _add_k8s(commands: Commands[argparse.ArgumentParser]) -> None:
    k8s = command(commands, "k8s", "commands.k8s:status", "Helm releases of prime-rl's chart, on Kubernetes")
    k8s.epilog = _K8S_CONFIG
    k8s.set_defaults(release=None, namespace=None, context=None)
    add_json(k8s)
    verbs = k8s.add_subparsers(title="what to do", metavar="VERB")
    for name, text in (
        ("up", "install a release; shows its values, and asks"),
        ("upgrade", "give a release other values; shows what changes, and asks"),
    ):
        _add_making(command(verbs, name, f"commands.k8s:{name}", text))
    status = command(
        verbs, "status", "commands.k8s:status", "pods, why they wait, what runs in them; the shared data"
    )
    argument(status, "release", "RELEASE", "which (default: all)", nargs="?")
    watch = command(
        verbs, "watch", "commands.k8s:watch", "open a release: its pods are followed like components here"
    )
    _add_release(watch)
    argument(watch, "-n --name", "NAME", "name of the experiment (default: the release's)")
    argument(watch, "-o --output-dir", "DIR", "its folder here (default: outputs/NAME)")
    flag(watch, "--no-tui", "only begin, and print the status")
    add_keymap(watch)
    logs = command(verbs, "logs", "commands.k8s:logs", "what a pod prints, from the cluster itself")
    _add_role(logs)
    flag(logs, "-f --follow", "go on, until ctrl+c")
    flag(logs, "--previous", "of the container before its last restart")
    execute = command(verbs, "exec", "commands.k8s:execute", "a shell in a pod, or a command")
    _add_role(execute)
    argument(execute, "command", "COMMAND", "after --: what to run", nargs="*")
    down = command(
        verbs, "down", "commands.k8s:down", "uninstall a release; its data stays unless you say so"
    )
    _add_release(down)
    flag(down, "--delete-data", "also the shared volume; its name is to be typed")
    flag(down, "--yes", "do not ask about the release")
    for parser in (status, watch, logs, execute, down):
        _add_place(parser)
    for parser in (status, watch):
        add_json(parser)


def _add_making(parser: argparse.ArgumentParser) -> None:
    _add_release(parser)
    argument(parser, "--chart", "DIR", "the chart (default: prime-rl here, k8s/prime-rl, or of the checkout)")
    repeatable(
        parser,
        "-f --values",
        "FILE",
        "file of values, or the name of one of the chart's examples; as often as needed",
    )
    repeatable(parser, "--set", "K=V", "a value, as helm takes it", dest="edits")
    flag(parser, "--sft", "let the pods sleep (autoStart=false), to run SFT in one first")
    flag(parser, "--dry-run", "only show the command and the values")
    flag(parser, "--yes", "do not ask")
    add_wait(parser)
    _add_place(parser)


def _add_release(parser: argparse.ArgumentParser) -> None:
    argument(parser, "release", "RELEASE", "name of the release")


def _add_role(parser: argparse.ArgumentParser) -> None:
    _add_release(parser)
    argument(parser, "role", "ROLE", "trainer, inference, …; of several pods trainer-1")


def _add_place(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--namespace", "NS", "namespace (default: the context's)")
    argument(parser, "--context", "CONTEXT", "of the kubeconfig (default: the current one)")
