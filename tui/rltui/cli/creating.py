"""`rltui CONFIG…`, `rltui demo`: an experiment is made, then shown."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
from pathlib import Path

from rltui import paths
from rltui.cli.opening import need_terminal, show
from rltui.cli.running import create, start_headless, wish_of
from rltui.client import creation, launch
from rltui.errors import RltuiError
from rltui.services.experiment_files import find_experiment, make_folder, same_folder
from rltui.services.run_folder import next_free

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
    return show(create(wish))


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
        return show(known)
    if folder.exists():
        # A demo is for watching: each one is a run of its own, the earlier ones stay.
        folder = next_free(folder)
    wish = creation.Wish(config_files=(_copy_example(folder),), name=folder.name, output_dir=folder)
    record = create(wish)
    if arguments.no_tui:
        return start_headless(record, (), wait=True, timeout_s=None, as_json=False)
    start_headless(record, (), wait=False, timeout_s=None, as_json=False)
    return show(record)


def _copy_example(folder: Path) -> Path:
    """Copy the example's config files; return the main one."""
    make_folder(folder)
    for name in DEMO_FILES:
        shutil.copyfile(paths.shipped_dir("examples") / "reverse_text" / name, folder / name)
    return folder / DEMO_FILES[0]
