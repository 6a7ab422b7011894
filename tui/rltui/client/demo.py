"""The demo: a real small run on this machine, in a folder of its own."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rltui import paths
from rltui.core import hints
from rltui.core.experiment.request import ConfigLine, ExperimentRequest
from rltui.core.gpu.devices import NO_DEVICES
from rltui.errors import RltuiError
from rltui.services.experiment.registry import check_name, free_name
from rltui.services.own_files import free_path, make_folder

if TYPE_CHECKING:
    from rltui.client.starting import StartOrder
    from rltui.core.runs.evals import EvalRequest

FOLDER = "outputs/demo"
_FILES = ("rl.toml", "sft.toml")
_EXAMPLE, _QUICK_EXAMPLE = "demo", "reverse_text"
"""Folders of `examples/`."""
_MAX_TOKENS = 100
"""Limit of an answer in an evaluation, beside its prompt: an untrained model seldom comes to an end."""


def refuse_without_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise RltuiError(
            "the demo needs torch, which is not installed",
            hint=f"pip install 'rltui[local]', then `{hints.DEMO}`",
        )


def demo_request(folder: Path, *, is_quick: bool = False) -> ExperimentRequest:
    """The request for a new run of the shipped example, whose files are copied into `folder`, or one beside
    it: each demo is a run of its own, the earlier ones stay, also those of other folders. It takes no GPU
    from whoever trains on this machine.

    Raises:
        ConfigError: as `check_name`.
        RltuiError: if the folder cannot be written.
    """
    folder = free_path(folder)
    run_name = free_name(folder.name, folder)
    check_name(run_name, folder)  # before the folder is made
    make_folder(folder)
    for name in _FILES:
        example = _QUICK_EXAMPLE if is_quick else _EXAMPLE
        shutil.copyfile(paths.shipped_dir("examples") / example / name, folder / name)
    config = ConfigLine((folder / _FILES[0],))
    return ExperimentRequest(config, name=run_name, output_dir=folder, devices=NO_DEVICES)


def evaluations() -> tuple[EvalRequest, ...]:
    """Evaluations of the model before all training, before RL and after it; made at the end, so that they
    slow nothing.
    """
    from rltui.core.runs.evals import EvalRequest, EvalTarget

    return tuple(
        EvalRequest(target=target, max_tokens=_MAX_TOKENS, when_done=True)
        for target in (EvalTarget(kind="base"), EvalTarget(kind="sft"), EvalTarget(kind="now"))
    )


def demo_order(folder: Path) -> StartOrder:
    """The demo with its evaluations, for `starting.start_in_subprocess`.

    Raises:
        RltuiError: without torch, or if the folder cannot be written.
    """
    from rltui.client.starting import StartOrder

    refuse_without_torch()
    return StartOrder(request=demo_request(folder), evals=evaluations())
