"""Reads the records of an experiment again and again while it runs: they must always parse."""

from __future__ import annotations

import json
import threading
from pathlib import Path

INTERVAL_S = 0.02


class RecordWatcher:
    """A thread that collects in `problems` every record it could not read as a whole."""

    def __init__(self, control: Path) -> None:
        self.problems: list[str] = []
        self._control = control
        self._offset = 0
        self._settled: set[Path] = set()
        """Records of ended attempts, which no longer change."""
        self.paused = False
        """Records are being damaged on purpose."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
        self.read()

    def read(self) -> None:
        """Once, completely. The last line of the journal may still be under way, all others are whole."""
        if self.paused:
            return
        self._read_journal()
        try:
            records = list(self._control.glob("components/*/attempt-*/attempt.json"))
        except FileNotFoundError:  # the folder is being deleted
            return
        for path in records:
            if path not in self._settled:
                self._read_record(path)

    def begin_anew(self) -> None:
        """The folder was deleted, and everything in it is new."""
        self._offset = 0
        self._settled.clear()

    def _run(self) -> None:
        while not self._end.wait(INTERVAL_S):
            self.read()

    def _read_journal(self) -> None:
        try:
            with (self._control / "journal.jsonl").open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._parse("journal.jsonl", line)

    def _read_record(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # its folder was deleted
            return
        if self.paused:  # since it was read
            return
        values = self._parse(str(path.relative_to(self._control)), data)
        if values is not None and values.get("state") == "exited":
            self._settled.add(path)

    def _parse(self, name: str, data: bytes) -> dict[str, object] | None:
        try:
            values = json.loads(data)
        except ValueError as error:
            self.problems.append(f"{name}: {error}: {data[:200]!r}")
            return None
        if not isinstance(values, dict):
            self.problems.append(f"{name}: no table: {data[:200]!r}")
            return None
        return values
