"""Documents to edit, and what an edit should make of their content."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
FILES = sorted(
    path
    for folder in ("tests/data/toml", "tests/data/prime_rl", "examples")
    for path in (ROOT / folder).glob("**/*.toml")
)
TEXTS = {f"{path.parent.name}/{path.name}": path.read_bytes().decode() for path in FILES}
AWKWARD = {name: text for name, text in TEXTS.items() if name.startswith("toml/")}
VARIANTS = {
    **TEXTS,
    **{f"crlf-{name}": text.replace("\n", "\r\n") for name, text in AWKWARD.items()},
    **{f"bom-{name}": "\ufeff" + text for name, text in AWKWARD.items()},
    **{f"unterminated-{name}": text.rstrip("\n") for name, text in AWKWARD.items()},
}
"""By name: every config there is, and those that are hard to edit with other line ends and beginnings."""


def long_document(lines: int) -> str:
    """As many lines, rounded down to tens, of tables with comments, lists and text in several lines."""
    block = (
        "[table{0}]  # number {0}\nkey = {0} # why\n[table{0}.sub]\nlist = [\n    1, # one\n    {0},\n]\n"
        'text = """\n[no.table]\n"""\n'
    )
    return "".join(block.format(number) for number in range(lines // 10))


def load(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def scalars(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else None
    if children is None:
        yield path, data
        return
    for key, value in children:
        yield from scalars(value, (*path, str(key)))


def tables(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every table, those in arrays too."""
    if isinstance(data, dict):
        yield path
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict | list):
            yield from tables(value, (*path, str(key)))


def changed(data: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    new = copy.deepcopy(data)
    at: Any = new
    for key in path[:-1]:
        at = at[int(key)] if isinstance(at, list) else at.setdefault(key, {})
    last: Any = int(path[-1]) if isinstance(at, list) else path[-1]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return new


def kept(old: str, new: str) -> tuple[int, int]:
    """Length of the common start and, behind it, of the common end."""
    limit = min(len(old), len(new))
    start = next((i for i in range(limit) if old[i] != new[i]), limit)
    end = next((i for i in range(limit - start) if old[-1 - i] != new[-1 - i]), limit - start)
    return start, end
