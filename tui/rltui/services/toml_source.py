"""One TOML file on the disk, read and parsed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui.core import tomldoc
from rltui.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Source:
    """One file as it was read. `path` is absolute and not resolved: links are kept as the user gave them."""

    path: Path
    content: bytes
    data: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The content with its line ends as they are."""
        return self.content.decode()

    @property
    def sha(self) -> str:
        """SHA-256 of the content."""
        return sha_of(self.content)


def sha_of(content: bytes) -> str:
    """What contents are told apart by."""
    return hashlib.sha256(content).hexdigest()


def read(path: Path) -> Source:
    """One file, parsed.

    Raises:
        ConfigError: if it is missing, cannot be read, is no UTF-8 text or no TOML.
    """
    absolute = path.expanduser().absolute()
    try:
        content = absolute.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: there is no such file", hint="check the path; nothing is guessed"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder", hint=f"name a file in it: {path / 'rl.toml'}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    return parse(absolute, content)


def parse(path: Path, content: bytes) -> Source:
    """The content of `path`, parsed.

    Raises:
        ConfigError: if it is no UTF-8 text or no TOML.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: is not UTF-8 text", hint="save it as UTF-8; TOML allows nothing else"
        ) from error
    return Source(path, content, tomldoc.parse(text, str(path)))
