"""Folders whose programs may be run without asking: those that a person named to `rltui trust`, or started an
experiment from. A layout or a checkout that merely lies near a config is not among them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rltui import paths
from rltui.errors import RltuiError
from rltui.frameworks.base import Framework
from rltui.services import checkout, layout_files
from rltui.services.own_files import make_folder, write_atomically


def is_trusted(folder: Path) -> bool:
    """Whether `folder`, or one that it lies in, is trusted. The user's layouts and rltui's own always are."""
    trusted = {*_listed(), *(str(path.resolve()) for path in layout_files.folders(None))}
    real = folder.resolve()
    return any(str(path) in trusted for path in (real, *real.parents))


def trust(folders: Iterable[Path]) -> None:
    """Trust these from now on.

    Raises:
        RltuiError: if that cannot be kept.
    """
    new = [str(folder.resolve()) for folder in folders if not is_trusted(folder)]
    if not new:
        return
    make_folder(_file().parent)
    try:
        descriptor = os.open(_file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:  # noqa: PTH123  (of a descriptor)
            file.write("".join(f"{json.dumps(folder)}\n" for folder in new))
    except OSError as error:
        raise RltuiError(f"cannot write {_file()}: {error.strerror}") from error


def distrust(folder: Path) -> None:
    """Trust a folder no longer, nor any in it.

    Raises:
        RltuiError: if that cannot be kept.
    """
    real = folder.resolve()
    left = [path for path in _listed() if not Path(path).is_relative_to(real)]
    make_folder(_file().parent)
    write_atomically(_file(), "".join(f"{json.dumps(path)}\n" for path in left).encode())


def untrusted(folder: Path) -> str:
    """Why nothing in it was run."""
    return f"{folder} is not trusted; to let rltui run what it holds: rltui trust {folder}"


def programs_of(
    layout_file: Path, framework: Framework, *, workspace: Path, config_files: Sequence[Path]
) -> tuple[Path, ...]:
    """The folders whose programs an experiment runs. Whoever starts it trusts them.

    Raises:
        ConfigError: as `checkout.find`.
    """
    folders = [layout_file.parent]
    if framework.checkout is not None:
        found = checkout.find(framework.checkout, workspace=workspace, config_files=config_files)
        folders += [] if found is None else [checkout.project_of(found, framework.checkout)]
    return tuple(folders)


def _file() -> Path:
    return paths.state_dir() / "trusted"


def _listed() -> list[str]:
    """A line each; what nobody can understand is passed over."""
    try:
        lines = _file().read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [path for path in found if isinstance(path, str)]
