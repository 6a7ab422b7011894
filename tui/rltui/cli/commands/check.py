"""`check`: a config is validated, without side effects."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.base.text import count_text
from rltui.cli.arguments import CONFIG, DEVICES, FRAMEWORK, JSON, SET, layout_option
from rltui.cli.choosing import FrameworkChooser, choose_devices
from rltui.cli.colour import style, style_line
from rltui.cli.command import Arguments, command, flag
from rltui.cli.config_line import config_line_of, read_config_line
from rltui.cli.output import print_json
from rltui.cli.progress import working
from rltui.errors import ConfigError
from rltui.views.knob import figure_text

if TYPE_CHECKING:
    from rltui.core.config.report import Check, Problem
    from rltui.core.experiment.states import Role
    from rltui.services.config.run_config import RunConfig


@command(
    "check",
    CONFIG,
    layout_option("layout name or file (default: from the config)"),
    FRAMEWORK,
    SET,
    DEVICES,
    flag("--no-own", "skip the framework's own validators"),
    JSON,
    examples=(
        "check rl.toml",
        "check rl.toml --set batch_size=64 --json",
        "check rl.toml --devices 0,1",
    ),
    grammar=read_config_line,
)
def check(arguments: Arguments) -> int:
    from rltui.client import checking
    from rltui.services.config.run_config import RunConfigBuilder

    choose = FrameworkChooser(arguments)
    with RunConfigBuilder(config_line_of(arguments), choose, workspace=Path.cwd()).build() as copies:
        for line in copies.warnings:
            print(line, file=sys.stderr)
        framework, devices = choose.id_of(copies.files), choose_devices(arguments)
        with working("checking the config with the framework's own validators"):
            report = checking.check(
                copies.files,
                arguments.layout,
                framework,
                devices=devices,
                with_memory=True,
                ask_models=not arguments.no_own,
            )
        set_keys = (*arguments.config_line.edits, *arguments.config_line.overrides)
        problems = [  # other values come first for the knobs that the command line sets
            problem.after_edit([key for key in problem.instead if key.endswith(set_keys)])
            for problem in report.problems
        ]
        report = report.replace(problems=tuple(_of_originals(copies, problems)))
    if arguments.json:
        print_json(report)
    else:
        _print(report)
    return 0 if report.valid else int(ConfigError.exit_code)


def _print(report: Check) -> None:
    print(_verdict(report))
    for blocker in report.blockers:
        if blocker.hint:
            print(f"→ {blocker.hint}")
    print(f"{report.framework} · layout {report.layout}")
    for problem in report.problems:
        command = f": {problem.mended_by}" if problem.mended_by else ""
        print(style_line(f"{problem.severity}: {problem.text}{command}"))
    for share in report.memory:
        print(style_line(f"{'warning' if share.is_bad else 'memory'}: {share.text}"))
        for note in share.notes:
            print(f"    {note}")
    for item in report.derived:
        print(figure_text(item))


def _verdict(report: Check) -> str:
    """`valid by the shipped schema of 1 November 2026; not run: …; cannot start here: …`."""
    errors = count_text(sum(problem.is_error for problem in report.problems), "error")
    word = "valid" if report.valid else f"not valid: {errors}"
    parts = [f"{word} by {report.validator}" if report.validator else word]
    if report.not_asked:
        is_blocker = any(blocker.reason == report.not_asked for blocker in report.blockers)
        reason = "" if is_blocker else f" ({report.not_asked})"
        parts.append(f"not run: its own validators{reason}")
    if report.startable:
        parts.append("can start here")
    elif report.valid:
        parts.append(f"cannot start here: {', '.join(blocker.reason for blocker in report.blockers)}")
    role: Role = "good" if report.startable else "busy" if report.valid else "bad"
    return style("; ".join(parts), role)


def _of_originals(copies: RunConfig, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Problems with the user's files in place of their copies, which are gone; the lines are those of the
    copies.
    """
    for problem in problems:
        changes: dict[str, str | int | None] = {"message": copies.with_user_paths(problem.message)}
        if problem.file is not None and copies.with_user_paths(problem.file) != problem.file:
            location = copies.with_user_paths(f"{problem.file}:{problem.line or ''}".rstrip(":"))
            file, _, line = location.rpartition(":")
            is_line = line.isdigit()
            changes |= {
                "file": file if is_line else location,
                "line": int(line) if is_line else None,
                "column": None,
            }
        yield problem.replace(**changes)
