"""The example configs of prime-rl's commits, converted step by step, and what came of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import tomlkit

from rltui.core.config.data import apply_edits, leaves
from rltui.core.config.report import Equivalence
from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.frameworks.migration import ConfigRelease, Migration
from rltui.services.config.config_file import parse_file, read_file
from rltui.services.config.meaning import Meanings

TREES = {"A1": "A", "B0": "B", "B1": "B", "C": "C"}
"""Checkout → its release. A0 is older than the schema of A: 23 of its 29 configs are not taken by B."""
MODELS = {"A": "A1", "B": "B1", "C": "C"}
"""ConfigRelease → checkout whose models are asked."""
MIGRATION: Migration = registry.get("prime-rl").migration  # type: ignore[assignment]
RELEASES = {release.name: release for release in MIGRATION.releases}
_PARTS = frozenset({"train.toml", "orch.toml", "infer.toml"})


@dataclass
class Step:
    """What came of all configs of a tree that went from one release to the next."""

    configs: int = 0
    valid: int = 0
    """The next release takes them."""
    values: Counter[str] = field(default_factory=Counter)
    """Equal, different, gone …: how many."""
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    unproven: Counter[str] = field(default_factory=Counter)

    def add(self, found: Equivalence) -> None:
        """Count the values of a config."""
        self.values.update(
            equal=found.equal,
            different=len(found.different),
            defaults=sum(not item.is_set for item in found.different),
            gone=len(found.gone),
            unproven=len(found.unproven),
        )
        for item in found.different:
            origin = "set: " if item.is_set else ""
            after = _pattern(item.to or "")
            name = _pattern(item.key) if after == _pattern(item.key) else f"{_pattern(item.key)} → {after}"
            self.different[f"{origin}{name}: {item.before} → {item.after}"] += 1
        self.dropped.update(_pattern(item.key) for item in found.gone)
        self.unproven.update(map(_pattern, found.unproven))


def groups(tree: Path) -> Iterator[list[Path]]:
    """The files that are run together: the three of one run, a file, or an overlay behind its base."""
    paths = sorted(path for folder in ("examples", "configs") for path in (tree / folder).rglob("*.toml"))
    for path in paths:
        if path.name in _PARTS and path.parent.name == "rl":
            if path.name == "infer.toml":
                yield [path.with_name(name) for name in sorted(_PARTS)]
        elif path.name.startswith("slurm_"):
            yield [path.with_name(path.name.removeprefix("slurm_")), path]
        else:
            yield [path]


def loaded(paths: list[Path]) -> list[ConfigFile] | None:
    """With the role of each; `None` if one is none of prime-rl's."""
    files = [read_file(path) for path in paths]
    roles = MIGRATION.roles([(file.path, file.data) for file in files])
    if roles is None:
        return None
    return [replace(file, role=role) for file, role in zip(files, roles, strict=True)]


def together(files: Sequence[ConfigFile]) -> ConfigFiles:
    """By role; of two of one role the later one lies over the other."""
    found: dict[str, ConfigFile] = {}
    for file in files:
        over = file
        if (base := found.get(file.role)) is not None:
            text = tomlkit.dumps(apply_edits(base.data, dict(leaves(file.data))))
            over = parse_file(Path(base.path), text.encode(), file.role)
        found[file.role] = over
    return found


def _pattern(key: str) -> str:
    return re.sub(r"\.\d+(?=\.)", "[]", key)


class Way:
    """Converts configs of one checkout step by step, and asks the models of the checkouts on the way."""

    def __init__(self, checkouts: Path, meanings: Meanings) -> None:
        self._checkouts, self._meanings = checkouts, meanings
        self.steps: dict[str, Step] = {}
        """`A → B` and so on."""

    def go(self, paths: list[Path], tree: str) -> None:
        """All steps of the config in these files."""
        files = loaded(paths)
        if files is None:
            return
        release = RELEASES[TREES[tree]]
        workspace = self._checkouts / tree
        for target in (later for later in MIGRATION.releases if later.day > release.day):
            step = self.steps.setdefault(f"{release.name} → {target.name}", Step())
            step.configs += 1
            where = f"{tree}/{paths[0].relative_to(self._checkouts / tree)}"
            try:
                done = MIGRATION.migrate(files, target, release)
            except ConfigError as error:
                step.failed.append(f"{where}: {error.title}")
                return
            converted = [parse_file(Path(file.path), file.text.encode(), file.role) for file in done.files]
            next_workspace = self._checkouts / MODELS.get(target.name, "")
            before, after = together(files), together(converted)
            found = self._meanings.compared(before, release, after, target, (workspace, next_workspace))
            step.add(found)
            if why := self._refused(after, target, found):
                step.refused.append(f"{where}: {why}")
            files, release, workspace = converted, target, next_workspace

    def _refused(self, files: ConfigFiles, release: ConfigRelease, found: Equivalence) -> str:
        """Why the release does not take the files: by its own models, or by the shipped schema if there is
        no checkout of it.
        """
        if release.name in MODELS:
            return "" if found.after.startswith("the models") else self._meanings.reason or "no models"
        framework = registry.get(MIGRATION.reader(files, release))
        problems = framework.with_schemas(MIGRATION.schemas(files, release)).config.check(files)
        return "; ".join(problem.message for problem in problems if problem.is_error)


def told(steps: Mapping[str, Step]) -> str:
    """The counts, then each list with its numbers."""
    lines = ["step    configs  valid  equal  different (set by the file)  without successor  unproven"]
    for name, step in steps.items():
        different = f"{step.values['different']} ({step.values['different'] - step.values['defaults']})"
        lines.append(
            f"{name}  {step.configs:>8} {step.configs - len(step.refused) - len(step.failed):>6}"
            f" {step.values['equal']:>6}  {different:<26}  {step.values['gone']:<17}"
            f"  {step.values['unproven']}"
        )
    for name, step in steps.items():
        lists = {
            "failed": step.failed, "not valid": step.refused, "without successor": step.dropped,
            "different": step.different, "unproven": step.unproven,
        }  # fmt: skip
        for title, items in lists.items():
            lines += [f"\n{name}, {title}:"] if items else []
            if isinstance(items, Counter):
                ordered = sorted(items.items(), key=lambda item: (-item[1], item[0]))
                lines += [f"  {number:>3} {text}" for text, number in ordered]
            else:
                lines += [f"  {text}" for text in items]
    return "\n".join(lines) + "\n"
