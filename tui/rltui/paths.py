"""Locations: shipped files, the user's state and cache, the runtime folder with the sockets."""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path

from rltui.errors import NotFoundError, RltuiError

STATE_FOLDER = ".rltui"
"""Name of rltui's own folder inside an output folder."""
ATTEMPT_RECORD, ATTEMPT_SPEC, ATTEMPT_LOG = "attempt.json", "spec.json", "output.log"
"""Files in the folder of an attempt: what its shim records, how it was started, what it prints. The shim,
which imports nothing of this, has the same names.
"""
_LONGEST_SOCKET = 107
"""Bytes in the path of a socket; Linux takes no more (unix(7))."""
_LAST_RESORT = Path("/tmp")  # noqa: S108 - a private folder in it


_LONGEST_SESSION = 48


def shipped_dir(name: str) -> Path:
    """Folder `layouts` or `examples`: inside an installed wheel, or in the checkout."""
    installed = Path(__file__).parent / "_shipped" / name
    return installed if installed.is_dir() else Path(__file__).parents[2] / name


def state_dir() -> Path:
    """The user's folder for data that outlives a reboot: the list of experiments."""
    return _user_dir("XDG_STATE_HOME", ".local/state")


def queue_folder() -> Path:
    """The folder of the queue of runs, on which its clients and its scheduler agree."""
    return state_dir() / "queue"


def queue_file() -> Path:
    return queue_folder() / "queue.json"


def bench_folder() -> Path:
    """Folder with a file for each bench."""
    return state_dir() / "bench"


def config_dir() -> Path:
    """The user's folder for settings and layouts, which a person writes."""
    return _user_dir("XDG_CONFIG_HOME", ".config")


def settings_file() -> Path:
    return config_dir() / "settings.toml"


def cache_dir() -> Path:
    """The user's folder for data that can be computed again at any time."""
    return _user_dir("XDG_CACHE_HOME", ".cache")


def _user_dir(variable: str, default: str) -> Path:
    try:
        base = os.environ.get(variable)
        return (Path(base) if base else Path.home() / default) / "rltui"
    except RuntimeError:
        hint = f"export {variable}=FOLDER, or HOME=FOLDER"
        raise RltuiError("no home folder: HOME is not set", hint=hint) from None


def variable_of(path: Path) -> str | None:
    """Name of the environment variable that moves a folder of the user's; `None` for other folders."""
    folders = {"XDG_STATE_HOME": state_dir(), "XDG_CACHE_HOME": cache_dir()}
    return next((name for name, folder in folders.items() if path.is_relative_to(folder)), None)


def runtime_dir() -> Path:
    """A folder for sockets, 0700 and owned by the user, never on a network file system.

    Raises:
        RltuiError: if none can be used, with the reasons.
    """
    return _usable_dir("")[0]


def socket_path(experiment: str, output_dir: str) -> Path:
    """Path on which the supervisor of an experiment is to listen.

    Raises:
        RltuiError: as `runtime_dir`.
    """
    name = socket_name(experiment, output_dir)
    return _usable_dir(name)[0] / name


def socket_candidates(experiment: str, output_dir: str) -> list[Path]:
    """Paths on which it may listen: started from a shell with other variables, or after a folder had
    vanished.
    """
    name = socket_name(experiment, output_dir)
    return [folder / name for folder in socket_dirs()]


def socket_dirs() -> list[Path]:
    """The folders that sockets may be in, whether or not they exist."""
    session_dir = Path(f"/run/user/{os.getuid()}/rltui")  # XDG_RUNTIME_DIR of those who logged in
    return [*dict.fromkeys((*_runtime_dirs(), session_dir))]


def unusable_runtime_dirs() -> list[str]:
    """Why folders for sockets that would be taken before `runtime_dir` cannot be used."""
    return _usable_dir("")[1]


def _runtime_dirs() -> list[Path]:
    """Sorted by preference. XDG_RUNTIME_DIR may be gone, another user's after `su`, or too long for a
    socket.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    own = f"rltui-{os.getuid()}"
    temporary = os.environ.get("TMPDIR", "")
    folders = [Path(folder) / own for folder in (temporary, _LAST_RESORT) if str(folder).startswith("/")]
    return list(dict.fromkeys([Path(base) / "rltui", *folders] if base.startswith("/") else folders))


def _usable_dir(socket_name: str) -> tuple[Path, list[str]]:
    """The first folder that can be used for a socket of that name, and the reasons against those
    before it.
    """
    reasons: list[str] = []
    for folder in _runtime_dirs():
        if len(os.fsencode(folder / socket_name)) > _LONGEST_SOCKET:
            reasons.append(f"{folder} is too long for a socket path")
        elif (reason := _unusable_reason(folder)) is None:
            return folder, reasons
        else:
            reasons.append(reason)
    raise RltuiError(
        "no folder for sockets",
        details=reasons,
        hint="set XDG_RUNTIME_DIR to a short folder of your own with mode 700",
    )


def _unusable_reason(folder: Path) -> str | None:
    """In words; `None` where it can be used. It is made where it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info, owner = folder.lstat(), folder.parent.stat().st_uid
    except OSError as error:
        return f"cannot create the folder {folder}: {error.strerror}"
    if owner not in (os.getuid(), 0):
        return f"{folder.parent} belongs to another user"
    if stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077:
        return None
    return f"{folder} is not your private folder (it must be a folder, not a link, with mode 700)"


def socket_name(experiment: str, output_dir: str) -> str:
    """Unique by name and folder: users of several state folders may have one name twice, never both."""
    return f"{experiment}-{zlib.crc32(os.fsencode(output_dir)):08x}.sock"


def tmux_socket() -> str:
    """Name of the private tmux server, `tmux -L <name>`. Tests and second installations set their own."""
    return os.environ.get("RLTUI_TMUX_SOCKET", "rltui")


def tmux_session(experiment: str) -> str:
    """The tmux session of an experiment: a different one for each name, letters, digits, `_` and `-` only.

    tmux itself turns `.` and `:` into `_`, which would let two experiments share a session.
    """
    letters = (
        letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in experiment
    )
    readable = "".join(letters)[:_LONGEST_SESSION].lstrip("-")
    if readable == experiment:
        return experiment
    import hashlib  # names that tmux takes as they are need none

    return f"{readable}-{hashlib.sha256(experiment.encode()).hexdigest()[:6]}"


def require_folder(folder: Path, *, hint: str = "") -> None:
    """Refuse a folder that a person named and that does not exist.

    Raises:
        NotFoundError: if it does not.
    """
    if not folder.is_dir():
        raise NotFoundError(f"folder not found: {folder}", hint=hint)
