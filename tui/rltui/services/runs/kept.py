"""What a person keeps of an experiment, beside its run: pinned charts, exported text."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from rltui.services.own_files import make_folder, read_own, write_atomically

logger = logging.getLogger(__name__)

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")
_LONGEST_NAME = 80
_MOST_PINS = 100


class KeptFiles:
    """Files in an experiment's control folder that only people read."""

    def __init__(self, control_folder: Path) -> None:
        self._pins_file = control_folder / "pins.json"
        self._exports = control_folder / "exports"

    def pins(self) -> tuple[str, ...]:
        """Charts that were pinned, in order; none where the file cannot be used."""
        try:
            found = json.loads(read_own(self._pins_file))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            logger.warning("%s is left out: %s", self._pins_file, error)
            return ()
        return (
            tuple(pin for pin in found if isinstance(pin, str))[:_MOST_PINS]
            if isinstance(found, list)
            else ()
        )

    def keep_pins(self, pins: Sequence[str]) -> None:
        """Take the place of those that were kept.

        Raises:
            RltuiError: if that cannot be written.
        """
        self._write(self._pins_file, json.dumps(list(pins)))

    def save(self, name: str, text: str) -> Path:
        """Write `text` to a new file whose name is like `name`, and return where it is.

        Raises:
            RltuiError: if it cannot be written.
        """
        stem, dot, suffix = _NOT_IN_NAMES.sub("-", name).strip("-.")[-_LONGEST_NAME:].rpartition(".")
        if not dot:
            stem, suffix = suffix or "export", "txt"
        number, path = 1, self._exports / f"{stem}.{suffix}"
        while path.exists():
            number += 1
            path = self._exports / f"{stem}-{number}.{suffix}"
        self._write(path, text)
        return path

    @staticmethod
    def _write(path: Path, text: str) -> None:
        make_folder(path.parent)
        write_atomically(path, text.encode("utf-8", "surrogateescape"))
