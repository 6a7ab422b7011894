"""What commands print for programs: `--json` and `--csv`. Imports little: `status` is run in loops.

A further form, such as `--yaml`, is an option beside `--json` (`json_flag` in `arguments.py`) and a branch of
`_encode`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rltui.base.shorten import without_empty
from rltui.base.text import unknown_name
from rltui.core import hints

if TYPE_CHECKING:
    from rltui.cli.command import Arguments

MOST_BYTES = 20_000
"""Longest document of a list, unless `--limit` or `--full` asks for more."""
_LEFT_OUT_BYTES = 300
"""Room for the words about what was left out."""
_collected: list[Any] | None = None
"""Documents that are collected instead of being printed; `None`: they are printed."""
_parts = 1
"""Number of documents that the larger one has, which share its bytes."""


@contextmanager
def collected_json(parts: int = 1) -> Iterator[list[Any]]:
    """Collect the documents that are printed inside, as some of the `parts` of a larger one."""
    global _collected, _parts
    documents: list[Any] = []
    _collected, _parts = documents, parts
    try:
        yield documents
    finally:
        _collected, _parts = None, 1


def print_rows(
    arguments: Arguments,
    name: str,
    rows: Sequence[object],
    *,
    head: Mapping[str, object] = MappingProxyType({}),
    more: Mapping[str, Sequence[object]] = MappingProxyType({}),
    keeps_last: bool = False,
    is_limited: bool = False,
    left_out: Mapping[str, int] = MappingProxyType({}),
    hides_secrets: bool = False,
    is_sparse: bool = False,
) -> None:
    """Print one document: fields of `head`, and the list `rows` under `name`, with the keys that `--fields`
    names. It is cut to `--limit`, else to `MOST_BYTES`; `left_out` says how many are missing.

    `more`: further lists, by name, which are cut as well. `keeps_last`: the last rows are kept. `is_limited`:
    `--limit` has been applied, to something else. `left_out`: how many other things, or further rows, are not
    in the lists. `is_sparse`: without fields of rows that are empty.

    Raises:
        UsageError: if no row has a key of `--fields`.
    """
    fields, limit, is_full = (getattr(arguments, option, None) for option in ("fields", "limit", "full"))
    chosen = with_fields([*map(_as_plain, rows)], fields)
    lists = {name: [*map(without_empty, chosen)] if is_sparse else chosen}
    lists |= {other: [*map(_as_plain, items)] for other, items in more.items()}
    missing = Counter(left_out)
    remaining = room_bytes() - json_bytes(head)
    others = sum(json_bytes(lists[other]) for other in more)
    for part, items in lists.items():
        ordered = items[::-1] if keeps_last else items
        if is_full:
            count = len(items)
        elif limit is not None:
            count = len(items) if is_limited or part != name else min(limit, len(items))
        else:
            count = _fitting(ordered, max(remaining // 2, remaining - others) if part == name else remaining)
        missing[part] += len(items) - count
        lists[part] = ordered[:count][::-1] if keeps_last else ordered[:count]
        remaining -= json_bytes(lists[part])
    document: dict[str, object] = {**head, **lists}
    if missing := +missing:
        document["left_out"] = {**missing, "all": hints.ANSWER_FULL(answer=_full_command(arguments))}
    print_json(document, hides_secrets=hides_secrets)


def _full_command(arguments: Arguments) -> Sequence[str]:
    """The words of the command to which `--full` is added: this one, or that which lists what it changes."""
    if hasattr(arguments, "full"):
        return (*arguments.command_name.split(), *arguments.typed_words)
    run = getattr(arguments, "run", None)
    return (arguments.command_name.split()[0], "list", *([] if run is None else [run]), "--json")


def room_bytes() -> int:
    """Bytes of the list in a document, unless more is asked for."""
    return MOST_BYTES // _parts - _LEFT_OUT_BYTES


def json_bytes(document: object) -> int:
    return len(_encode(document).encode())


def _fitting(rows: Sequence[object], most_bytes: int) -> int:
    """Number of rows that have room in so many bytes; at least one if there is any."""
    for number, row in enumerate(rows):
        most_bytes -= json_bytes(row) + 2
        if most_bytes < 0:
            return max(1, number)
    return len(rows)


def with_fields(rows: list[Any], fields: Sequence[str] | None) -> list[Any]:
    """The rows with these keys alone; all keys if there are none.

    Raises:
        UsageError: if no row has one of them.
    """
    if not fields or not rows:
        return rows
    known_names = dict.fromkeys(name for row in rows for name in row)
    if strange := [name for name in fields if name not in known_names]:
        raise unknown_name("field", strange[0], known_names)
    return [{name: row[name] for name in fields if name in row} for row in rows]


def _as_plain(row: object) -> object:
    return _plain(row) if hasattr(row, "to_plain") or hasattr(row, "__dataclass_fields__") else row


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


def print_json_stream(
    head: Mapping[str, object], lines: Iterable[object], end: Callable[[], Mapping[str, object]] = dict
) -> None:
    """Print one document while its lines are read: fields of `head`, the list `lines`, row by row, and what
    `end` returns after that.
    """
    if _collected is not None:
        rows = [*lines]
        print_json({**head, "lines": rows, **end()})
        return
    opening = "".join(f"{_encode(key)}: {_encode(value)}, " for key, value in head.items())
    print(f'{{{opening}"lines": [', end="")
    for number, line in enumerate(lines):
        print(",\n" if number else "\n", _encode(line), sep="", end="")
    closing = "".join(f", {_encode(key)}: {_encode(value)}" for key, value in end().items())
    print(f"\n]{closing}}}")


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
