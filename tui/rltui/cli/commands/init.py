"""`init`: a layout of one's own, from a few questions or from commands; or a workspace with configs."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui import paths
from rltui.base.text import join_words
from rltui.base.toml.values import format_value
from rltui.cli.arguments import json_flag
from rltui.cli.command import Arguments, argument, choice, command, flag, repeatable
from rltui.cli.output import print_json
from rltui.cli.table import TableColumn, print_table
from rltui.cli.terminal import confirm, prompt
from rltui.core import hints
from rltui.core.config.knobs import split_assignment
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.services.experiment.files import NAME_PATTERN
from rltui.services.own_files import make_folder

_SHELL = re.compile(r"[|&;<>`]|\$[\w({]")
"""Characters and words that only a shell understands."""
_CONFIG = re.compile(r"\{config\.(\w+)\}")


@dataclass(frozen=True, slots=True)
class _Component:
    id: str
    command: tuple[str, ...]
    is_service: bool = False
    port: str = ""
    after: tuple[str, ...] = ()


@command(
    "init",
    argument("layout_name", "NAME", "name of the layout; with --from, the folder", nargs="?"),
    choice(
        "--from",
        ("verifiers", "prime-rl"),
        "create a workspace: commented configs, endpoints, environments",
        dest="of",
    ),
    repeatable(
        "--component",
        "NAME='COMMAND'",
        "a program of the run; repeatable; with {port.NAME}, a service on a free port",
    ),
    flag("--user", "create the layout for all folders (default: in .rltui/layouts here)"),
    flag("--list", "list all layouts and their files"),
    json_flag("with --list: print one JSON document"),
    examples=(
        "init --list",
        "init mine --component serve='python serve.py --port {port.serve}'",
        "init --from prime-rl my-workspace",
    ),
)
def init(arguments: Arguments) -> int:
    """Write a commented layout, once it can be loaded and run, or a workspace. Nothing is overwritten."""
    if arguments.list:
        return _list_layouts(as_json=arguments.json)
    if arguments.json:
        raise UsageError("--json needs --list", hint=str(hints.LAYOUTS))
    if arguments.of is not None:
        return _make_workspace(arguments.of, Path(arguments.layout_name or "."))
    components = [_component(*split_assignment(text)) for text in arguments.component]
    if not components and not sys.stdin.isatty():
        raise UsageError("a layout needs components", hint=str(hints.INIT_WITH))
    name = arguments.layout_name or ""
    if not name and not components:
        name = prompt(f"name of the layout? [{Path.cwd().name}]")
    name = name or Path.cwd().name
    path = _free_path(name, for_user=arguments.user)
    if not components:
        components = list(_prompt_components())
    make_folder(path.parent)
    with path.open("x", encoding="utf-8") as file:
        file.write(_text(name, components))
    try:
        _check(path)
    except ConfigError as error:
        path.unlink()
        raise ConfigError(error.title, details=error.details, hint=f"{path} was not written") from error
    print(path)
    print(f"start it: {_start_command(name, components)}; or read it first: {path}", file=sys.stderr)
    return 0


def _list_layouts(*, as_json: bool) -> int:
    from rltui.services.experiment import layout_files

    files = layout_files.available(Path.cwd())
    rows = [(path.stem, layout_files.load(path), path) for path in files]
    if as_json:
        documents = [
            {
                "name": name,
                "title": layout.title,
                "path": str(path),
                "components": [spec.id for spec in layout.component],
            }
            for name, layout, path in rows
        ]
        print_json(documents)
        return 0
    columns = (
        TableColumn("LAYOUT"),
        TableColumn("TITLE", least=20),
        TableColumn("FILE", least=16, cut="start", goes=1),
    )
    print_table(columns, [(name, layout.title, _short_path(path)) for name, layout, path in rows])
    return 0


def _short_path(path: Path) -> str:
    """The path as a person would type it."""
    home, working_dir = Path.home(), Path.cwd()
    if path.is_relative_to(working_dir):
        return str(path.relative_to(working_dir))
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _make_workspace(kind: str, folder: Path) -> int:
    """Write what `prime lab setup` wrote, as far as it goes without a service: configs with comments,
    endpoints, a place for environments.
    """
    template = paths.shipped_dir("examples") / "workspaces" / kind
    files = sorted(path.relative_to(template) for path in template.rglob("*") if path.is_file())
    if existing_files := [str(folder / file) for file in files if (folder / file).exists()]:
        hint = f"name another folder: {hints.INIT_FROM(kind=kind)}"
        raise ConflictError(f"existing files: {join_words(existing_files)}; nothing was written", hint=hint)
    for file in files:
        make_folder((folder / file).parent)
        shutil.copyfile(template / file, folder / file)
        print(folder / file)
    config = next(folder / file for file in files if file.suffix == ".toml" and file.parts[0] == "configs")
    check, up = hints.CHECK_WITH(config=config), hints.UP_WITH(config=config)
    print(f"next: {hints.DOCTOR}, {check}, {up}", file=sys.stderr)
    return 0


def _free_path(name: str, *, for_user: bool) -> Path:
    from rltui.services.experiment import layout_files

    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(f"not a layout name: {name}", hint=f"{hints.INIT}: letters, digits, - and _")
    user, project, *_ = layout_files.folders(Path.cwd())
    path = (user if for_user else project) / f"{name}.toml"
    if path.exists():
        raise ConflictError(f"{path} exists already", hint=f"choose another name: {hints.INIT}")
    if (paths.shipped_dir("layouts") / path.name).exists():
        raise ConflictError(f"rltui ships a layout {name}", hint=f"choose another name: {hints.INIT}")
    return path


def _check(path: Path) -> None:
    """Refuse a layout that cannot be loaded, or whose placeholders are unknown without any config."""
    from rltui.client import checking
    from rltui.services.experiment import layout_files

    layout = layout_files.load(path)
    if any("{config." in text for spec in layout.component for text in spec.templates):
        return
    errors = [problem.text for problem in checking.check((), str(path)).problems if problem.is_error]
    if errors:
        raise ConfigError(errors[0], details=errors[1:])


# --- what it holds ----------------------------------------------------------------------------------------


def _component(
    name: str, command: str, *, is_service: bool = False, port: str = "", after: tuple[str, ...] = ()
) -> _Component:
    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"cannot parse the command of {name}: {error}") from error
    if not argv:
        raise UsageError(f"{name} has no command", hint="--component NAME='command with arguments'")
    if _SHELL.search(command):
        argv = ("sh", "-c", command)
    own_port = f"{{port.{name}}}"
    port = port or (own_port if any(own_port in argument for argument in argv) else "")
    return _Component(name, argv, is_service or bool(port), port, after)


def _text(name: str, components: Sequence[_Component]) -> str:
    lines = [
        "# Layout of a run: its programs, and how rltui supervises them. Written by `init`.",
        f"# Start it: {_start_command(name, components)}",
        f"# Every key and placeholder: {paths.shipped_dir('layouts') / 'README.md'}",
        f"title = {format_value(name)}",
        _line('# framework = "generic"', "whose configs it runs (default: detected)"),
    ]
    for component in components:
        lines += [
            "",
            *_section(
                component,
                [other_component.id for other_component in components if other_component.id != component.id],
            ),
        ]
    return "\n".join(lines) + "\n"


def _start_command(name: str, components: Iterable[_Component]) -> str:
    """The command that starts a run of the layout, with the config files that its components read."""
    commands = " ".join(word for component in components for word in component.command)
    configs = [f"{config}.toml" for config in dict.fromkeys(_CONFIG.findall(commands))]
    return hints.UP_LAYOUT(layout=name, configs=configs or None)


def _line(text: str, comment: str) -> str:
    return f"{text:<44} # {comment}"


def _section(component: _Component, other_ids: Sequence[str]) -> Iterator[str]:
    yield "[[component]]"
    yield f"id = {format_value(component.id)}"
    if component.command[:2] == ("sh", "-c"):
        yield "# an argument list; sh -c is only for shell syntax"
    else:
        yield "# an argument list, not a shell line; {config.NAME} is the path of NAME.toml"
    yield f"command = {format_value(list(component.command))}"
    kind = '"service"' if component.is_service else '"job"'
    yield _line(f"kind = {kind}", 'a "service" keeps running, a "job" exits with code 0')
    if component.port:
        port_note = "rltui picks a free port" if "{" in component.port else "must be free at the start"
        yield _line(f"port = {format_value(component.port)}", port_note)
        yield _line(
            f'ready = {{ tcp = "127.0.0.1:{component.port}" }}', "or http, log, file; dependents start then"
        )
    else:
        yield _line('# ready = { log = "listening on" }', "or http, tcp, file; dependents start then")
    if component.after:
        yield _line(
            f"after = {format_value(list(component.after))}", "starts once services are ready, jobs done"
        )
    elif other_ids:
        yield _line(
            f"# after = {format_value(list(other_ids[:1]))}", "starts once services are ready, jobs done"
        )
    yield _line('# env = { CUDA_VISIBLE_DEVICES = "0" }', "added to the environment of the start")
    if not component.is_service:
        yield _line(
            "# progress = ['step (?P<step>\\d+).* reward (?P<reward>\\S+)']", "log lines with its progress"
        )
    yield _line('# stop = { signal = "SIGINT", grace_s = 60 }', "signal to stop it; SIGKILL after grace_s")
    yield _line('# restart = { policy = "on-failure" }', "default: no automatic restart")


# --- questions --------------------------------------------------------------------------------------------


def _prompt_port(name: str) -> str:
    free = f"{{port.{name}}}"
    port = prompt(f"its port? (a number; empty: none, or a free one if its command has {free})")
    if port and not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"not a port: {port}", hint="a number from 1 to 65535")
    return port


def _prompt_components() -> Iterator[_Component]:
    names: list[str] = []
    while name := prompt(
        f"component {len(names) + 1}: name, such as trainer?{' (empty: done)' if names else ''}"
    ):
        command = prompt("command?")
        is_service = confirm("does it keep running, as a service?")
        port = _prompt_port(name) if is_service else ""
        after = prompt(f"starts after which of {', '.join(names)}? (empty: none)") if names else ""
        yield _component(
            name,
            command,
            is_service=is_service,
            port=port,
            after=tuple(re.split(r"[,\s]+", after)) if after else (),
        )
        names.append(name)
    if not names:
        raise UsageError("a layout needs components", hint="give each a name and a command")
