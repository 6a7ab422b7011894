"""A config file's text in the person's own editor: on a temporary copy, so that nothing is written unseen."""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
from pathlib import Path

from rltui.client.protocol import ConfigText
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.services.config.files import content_of
from rltui.services.outside import in_terminal

_FALLBACK = "vi"


def read_config(path: str) -> ConfigText:
    """A config file as it is now, byte order mark and line endings included.

    Raises:
        ConfigError: if it cannot be read, is no regular file, too large, or not UTF-8.
    """
    try:
        content = content_of(Path(path))
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})", hint="convert it first") from error
    return ConfigText(path=path, text=text, sha256=hashlib.sha256(content).hexdigest())


def edit_text(path: str, text: str) -> str:
    """Let a person edit `text` in `$VISUAL`, `$EDITOR` or vi, and return what was saved. Takes the terminal.

    `path` only gives the copy its name.

    Raises:
        UsageError: if there is no such editor.
        RltuiError: if it failed, or left something that is no UTF-8 text.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _FALLBACK
    with tempfile.TemporaryDirectory(prefix="rltui-edit-") as folder:
        copy = Path(folder) / Path(path).name
        try:
            copy.write_bytes(text.encode())
            if code := in_terminal([*shlex.split(command), str(copy)]):
                raise RltuiError(f"the editor ended with code {code}: {command}", hint="nothing was written")
            return copy.read_bytes().decode()
        except ValueError as error:  # no closing quotation, or no UTF-8
            raise RltuiError(f"{command}: {error}", hint="nothing was written") from error
        except FileNotFoundError as error:
            raise UsageError(
                f"there is no editor {command!r}", hint="set VISUAL or EDITOR to one that is installed"
            ) from error
        except OSError as error:
            raise RltuiError(
                f"cannot edit a copy of {path}: {error.strerror}", hint="nothing was written"
            ) from error
