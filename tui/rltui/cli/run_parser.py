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
    command,
    count,
    positive,
)


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them all."""
    for add_some in (
        _add_listing,
        _add_adding,
        _add_keeping,
        _add_queue,
        _add_comparing,
        _add_rerun,
        _add_forking,
        _add_k8s,
    ):
        add_some(commands)


def _add_listing(commands: Commands[argparse.ArgumentParser]) -> None:
    runs = command(commands, "runs", "runs:runs", "all runs there are, living and finished")
    runs.add_argument(
        "filter",
        nargs="*",
        metavar="FILTER",
        help="only those: a part of the name, tag:baseline, 'reward > 0.8 and lr < 1e-5'",
    )
    runs.add_argument(
        "--sort", metavar="COL", help="by this column: figures from the largest on, texts from A"
    )
    runs.add_argument("--reverse", action="store_true", help="the other way round")
    runs.add_argument(
        "--columns",
        metavar="COL,…",
        help="these, or with + before each, also these: fields, metrics, config keys",
    )
    runs.add_argument("--all", action="store_true", help="also the archived")
    runs.add_argument("--group", action="store_true", help="sweeps and forks below what they come from")
    runs.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    runs.add_argument("--rebuild", action="store_true", help="read all folders again, into a new index")
    shape = runs.add_mutually_exclusive_group()
    shape.add_argument("--csv", action="store_true", help="a row for each run, with whole values")
    add_json(shape)
    keeping = runs.add_argument_group("putting old ones into the trash")
    keeping.add_argument(
        "--prune", action="store_true", help="those of FILTER that nothing keeps; the plan is shown first"
    )
    keeping.add_argument(
        "--keep-best", type=positive, metavar="N", help="the N with the best mean reward over ten steps"
    )
    keeping.add_argument("--keep-last", type=positive, metavar="N", help="the newest N")
    keeping.add_argument("--keep-tag", action="append", default=[], metavar="T", help="those with this tag")
    keeping.add_argument("--older-than", metavar="AGE", help="only those that ended so long ago: 30d, 12h")
    keeping.add_argument("--plan", action="store_true", help="only say what --prune would do")
    keeping.add_argument("--yes", action="store_true", help="do not ask")


def _add_adding(commands: Commands[argparse.ArgumentParser]) -> None:
    adding = command(commands, "add", "keeping:add", "take runs that rltui did not start into the list")
    adding.add_argument(
        "folder",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="of a run, of results of vf-eval, or with any number of them below",
    )
    adding.add_argument("-n", "--name", metavar="NAME", help="of a single run (default: as its folder)")
    add_json(adding)


def _add_keeping(commands: Commands[argparse.ArgumentParser]) -> None:
    tag = command(commands, "tag", "keeping:tag", "the tags of runs: show, add, remove")
    tag.add_argument("word", nargs="*", metavar="RUN|+TAG", help="runs by name or id, and +TAG to add")
    tag.add_argument("--remove", action="append", default=[], metavar="TAG,…", help="tags to remove")
    describe = command(
        commands, "describe", "keeping:describe", "the note of a run, in the list of runs: show, write"
    )
    describe.add_argument("run", metavar="RUN", help="name or id")
    describe.add_argument("text", nargs="*", metavar="TEXT", help="the new note; - reads it from stdin")
    describe.add_argument("--clear", action="store_true", help="remove it")
    best = command(commands, "best", "keeping:best", "mark runs as the best ones")
    best.add_argument("--remove", action="store_true", help="take the mark away")
    archive = command(commands, "archive", "keeping:archive", "list these runs no longer, unless asked to")
    unarchive = command(commands, "unarchive", "keeping:unarchive", "list these runs again")
    rm = command(commands, "rm", "keeping:remove", "put runs into the trash, folder and all")
    rm.add_argument("--plan", action="store_true", help="only say what would go, and what it frees")
    rm.add_argument("--yes", action="store_true", help="do not ask")
    restore = command(commands, "restore", "keeping:restore", "take runs out of the trash")
    for parser in (best, archive, unarchive, rm, restore):
        parser.add_argument("run", nargs="+", metavar="RUN", help="name or id")
    trash = command(commands, "trash", "keeping:trash", "what lies in the trash, and how large it is")
    trash.add_argument("--empty", action="store_true", help="delete it for good; asks first")
    trash.add_argument("--older-than", metavar="AGE", help="only what has lain there so long: 30d, 12h")
    trash.add_argument("--yes", action="store_true", help="do not ask")
    for parser in (tag, describe, best, archive, unarchive, rm, restore, trash):
        add_json(parser)


def _add_queue(commands: Commands[argparse.ArgumentParser]) -> None:
    queue = command(commands, "queue", "queue:show", "runs that wait for GPUs, and start by themselves")
    add_json(queue)
    verbs = queue.add_subparsers(title="what to do", metavar="VERB")
    listing = command(verbs, "ls", "queue:show", "what waits and why, what runs, what has ended")
    asked = command(verbs, "add", "queue:add", "start a run when it can; all that `rltui up` takes")
    asked.add_argument(
        "config", nargs="*", metavar="CONFIG", help="as `rltui up` takes it; also -- --KEY VALUE"
    )
    _add_queued(asked)
    add_creation(asked)
    paused = command(verbs, "pause", "queue:pause", "start nothing any more; what runs goes on")
    resumed = command(verbs, "resume", "queue:resume", "start what may start, also after a reboot")
    _add_after_reboot(resumed)
    removed = command(verbs, "rm", "queue:remove", "do not start these; forget those that have ended")
    again = command(verbs, "retry", "queue:retry", "let these wait again, with config files as they are now")
    for parser in (removed, again):
        parser.add_argument("entry", nargs="+", metavar="ENTRY", help="name or id; or a sweep")
    add_set(again)
    moved = command(verbs, "move", "queue:move", "let one start earlier, or later")
    moved.add_argument("entry", metavar="ENTRY", help="name or id; or a sweep")
    moved.add_argument("place", metavar="PLACE", help="first, last, up, down, or its number in the queue")
    limit = command(verbs, "limit", "queue:limit", "how many run at once on this machine")
    limit.add_argument("most", metavar="N|none", help="none: as GPUs allow; without GPUs one")
    for parser in (listing, asked, paused, resumed, removed, again, moved, limit):
        add_json(parser)
    sweep = command(commands, "sweep", "queue:sweep", "queue a run for each combination of values")
    sweep.add_argument(
        "config", nargs="*", metavar="CONFIG|KEY=VALUES", help="as `rltui up`; lr=1e-6,3e-6 seed=0..2"
    )
    sweep.add_argument("--random", type=positive, metavar="K", help="only K of the combinations, by chance")
    sweep.add_argument("--dry-run", action="store_true", help="only list them; queue nothing")
    sweep.add_argument(
        "--max-parallel",
        type=positive,
        metavar="N",
        help="so many of them at once (SLURM jobs: so many submitted)",
    )
    sweep.add_argument(
        "--array", action="store_true", help="with --slurm: the jobs are one job array (then N at once run)"
    )
    _add_queued(sweep)
    add_creation(sweep)
    add_json(sweep)


def _add_queued(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpus",
        type=positive,
        metavar="N",
        help="wait until so many GPUs are free (of a SLURM job: GPUs of each node)",
    )
    parser.add_argument("--retries", type=positive, default=0, metavar="N", help="start it again if it fails")
    parser.add_argument(
        "--stop-if",
        action="append",
        default=[],
        metavar="RULE",
        help="end it early: 'reward < 0.2 at 50', or 'kl > 10' at any step",
    )
    parser.add_argument(
        "--priority", type=int, default=0, metavar="P", help="higher ones go first (default: 0)"
    )
    _add_after_reboot(parser)
    parser.add_argument(
        "--slurm", action="store_true", help="each run is a SLURM job; with all that `rltui up` says of one"
    )


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
        commands, "compare", "compare:compare", "runs beside each other: the keys that differ, the metrics"
    )
    compare.add_argument("run", nargs="+", metavar="RUN", help="two or more, by name or id")
    compare.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="M",
        help="this one: reward, loss, a series (again for more)",
    )
    compare.add_argument("--all-keys", action="store_true", help="also the keys that are alike")
    shape = compare.add_mutually_exclusive_group()
    shape.add_argument("--csv", action="store_true", help="a row for each run, with whole values")
    shape.add_argument("--md", action="store_true", help="a table for GitHub")
    add_json(shape)
    export = command(
        commands, "export", "compare:export", "a report of a run in a folder: Markdown, curves, configs"
    )
    export.add_argument("run", metavar="RUN", help="name or id")
    export.add_argument("-o", "--output-dir", metavar="DIR", help="the folder (default: ./RUN-report)")
    export.add_argument(
        "--rollouts",
        type=count,
        default=3,
        metavar="N",
        help="so many of the best and the worst (default: 3)",
    )
    add_json(export)


def _add_rerun(commands: Commands[argparse.ArgumentParser]) -> None:
    rerun = command(
        commands, "rerun", "rerun:rerun", "a run again, from its recorded config; tells what is another now"
    )
    rerun.add_argument("run", metavar="RUN", help="name or id; also a finished or archived one")
    rerun.add_argument("-n", "--name", metavar="NAME", help="of the new run (default: RUN-again)")
    rerun.add_argument("-o", "--output-dir", metavar="DIR", help="its folder (default: NAME, beside RUN's)")
    add_devices(rerun)
    rerun.add_argument("--plan", action="store_true", help="only say what would start, and what is another")
    rerun.add_argument("--yes", action="store_true", help="do not ask where commit, versions or data differ")
    add_wait(rerun)
    rerun.add_argument("--timeout", type=float, metavar="S", help="give up waiting after S seconds")
    add_json(rerun)


def _add_forking(commands: Commands[argparse.ArgumentParser]) -> None:
    fork = command(
        commands, "fork", "fork:fork", "a new run with the config of another, or from a checkpoint of it"
    )
    fork.add_argument("run", metavar="RUN", help="name or id; living, finished or archived")
    fork.add_argument(
        "--from",
        dest="begin",
        metavar="STEP|last|best",
        help="begin with a copy of this checkpoint (default: at the beginning)",
    )
    add_set(fork)
    fork.add_argument("-n", "--name", metavar="NAME", help="of the new run (default: by what is changed)")
    fork.add_argument("-o", "--output-dir", metavar="DIR", help="its folder (default: NAME, beside RUN's)")
    add_devices(fork)
    fork.add_argument("--plan", action="store_true", help="only say what would be copied and started")
    add_wait(fork)
    fork.add_argument("--timeout", type=float, metavar="S", help="give up waiting after S seconds")
    add_json(fork)
    promote = command(
        commands,
        "promote",
        "fork:promote",
        "what a run's own copy of the config has changed, written into the files that it was made of",
    )
    promote.add_argument("run", metavar="RUN", help="name or id")
    promote.add_argument("--undo", action="store_true", help="take the newest one back")
    promote.add_argument("--plan", action="store_true", help="only show what would change")
    promote.add_argument("--yes", action="store_true", help="do not ask")
    promote.epilog = "A key that both have changed is not written, and told; the exit code is 4 then."
    add_json(promote)


_K8S_CONFIG = """\
A run in pods has its config in the image and on /data, which rltui cannot edit from here: its knobs are what
the chart has values for (rltui k8s upgrade RELEASE -f FILE --set trainer.command=…), seen before they count.
"""


def _add_k8s(commands: Commands[argparse.ArgumentParser]) -> None:
    k8s = command(commands, "k8s", "k8s:status", "Helm releases of prime-rl's chart, on Kubernetes")
    k8s.epilog = _K8S_CONFIG
    k8s.set_defaults(release=None, namespace=None, context=None)
    add_json(k8s)
    verbs = k8s.add_subparsers(title="what to do", metavar="VERB")
    for name, text in (
        ("up", "install a release; shows its values, and asks"),
        ("upgrade", "give a release other values; shows what changes, and asks"),
    ):
        _add_making(command(verbs, name, f"k8s:{name}", text))
    status = command(verbs, "status", "k8s:status", "pods, why they wait, what runs in them; the shared data")
    status.add_argument("release", nargs="?", metavar="RELEASE", help="which (default: all)")
    watch = command(verbs, "watch", "k8s:watch", "open a release: its pods are followed like components here")
    _add_release(watch)
    watch.add_argument("-n", "--name", metavar="NAME", help="name of the experiment (default: the release's)")
    watch.add_argument("-o", "--output-dir", metavar="DIR", help="its folder here (default: outputs/NAME)")
    watch.add_argument("--no-tui", action="store_true", help="only begin, and print the status")
    add_keymap(watch)
    logs = command(verbs, "logs", "k8s:logs", "what a pod prints, from the cluster itself")
    _add_role(logs)
    logs.add_argument("-f", "--follow", action="store_true", help="go on, until ctrl+c")
    logs.add_argument("--previous", action="store_true", help="of the container before its last restart")
    execute = command(verbs, "exec", "k8s:execute", "a shell in a pod, or a command")
    _add_role(execute)
    execute.add_argument("command", nargs="*", metavar="COMMAND", help="after --: what to run")
    down = command(verbs, "down", "k8s:down", "uninstall a release; its data stays unless you say so")
    _add_release(down)
    down.add_argument(
        "--delete-data", action="store_true", help="also the shared volume; its name is to be typed"
    )
    down.add_argument("--yes", action="store_true", help="do not ask about the release")
    for parser in (status, watch, logs, execute, down):
        _add_place(parser)
    for parser in (status, watch):
        add_json(parser)


def _add_making(parser: argparse.ArgumentParser) -> None:
    _add_release(parser)
    parser.add_argument(
        "--chart", metavar="DIR", help="the chart (default: prime-rl here, k8s/prime-rl, or of the checkout)"
    )
    parser.add_argument(
        "-f", "--values", action="append", default=[], metavar="FILE",
        help="file of values, or the name of one of the chart's examples; as often as needed",
    )  # fmt: skip
    parser.add_argument(
        "--set", dest="edits", action="append", default=[], metavar="K=V", help="a value, as helm takes it"
    )
    parser.add_argument(
        "--sft", action="store_true", help="let the pods sleep (autoStart=false), to run SFT in one first"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show the command and the values")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_wait(parser)
    _add_place(parser)


def _add_release(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("release", metavar="RELEASE", help="name of the release")


def _add_role(parser: argparse.ArgumentParser) -> None:
    _add_release(parser)
    parser.add_argument("role", metavar="ROLE", help="trainer, inference, …; of several pods trainer-1")


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--namespace", metavar="NS", help="namespace (default: the context's)")
    parser.add_argument("--context", metavar="CONTEXT", help="of the kubeconfig (default: the current one)")
