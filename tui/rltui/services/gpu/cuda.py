"""The devices that a CUDA process sees in an environment, and whether its torch uses them."""

from __future__ import annotations

import ast
import functools
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rltui.base.interpreter import OWN_PYTHON
from rltui.core.gpu.devices import GpuChoice, chosen_devices
from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.errors import RltuiError
from rltui.services.processes.subprocesses import check_output

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
DEVICE_ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
"""rltui counts devices as NVML does, by the PCI bus, and has its components do so. CUDA's own order, fastest
first, is known to the driver alone.
"""

Choose = Callable[[GpuChoice], Sequence[GpuDevice]]
"""Finds chosen devices among those that were last read."""


def no_devices(choice: GpuChoice) -> tuple[GpuDevice, ...]:
    """A `Choose` for when devices have not been read."""
    del choice
    return ()


TIMEOUT_S = 20.0
"""Limit for an interpreter on a network drive that nobody has used yet."""

_logger = logging.getLogger(__name__)


def visible_devices(report: GpuReport) -> tuple[GpuDevice, ...]:
    """Devices of this machine that `CUDA_VISIBLE_DEVICES` leaves to this process."""
    return chosen_devices(os.environ.get(VISIBLE_DEVICES), report.devices)


def uses_cuda(python: str) -> bool | None:
    """True if the torch of that interpreter was built for CUDA; `None` if it has no torch, or it cannot be
    read.

    Read from `torch/version.py`, which torch's build writes (`tools/generate_torch_version.py`): its `cuda`
    is the toolkit's version, `None` for CPU and ROCm builds. The name of the wheel does not tell: `2.9.0`
    from PyPI is a CUDA build on x86, and has no `+cu128` to say so.

    Blocks for the start of an interpreter the first time that another one than ours is given.

    Args:
        python: path of an interpreter, or its name on `PATH`.
    """
    for folder in _search_path(python):
        version = Path(folder, "torch", "version.py")
        if version.is_file():
            return _names_cuda(version)
    return None


def _names_cuda(version: Path) -> bool | None:
    try:
        tree = ast.parse(version.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        _logger.info("cannot read %s: %s", version, error)
        return None
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="cuda")], value=ast.Constant(value))
                | ast.AnnAssign(target=ast.Name(id="cuda"), value=ast.Constant(value))
            ):
                return value is not None
    return None


def _search_path(python: str) -> Sequence[str]:
    """`sys.path` of that interpreter, empty if it cannot be run."""
    executable = shutil.which(python)
    if executable is None:
        return ()
    path = os.path.abspath(executable)  # noqa: PTH100 - a link of a virtual environment is not to be followed
    if path == OWN_PYTHON:
        return sys.path
    try:
        # they change when another interpreter or virtual environment takes its place
        files = (Path(path), Path(path).parent.parent / "pyvenv.cfg")
        return _ask_search_path(
            path, tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
        )
    except (RltuiError, OSError, ValueError) as error:
        _logger.info("cannot ask %s for its packages: %s", path, error)
        return ()


@functools.lru_cache(maxsize=32)
def _ask_search_path(path: str, fingerprints: tuple[int, ...]) -> Sequence[str]:
    """Cached: packages come and go in these folders, the folders stay. `fingerprints` are only part of the
    key.

    Raises:
        RltuiError, ValueError: it does not run, or is no interpreter.
    """
    del fingerprints
    # Without the folder it runs in.
    code = "import sys; sys.path[:] = filter(None, sys.path); import json; print(json.dumps(sys.path))"
    return tuple(json.loads(check_output([path, "-c", code], timeout_s=TIMEOUT_S)))
