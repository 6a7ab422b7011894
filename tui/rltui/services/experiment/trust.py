"""Programs that may be run without confirmation: those in folders that a person named to `rltui trust`, and
those that a person started: the layout file as it was then, and the checkout. A layout or a checkout that
merely is near a config, or below those, is not included.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from rltui import paths
from rltui.base.kinds import TEXTS
from rltui.core import hints
from rltui.core.experiment.rights import Act
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import Framework
from rltui.services.config.config_file import content_of, sha_of
from rltui.services.experiment import layout_files
from rltui.services.experiment.checkout import NearbyCheckout
from rltui.services.experiment.rights import require
from rltui.services.own_files import make_folder, write_atomically

_Entry = tuple[str, ...]
"""`("tree", FOLDER)`: with all below it, as a person named it. `("checkout", FOLDER)`: without what is below.
`("layout", FILE, SHA256)`: while it has this content. Paths are absolute, without links.
"""


def is_trusted(folder: Path) -> bool:
    """True if the programs of the project in `folder` may be run."""
    real = folder.resolve()
    return ("checkout", str(real)) in _read_entries() or _is_in_tree(real)


def is_layout_trusted(file: Path) -> bool:
    """True if the commands of a layout may be run. The user's layouts and rltui's own always may."""
    real = file.resolve()
    own = (folder.resolve() for folder in layout_files.folders(None))
    if any(folder in real.parents for folder in own) or _is_in_tree(real):
        return True
    try:
        return _layout_entry(real) in _read_entries()
    except ConfigError:
        return False


def _layout_entry(real: Path) -> _Entry:
    return "layout", str(real), sha_of(content_of(real))


def _is_in_tree(real: Path) -> bool:
    entries = _read_entries()
    return any(("tree", str(path)) in entries for path in (real, *real.parents))


def trust(folder: Path) -> None:
    """Trust a folder and all that is in it from now on.

    Raises:
        RltuiError: if that cannot be stored.
    """
    require(Act("trust"))
    _add_entries([("tree", str(folder.resolve()))])


def trust_programs(
    layout_file: Path, framework: Framework, *, workspace: Path, config_files: Sequence[Path]
) -> None:
    """Trust the layout and the checkout of an experiment that somebody starts.

    Raises:
        ConfigError: as `NearbyCheckout`; if the layout cannot be read.
        RltuiError: if that cannot be stored.
    """
    new = [] if is_layout_trusted(layout_file) else [_layout_entry(layout_file.resolve())]
    if framework.checkout is not None:
        project = NearbyCheckout(framework.checkout, workspace=workspace, config_files=config_files).project
        if project is not None and not is_trusted(project):
            new.append(("checkout", str(project.resolve())))
    _add_entries(new)


def _add_entries(new: Iterable[_Entry]) -> None:
    existing = _read_entries()
    if not (lines := [f"{json.dumps(entry)}\n" for entry in new if entry not in existing]):
        return
    make_folder(_file().parent)
    try:
        descriptor = os.open(_file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:  # noqa: PTH123  (of a descriptor)
            file.write("".join(lines))
    except OSError as error:
        raise RltuiError(f"cannot write {_file()}: {error.strerror}") from error


def distrust(folder: Path) -> None:
    """Stop trusting a folder and any in it.

    Raises:
        RltuiError: if that cannot be stored.
    """
    real = folder.resolve()
    remaining = [entry for entry in _read_entries() if not Path(entry[1]).is_relative_to(real)]
    make_folder(_file().parent)
    write_atomically(_file(), "".join(f"{json.dumps(entry)}\n" for entry in remaining).encode())


def untrusted(folder: Path) -> str:
    return f"{folder} is not trusted; to allow rltui to run its files: {hints.TRUST(folder=folder)}"


def _file() -> Path:
    """Earlier versions have another file, which does not tell started from named folders."""
    return paths.state_dir() / "trusted.jsonl"


def _read_entries() -> list[_Entry]:
    try:
        lines = _file().read_text(errors="replace").splitlines()
    except OSError:
        return []
    documents = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            documents.append(json.loads(line))
    return [tuple(document) for document in documents if TEXTS.fits(document) and len(document) > 1]
