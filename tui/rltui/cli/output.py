"""What commands print for programs: `--json` and `--csv`. Imports little: `status` is run in loops.

A further form, such as `--yaml`, is an option beside `--json` (`json_flag` in `arguments.py`) and a branch of
`_encode`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

_collected: list[Any] | None = None
"""Documents that are collected instead of being printed; `None`: they are printed."""


@contextmanager
def collected_json() -> Iterator[list[Any]]:
    """Collect the documents that are printed inside, as parts of a larger one."""
    global _collected
    documents: list[Any] = []
    _collected = documents
    try:
        yield documents
    finally:
        _collected = None


def print_json(document: object, *, is_compact: bool = False, hides_secrets: bool = False) -> None:
    """Print a document on one line at once, for those who follow.

    `document`: a `Value`; or values of JSON, with such and dataclasses among them. `is_compact`:
    without spaces, as a `Value` always is, and fast for thousands of runs. `hides_secrets`: in texts, too.
    """
    text = _encode(document, is_compact=is_compact)
    if hides_secrets:
        from rltui.services.redaction import without_secrets

        text = without_secrets(text)
    _write(text)


def print_outcome(document: object, text: str, *, as_json: bool, is_compact: bool = False) -> None:
    """Print what came of a command: `document` for programs, else `text`, whose lines end with newlines."""
    if as_json:
        print_json(document, is_compact=is_compact)
    else:
        sys.stdout.write(text)


def print_json_stream(head: Mapping[str, object], lines: Iterable[object]) -> None:
    """Print one document while its lines are read: fields of `head`, then the list `lines`, row by row."""
    if _collected is not None:
        print_json({**head, "lines": [*lines]})
        return
    opening = "".join(f"{_encode(key)}: {_encode(value)}, " for key, value in head.items())
    print(f'{{{opening}"lines": [', end="")
    for number, line in enumerate(lines):
        print(",\n" if number else "\n", _encode(line), sep="", end="")
    print("\n]}")


def _write(text: str) -> None:
    if _collected is None:
        print(text, flush=True)
    else:
        _collected.append(json.loads(text))


def print_csv(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)


def _encode(document: object, *, is_compact: bool = False) -> str:
    if hasattr(document, "to_json"):  # a `Value`, whose base takes 20 ms to import
        return str(document.to_json(), "utf-8")
    if is_compact:
        import orjson

        return orjson.dumps(document, default=_plain).decode()
    return json.dumps(document, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    """Convert a value to types of JSON; dates of a TOML file become text."""
    from dataclasses import asdict, is_dataclass

    if hasattr(value, "to_plain"):
        return value.to_plain()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
