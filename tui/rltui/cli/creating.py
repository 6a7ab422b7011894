"""`rltui CONFIG…`, `rltui demo`, `rltui watch`: an experiment is made, then shown."""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
from pathlib import Path

from rltui import paths
from rltui.cli.opening import need_terminal, show
from rltui.cli.running import start_headless, wish_of
from rltui.cli.status import as_text, read_status
from rltui.client import creation, launch
from rltui.client.observation import Look, observe
from rltui.core.api import Request
from rltui.errors import RltuiError
from rltui.services.own_files import make_folder
from rltui.services.runs.experiment_files import same_folder
from rltui.services.runs.experiments import check_name, find_experiment
from rltui.services.runs.run_folder import next_free

DEMO_FOLDER = Path("outputs/demo")
DEMO_FILES = ("rl.toml", "sft.toml")


def open_config(arguments: argparse.Namespace) -> int:
    """Attach to the experiment of this config, or create it and let the TUI ask before anything starts."""
    wish = wish_of(arguments)
    planned, _ = creation.plan_record(wish)
    known = find_experiment(planned.name)
    if (
        known is not None
        and same_folder(known.output_dir, planned.output_dir)
        and not (arguments.new or arguments.resume)
    ):
        # Opening changes nothing, so an earlier run can be looked at; the TUI asks before it starts anything.
        return show(known)
    creation.examine(wish)
    need_terminal()
    created = creation.create(wish)
    for note in created.notes:
        print(note, file=sys.stderr)
    return show(created.record)


def demo(arguments: argparse.Namespace) -> int:
    """Run the shipped example in a folder of its own, so that editing it leaves the original alone."""
    if importlib.util.find_spec("torch") is None:
        raise RltuiError(
            "the demo needs torch, which is not installed",
            hint="pip install 'rltui[local]', then `rltui demo`",
        )
    if not arguments.no_tui:
        need_terminal()
    folder = Path(arguments.output_dir or DEMO_FOLDER).absolute()
    known = find_experiment(folder.name)
    if known is not None and launch.lives(known):
        print(f"the demo runs already in {known.output_dir}", file=sys.stderr)
        if arguments.no_tui:
            sys.stdout.write(as_text(read_status(known)))
            return 0
        return show(known)
    if folder.exists():
        # A demo is for watching: each one is a run of its own, the earlier ones stay.
        folder = next_free(folder)
    check_name(folder.name, folder)  # before the folder is made
    wish = creation.Wish(config_files=(_copy_example(folder),), name=folder.name, output_dir=folder)
    code = start_headless(wish, Request(action="start"), wait=arguments.no_tui, timeout_s=None, as_json=False)
    return code if arguments.no_tui or code else show(launch.choose(folder.name))


def _copy_example(folder: Path) -> Path:
    """Copy the example's config files; return the main one."""
    make_folder(folder)
    for name in DEMO_FILES:
        shutil.copyfile(paths.shipped_dir("examples") / "reverse_text" / name, folder / name)
    return folder / DEMO_FILES[0]


def watch(arguments: argparse.Namespace) -> int:
    """Observe the run in a folder; from the TUI, or, without one, until `rltui down`."""
    if not arguments.no_tui:
        need_terminal()
    record = observe(
        Look(
            folder=Path(arguments.run_dir),
            name=arguments.name,
            layout=arguments.layout,
            framework=arguments.framework,
        )
    )
    if not arguments.no_tui:
        return show(record)
    with launch.reach(record) as wire:
        status = wire.call("status")
    sys.stdout.write(json.dumps(status, ensure_ascii=False) + "\n" if arguments.json else as_text(status))
    return 0
