"""Programs that may be run without asking: those in folders that a person named to `rltui trust`, and what a
person started: the layout file as it was then, and the checkout. A layout or a checkout that
merely lies near a config, or below those, is not among them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from rltui import paths
from rltui.core import hints
from rltui.core.kinds import TEXTS
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import Framework
from rltui.services import checkout, layout_files
from rltui.services.config.source import content_of, sha_of
from rltui.services.own_files import make_folder, write_atomically

_Line = tuple[str, ...]
"""`("tree", FOLDER)`: with all below it, as a person named it. `("checkout", FOLDER)`: without what is below.
`("layout", FILE, SHA256)`: as long as it says that. Paths are absolute, without links.
"""


def is_trusted(folder: Path) -> bool:
    """Whether the programs of the project in `folder` may be run."""
    real = folder.resolve()
    return ("checkout", str(real)) in _listed() or _is_in_tree(real)


def is_layout_trusted(file: Path) -> bool:
    """Whether the commands of a layout may be run. The user's layouts and rltui's own always are."""
    real = file.resolve()
    own = (folder.resolve() for folder in layout_files.folders(None))
    if any(folder in real.parents for folder in own) or _is_in_tree(real):
        return True
    try:
        return _of_layout(real) in _listed()
    except ConfigError:
        return False


def _of_layout(real: Path) -> _Line:
    return "layout", str(real), sha_of(content_of(real))


def _is_in_tree(real: Path) -> bool:
    listed = _listed()
    return any(("tree", str(path)) in listed for path in (real, *real.parents))


def trust(folder: Path) -> None:
    """Trust a folder and all that lies in it from now on.

    Raises:
        RltuiError: if that cannot be kept.
    """
    _keep([("tree", str(folder.resolve()))])


def trust_programs(
    layout_file: Path, framework: Framework, *, workspace: Path, config_files: Sequence[Path]
) -> None:
    """Trust what an experiment that somebody starts runs: its layout, and its checkout.

    Raises:
        ConfigError: as `checkout.find`; if the layout cannot be read.
        RltuiError: if that cannot be kept.
    """
    new = [] if is_layout_trusted(layout_file) else [_of_layout(layout_file.resolve())]
    if framework.checkout is not None:
        found = checkout.find(framework.checkout, workspace=workspace, config_files=config_files)
        if found is not None and not is_trusted(project := checkout.project_of(found, framework.checkout)):
            new.append(("checkout", str(project.resolve())))
    _keep(new)


def _keep(new: Iterable[_Line]) -> None:
    known = _listed()
    if not (lines := [f"{json.dumps(each)}\n" for each in new if each not in known]):
        return
    make_folder(_file().parent)
    try:
        descriptor = os.open(_file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:  # noqa: PTH123  (of a descriptor)
            file.write("".join(lines))
    except OSError as error:
        raise RltuiError(f"cannot write {_file()}: {error.strerror}") from error


def distrust(folder: Path) -> None:
    """Trust a folder no longer, nor any in it.

    Raises:
        RltuiError: if that cannot be kept.
    """
    real = folder.resolve()
    left = [each for each in _listed() if not Path(each[1]).is_relative_to(real)]
    make_folder(_file().parent)
    write_atomically(_file(), "".join(f"{json.dumps(each)}\n" for each in left).encode())


def untrusted(folder: Path) -> str:
    return f"{folder} is not trusted; to let rltui run what it holds: {hints.TRUST(folder=folder)}"


def _file() -> Path:
    """Earlier versions kept another, in which what was started and what was named look alike."""
    return paths.state_dir() / "trusted.jsonl"


def _listed() -> list[_Line]:
    try:
        lines = _file().read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return [tuple(each) for each in found if TEXTS.fits(each) and len(each) > 1]
