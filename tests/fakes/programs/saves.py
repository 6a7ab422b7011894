"""Saves the TOML file `FILE` at random moments, as editors do, until there is a file `FILE.stop`: FILE SEED

Prints how often it saved, and how many of these saves were not in the file any more right afterwards.
"""

import random
import sys
import time
import tomllib
from pathlib import Path

PATIENCE_S = 5.0
"""A save may be out of sight while rltui notices it and puts it back, also a supervisor started meanwhile."""

path, aside_path, end = (Path(sys.argv[1] + suffix) for suffix in ("", "~", ".stop"))
choose = random.Random(int(sys.argv[2]))


def text(number: int) -> str:
    return f"mine = 0\ntheirs = {number}\n" + "# " + "x" * choose.randrange(20000) + "\n"


def by_rename(content: str) -> None:
    aside_path.write_text(content)
    aside_path.replace(path)


def in_place(content: str) -> None:
    with path.open("w") as file:
        file.write(content[:9])
        file.flush()
        if choose.random() < 0.5:
            time.sleep(choose.random() / 200)
        file.write(content[9:])


def aside(content: str) -> None:
    path.replace(aside_path)
    with path.open("x") as file:
        file.write(content)


def held() -> object:
    try:
        return tomllib.loads(path.read_text())["theirs"]
    except (OSError, ValueError, KeyError):
        return None


print("ready", flush=True)
number = lost = 0
while not end.exists():
    number += 1
    try:
        choose.choice((by_rename, in_place, aside))(text(number))
    except FileExistsError:  # put back in the moment that it was moved aside
        in_place(text(number))
    time.sleep(choose.choice((0, 0.001, 0.02, 0.1)))
    if held() == number:
        continue
    patience = time.monotonic() + PATIENCE_S
    while held() != number and time.monotonic() < patience:
        time.sleep(0.001)
    lost += held() != number
print(number, lost)
