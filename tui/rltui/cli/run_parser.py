"""Arguments of the commands about many runs: their list, keeping, comparing, forking, queueing."""

from __future__ import annotations

import argparse

from rltui.cli.arguments import Commands, add_json, command, count, positive


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them all."""
    for add_some in (_add_listing, _add_keeping, _add_comparing):
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
    keeping.add_argument("--keep-best", type=positive, metavar="N", help="the N with the best reward")
    keeping.add_argument("--keep-last", type=positive, metavar="N", help="the newest N")
    keeping.add_argument("--keep-tag", action="append", default=[], metavar="T", help="those with this tag")
    keeping.add_argument("--older-than", metavar="AGE", help="only those that ended so long ago: 30d, 12h")
    keeping.add_argument("--plan", action="store_true", help="only say what --prune would do")
    keeping.add_argument("--yes", action="store_true", help="do not ask")


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
