"""Where things are: shipped files, the user's state, the runtime folder with the sockets."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from rltui.errors import RltuiError

STATE_FOLDER = ".rltui"
"""rltui's own folder inside an output folder."""


def shipped_dir(name: str) -> Path:
    """`layouts` or `examples`: inside an installed wheel, or in the checkout."""
    installed = Path(__file__).parent / "_shipped" / name
    return installed if installed.is_dir() else Path(__file__).parents[2] / name


def state_dir() -> Path:
    """The user's folder for what outlives a reboot: the list of experiments."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "rltui"


def runtime_dir() -> Path:
    """A folder for sockets, 0700 and owned by the user, never on a network file system.

    Raises:
        RltuiError: if it belongs to somebody else or is open to others.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "rltui" if base else Path(tempfile.gettempdir()) / f"rltui-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.lstat()
    except OSError as error:
        raise RltuiError(f"cannot make the folder for sockets {folder}: {error.strerror}") from error
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise RltuiError(
            f"the folder for sockets {folder} is not a private folder of yours",
            hint=f"set XDG_RUNTIME_DIR to a folder of your own, or: chmod 700 {folder}",
        )
    return folder


def socket_path(experiment: str) -> Path:
    """The socket of an experiment's supervisor."""
    return runtime_dir() / f"{experiment}.sock"


def tmux_socket() -> str:
    """Name of the private tmux server, `tmux -L <name>`. Tests and second installations set their own."""
    return os.environ.get("RLTUI_TMUX_SOCKET", "rltui")
