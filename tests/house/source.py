"""Measures of the source under `tui/`, by its text alone: nothing is imported or run."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import UnionType

ROOT = Path(__file__).parents[2] / "tui"
LONGEST_CLASS, LONGEST_FUNCTION, SPLINTER = 300, 60, 90
IMPORT = re.compile(r"^[ \t]*(?:from (\S+) import (\([^)]*\)|[^\n]*)|import ([^\n]*))", re.MULTILINE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    name: str
    text: str
    imports: frozenset[str]
    """Other modules of the package, wherever the import stands."""

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def body(self) -> list[ast.stmt]:
        return ast.parse(self.text).body

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """Those of the body, and all within them."""
        return [*self.body, *(inner for node in self.body for inner in statements(node))]

    def says(self, pattern: re.Pattern[str]) -> bool:
        """True if `pattern` is in a name or a string of it; docstrings and comments do not count."""
        return pattern.search(self.text) is not None and any(map(pattern.search, self._words()))

    def _words(self) -> Iterator[str]:
        for statement in self.statements:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # a docstring, also of a field
            for node in own_nodes(statement):
                yield from (value for _, value in ast.iter_fields(node) if isinstance(value, str))

    @property
    def public_names(self) -> list[str]:
        """Classes and functions at the top level."""
        named = (node for node in self.body if isinstance(node, ast.ClassDef | Function))
        return [node.name for node in named if not node.name.startswith("_")]

    @property
    def import_lines(self) -> int:
        found = (node for node in self.statements if isinstance(node, ast.Import | ast.ImportFrom))
        return sum(length(node) for node in found)


@dataclass(frozen=True, slots=True)
class House:
    """All modules of the package, by name."""

    modules: dict[str, Module]

    @property
    def lines(self) -> int:
        return sum(module.lines for module in self.modules.values())

    @property
    def names_per_1000_lines(self) -> float:
        return 1000 * sum(len(module.public_names) for module in self.modules.values()) / self.lines

    @property
    def import_share(self) -> float:
        """Percent of the lines."""
        return 100 * sum(module.import_lines for module in self.modules.values()) / self.lines

    def circles(self) -> list[list[str]]:
        """Modules that need each other, also where the import stands in a function or is for types alone."""
        return sorted(sorted(group) for group in strongly_connected(self._graph()) if len(group) > 1)

    def long_classes(self) -> list[str]:
        return self._longer(ast.ClassDef, LONGEST_CLASS)

    def long_functions(self) -> list[str]:
        return self._longer(Function, LONGEST_FUNCTION)

    def splinters(self) -> list[str]:
        """Short modules that one other imports."""
        importers = Counter(name for module in self.modules.values() for name in module.imports)
        return sorted(
            name for name, module in self.modules.items() if importers[name] == 1 and module.lines < SPLINTER
        )

    def same_names(self) -> dict[str, list[str]]:
        """Names of several classes, with their modules."""
        homes: dict[str, list[str]] = defaultdict(list)
        for module in self.modules.values():
            for node in module.statements:
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(module.name)
        return {name: found for name, found in sorted(homes.items()) if len(found) > 1}

    def _graph(self) -> dict[str, frozenset[str]]:
        return {name: module.imports for name, module in self.modules.items()}

    def _longer(self, kind: type[ast.ClassDef] | UnionType, most: int) -> list[str]:
        return sorted(
            f"{module.name}.{node.name} ({length(node)})"
            for module in self.modules.values()
            for node in module.statements
            if isinstance(node, kind) and length(node) > most
        )


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The statement and what it holds, without the statements in it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        yield (node := waiting.pop())
        waiting += (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))


def length(node: ast.AST) -> int:
    """Lines of source, decorators left out."""
    return int(node.end_lineno - node.lineno + 1)  # type: ignore[attr-defined]


def house(root: Path = ROOT) -> House:
    """Read the package below `root`."""
    files = {module_name(file, root): file for file in sorted(root.rglob("*.py"))}
    texts = {name: file.read_text() for name, file in files.items()}
    return House(
        {
            name: Module(name, text, frozenset(imported(text, files.keys())) - {name})
            for name, text in texts.items()
        }
    )


def module_name(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All of them. Expressions, which are most of a tree, hold none."""
    for field in ("body", "orelse", "handlers", "cases", "finalbody"):
        for node in getattr(tree, field, ()):
            if isinstance(node, ast.stmt):
                yield node
            yield from statements(node)


def imported(text: str, known: Container[str]) -> Iterator[str]:
    """Modules among `known` that an import in the text names. Parsing all of the source takes seconds."""
    for origin, names, modules in IMPORT.findall(text):
        for name in re.findall(r"[\w.]+", re.sub(r"#.*|\bas \w+", "", names or modules)):
            candidates = (f"{origin}.{name}", origin) if origin else (name,)
            yield from [candidate for candidate in candidates if candidate in known][:1]


def strongly_connected(graph: dict[str, frozenset[str]]) -> list[list[str]]:
    """Tarjan's components."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            groups.append(stack[at:])
            del stack[at:]

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return groups
