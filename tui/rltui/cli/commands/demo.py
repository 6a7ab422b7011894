"""`demo`: a real small run on this machine."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rltui import paths
from rltui.cli.app import need_terminal, show
from rltui.cli.arguments import KEYMAP, output_dir_option
from rltui.cli.command import Arguments, command, flag
from rltui.cli.new_run import start_headless
from rltui.cli.status_text import print_status, read_status
from rltui.client import launch
from rltui.core import hints
from rltui.errors import RltuiError
from rltui.services.own_files import make_folder
from rltui.services.runs.experiments import check_name, find_experiment

if TYPE_CHECKING:
    from rltui.core.evals import EvalRequest

_DEMO_FILES = ("rl.toml", "sft.toml")
_EXAMPLE, _QUICK_EXAMPLE = "demo", "reverse_text"
"""Folders of `examples/`."""
_KEYS = "{edit} edits a knob, {screen_metrics} charts, {help} all keys, {detach} leaves"
"""Keys for a newcomer, as text for `RltuiApp.greeting`."""


@command(
    "demo",
    output_dir_option("folder of the demo (default: outputs/demo)"),
    flag("--quick", "an easier task: 80 seconds instead of 5 minutes"),
    flag("--no-tui", "start the run without the TUI"),
    KEYMAP,
    examples=(
        "demo",
        "demo --quick",
        "demo --no-tui",
    ),
)
def demo(arguments: Arguments) -> int:
    """Run the shipped example in a folder of its own, so that editing it leaves the original alone."""
    from rltui.client import draft
    from rltui.core.api import Request
    from rltui.services.own_files import free_path

    if importlib.util.find_spec("torch") is None:
        raise RltuiError(
            "the demo needs torch, which is not installed",
            hint=f"pip install 'rltui[local]', then `{hints.DEMO}`",
        )
    if not arguments.no_tui:
        need_terminal()
    folder = Path(arguments.output_dir or "outputs/demo").absolute()
    experiment = find_experiment(folder.name)
    if experiment is not None and launch.is_running(experiment):
        print(f"the demo is already running in {experiment.output_dir}", file=sys.stderr)
        if arguments.no_tui:
            print_status(read_status(experiment), as_json=False)
            return 0
        return show(experiment)
    folder = free_path(folder)  # a demo is for watching: each one is a run of its own, the earlier ones stay
    check_name(folder.name, folder)  # before the folder is made
    request = draft.ExperimentRequest(
        config_files=(_copy_example(folder, _QUICK_EXAMPLE if arguments.quick else _EXAMPLE),),
        name=folder.name,
        output_dir=folder,
    )
    code = start_headless(
        request,
        Request(action="start"),
        wait=arguments.no_tui,
        timeout_s=None,
        as_json=False,
        evals=_evaluations(),
    )
    if arguments.no_tui or code:
        return code
    duration = "80 seconds" if arguments.quick else "5 minutes"
    return show(launch.choose(folder.name), greeting=f"This CPU trains for about {duration}. {_KEYS}")


def _evaluations() -> tuple[EvalRequest, ...]:
    """Evaluations of the model before all training, before RL and after it; made at the end, so that they
    slow nothing.
    """
    from rltui.core.evals import EvalRequest, EvalTarget

    # An untrained model seldom comes to an end: as many tokens as the context has room for.
    return tuple(
        EvalRequest(target=target, max_tokens=112, when_done=True)
        for target in (EvalTarget(kind="base"), EvalTarget(kind="sft"), EvalTarget(kind="now"))
    )


def _copy_example(folder: Path, example: str) -> Path:
    make_folder(folder)
    for name in _DEMO_FILES:
        shutil.copyfile(paths.shipped_dir("examples") / example / name, folder / name)
    return folder / _DEMO_FILES[0]
