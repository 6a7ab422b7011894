"""`check`, `layouts`, `trust`; and whose config it is, where its keys do not tell."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rltui.cli.colour import meaning_of, paint, signed
from rltui.cli.config_line import staged
from rltui.cli.progress import working
from rltui.cli.table import Column, print_table
from rltui.client import checking
from rltui.core.config_report import Problem
from rltui.errors import ConfigError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.registry import AmbiguousConfigError
from rltui.services import layout_files, trust
from rltui.services.config.origins import made_from
from rltui.services.config.own_copy import Staged
from rltui.services.runs.experiments import known_experiments
from rltui.wording import figure_text


def chosen_framework(
    config_files: tuple[Path, ...],
    layout: str | None,
    framework: str | None,
    *,
    workspace: Path | None = None,
) -> str | None:
    """The framework that was named; `None` where the config tells by itself. Where several suit it: that of
    an experiment with the same files, else the newest, which is said in a line.

    Raises:
        ConfigError: as `checking.identify`.
    """
    try:
        checking.identify(config_files, layout, framework, workspace=workspace)
    except AmbiguousConfigError as error:
        if (known := _before(config_files, error.candidates)) is not None:
            return known
        newest, *others = error.candidates
        names = " and ".join(path.name for path in config_files)
        print(
            f"{names}: taken for {registry.get(newest).title}, the newest that it suits; for another: "
            f"--framework {' or '.join(others)}",
            file=sys.stderr,
        )
        return newest
    return framework


class WhoseConfig:
    """Tells whose configs files are; who has to ask a person asks once."""

    def __init__(self, arguments: argparse.Namespace, workspace: Path | None = None) -> None:
        self._layout, self._framework = arguments.layout, arguments.framework
        self._workspace = workspace

    def named(self, files: tuple[Path, ...]) -> str | None:
        found = chosen_framework(files, self._layout, self._framework, workspace=self._workspace)
        self._framework = found
        return found

    def __call__(self, files: tuple[Path, ...]) -> Framework:
        return checking.identify(files, self._layout, self.named(files), workspace=self._workspace)[0]


def wanted_devices(arguments: argparse.Namespace) -> str | None:
    """What `--devices` or `--single-gpu` say; `None` where neither is given.

    Raises:
        UsageError: if there are no such devices.
    """
    if arguments.devices is None and not arguments.single_gpu:
        return None
    from rltui.client.memory import named_devices, roomiest_device  # reads the GPUs

    if arguments.devices is not None:
        return named_devices(arguments.devices)
    device, words = roomiest_device()
    print(words, file=sys.stderr)
    return device


def _before(config_files: tuple[Path, ...], candidates: Sequence[str]) -> str | None:
    wanted = set(made_from(config_files))
    for record in known_experiments():
        if wanted == set(made_from(map(Path, record.config_files))) and record.framework in candidates:
            return record.framework
    return None


def check(arguments: argparse.Namespace) -> int:
    choose = WhoseConfig(arguments)
    with staged(arguments, choose, workspace=Path.cwd()) as copies:
        for line in copies.told:
            print(line, file=sys.stderr)
        framework, devices = choose.named(copies.files), wanted_devices(arguments)
        with working("checks, and asks the framework's own validators"):
            found = checking.check(
                copies.files,
                arguments.layout,
                framework,
                devices=devices,
                with_memory=True,
                ask_models=not arguments.no_own,
            )
        given = (*arguments.given.edits, *arguments.given.overrides)
        problems = [_after_edits(problem, given) for problem in found.problems]
        found = found.model_copy(update={"problems": tuple(_of_originals(copies, problems))})
    if arguments.json:
        print(found.model_dump_json())
    else:
        for problem in found.problems:
            print(signed(f"{problem.severity}: {problem.text}"))
        for item in found.derived:
            print(figure_text(item))
        for share in found.memory:
            print(signed(f"{'warning' if share.is_bad else 'memory'}: {share.text}"))
            for note in share.notes:
                print(f"    {note}")
        verdict = "valid" if found.valid else "not valid"
        if found.valid and not found.startable:
            verdict = "valid, but not to be started so"
        verdict = paint(verdict, meaning_of(verdict) if found.startable else "busy")
        words = (verdict, found.framework, found.own, f"layout {found.layout}")
        print(" · ".join(filter(None, words)))
    return 0 if found.valid else int(ConfigError.exit_code)


def _after_edits(problem: Problem, given: Sequence[str]) -> Problem:
    """With values for the knobs first that the command line sets."""
    return problem.after_edit([key for key in problem.instead if key.endswith(tuple(given))] if given else ())


def _of_originals(copies: Staged, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Told of the user's files: the lines are those of copies, which are gone."""
    for problem in problems:
        changes: dict[str, str | int | None] = {"message": copies.in_words(problem.message)}
        if problem.file is not None and copies.in_words(problem.file) != problem.file:
            words = copies.in_words(f"{problem.file}:{problem.line or ''}".rstrip(":"))
            file, _, line = words.rpartition(":")
            is_line = line.isdigit()
            changes |= {
                "file": file if is_line else words,
                "line": int(line) if is_line else None,
                "column": None,
            }
        yield problem.model_copy(update=changes)


def list_layouts(arguments: argparse.Namespace) -> int:
    found = layout_files.available(Path.cwd())
    rows = [(path.stem, layout_files.load(path), path) for path in found]
    if arguments.json:
        documents = [
            {
                "name": name,
                "title": layout.title,
                "path": str(path),
                "components": [spec.id for spec in layout.component],
            }
            for name, layout, path in rows
        ]
        print(json.dumps(documents))
        return 0
    columns = (Column("LAYOUT"), Column("TITLE", least=20), Column("FILE", least=16, cut="start", goes=1))
    print_table(columns, [(name, layout.title, _short_path(path)) for name, layout, path in rows])
    return 0


def _short_path(path: Path) -> str:
    """As a person would type it."""
    home, here = Path.home(), Path.cwd()
    if path.is_relative_to(here):
        return str(path.relative_to(here))
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def trust_folder(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder).absolute()
    if not folder.is_dir():
        raise UsageError(f"{arguments.folder} is no folder")
    if arguments.revoke:
        trust.distrust(folder)
    else:
        trust.trust(folder)
    print(f"{'not ' if arguments.revoke else ''}trusted: {folder.resolve()}", file=sys.stderr)
    return 0
