"""What the documents for people who change the code name is there."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator

from tests.house.walks import REPOSITORY

TUI = REPOSITORY / "tui"
PATH = re.compile(r"`([\w./-]+(?:/|\.py|\.toml|\.md|\.tcss))`")
FILES = (".py", ".toml", ".md", ".json", ".log", ".tcss")
CITED = re.compile(r"`facts/(?P<file>[\w-]+\.md)`, (?P<heading>[A-Z][\w' ]+)")


def test_the_map_is_of_this_code() -> None:
    """Files and folders in `tui/README.md`, which leaves the name of the package out."""
    names = dict.fromkeys(PATH.findall((TUI / "README.md").read_text()))
    bases = (TUI, TUI / "rltui", REPOSITORY, *(TUI / "rltui").glob("*/"))
    assert [name for name in names if not any((base / name).exists() for base in bases)] == []


def test_names_of_the_map_are_in_the_code() -> None:
    """Classes, functions and constants of `tui/README.md`: with a capital, an underscore or a dot."""
    named = dict.fromkeys(re.findall(r"`(\w[\w.]*)(?:\(.*?\))?`", (TUI / "README.md").read_text()))
    names = [name for name in named if re.search(r"[A-Z_.]", name) and not name.endswith(FILES)]
    paths = [path for folder in (TUI / "rltui", REPOSITORY / "tests") for path in folder.rglob("*.py")]
    words = {word for path in paths for word in re.findall(r"[A-Za-z_]\w+", path.read_text())}
    assert len(names) > 40
    assert [name for name in names if not words.issuperset(name.split("."))] == []


def citations() -> Iterator[tuple[str, str, str]]:
    for source in sorted((TUI / "rltui").rglob("*.py")):
        joined = re.sub(r"\s+", " ", source.read_text())
        for match in CITED.finditer(joined):
            yield source.name, match["file"], match["heading"]


def test_facts_that_the_code_cites_are_told() -> None:
    cited = list(citations())
    missing = [where for where in cited if f"\n## {where[2]}\n" not in (TUI / "facts" / where[1]).read_text()]
    assert cited
    assert not missing


def test_nothing_cites_documents_that_are_not_here() -> None:
    dangling = [path.name for path in (TUI / "rltui").rglob("*.py") if "reference/" in path.read_text()]
    assert not dangling


def test_workflows_try_the_pythons_that_the_package_names() -> None:
    tried = re.search(r"python: (\[.+\])", (REPOSITORY / ".github/workflows/test.yml").read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    named = [name.rpartition(" ")[2] for name in project["classifiers"] if "Python :: 3." in name]
    assert tried is not None
    assert json.loads(tried[1]) == named
    assert project["requires-python"] == f">={named[0]}"
