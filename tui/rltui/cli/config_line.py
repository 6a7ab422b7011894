"""Reads the config of a command line, also in the words of launchers: `rl @ base.toml --max-steps 5`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.command import Arguments, option_meant
from rltui.errors import UsageError
from rltui.frameworks import launchers
from rltui.frameworks.launchers.line import LauncherLine, Options, is_file_sign, is_option

if TYPE_CHECKING:
    from rltui.core.experiment.request import ConfigLine

_KEY = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")
_CLOSE_OPTION = 0.8
"""Similarity of a misspelt option, which might as well be a key of the config."""
_SET = "--set"
"""The option for a knob's value, of the commands that take it."""


def is_pasted(argv: list[str]) -> bool:
    """True if the command line of a launcher, or of one program, was pasted in place of a command."""
    return launchers.begins_line(argv) or any(is_file_sign(arg) for arg in argv)


def read_config_line(argv: list[str], options: Options) -> tuple[list[str], Mapping[str, object]]:
    """The grammar of commands that take a config: `config_line` of the namespace is beyond argparse."""
    config = ConfigArguments(launchers.read(argv, options), options)
    return config.rest, {"config_line": config}


class ConfigArguments:
    """Files and overrides on a command line, and the words that remain for argparse."""

    def __init__(self, line: LauncherLine, options: Options) -> None:
        """Reads the words of `line` for a command that has these `options`.

        Raises:
            UsageError: if they are neither its grammar nor that of a launcher.
        """
        self.component = line.component
        """The only component that the line starts; empty: all."""
        self.rest: list[str] = []
        self.overlays: list[tuple[str, str]] = []
        """File and table of each `@`."""
        self.overrides: dict[str, tuple[str, ...]] = {}
        self._assignments: list[str] = []
        end = line.argv.index("--") if "--" in line.argv else len(line.argv)
        self._options = options
        self._argv = line.argv[:end]
        self._is_pasted = bool(line.component) or any(is_file_sign(arg) for arg in self._argv)
        self._read()
        self._options, self._argv, self._is_pasted = {}, line.argv[end + 1 :], True
        self._read()
        if line.table:
            self.overrides = {f"{line.table}.{key}": values for key, values in self.overrides.items()}
        self.overrides.update(line.overrides)
        for name, value in line.options.items():
            self.rest += [name, value] if name in options else []
        self.edits: dict[str, str] = {}
        """Value of each knob behind `--set`."""
        if self._assignments:
            from rltui.core.config.knobs import split_assignments  # only where there are some

            self.edits = split_assignments(self._assignments)

    @property
    def is_plain(self) -> bool:
        """True if nothing but files is said of the config."""
        return not (self.overlays or self.overrides or self.edits or self.component)

    def _read(self) -> None:
        while self._argv:
            arg = self._argv.pop(0)
            name, equals, value = arg.partition("=")
            if is_file_sign(arg):
                self.overlays.append((self._file(arg), ""))
            elif arg.startswith("--") and not equals and self._takes_file(name):
                self.overlays.append((self._file(self._argv.pop(0)), _key(name)))
            elif name == _SET and name in self._options:
                self._edit(value if equals else None)
            elif name in self._options:
                self._own_option(arg, takes_value=self._options[name] and not equals)
            elif arg.startswith("--"):
                self._override(arg, name, [value] if equals else None)
            elif self._is_pasted and not arg.startswith("-") and not arg.endswith(".toml"):
                self._program(arg)
            elif not self._options:
                raise UsageError(f"not a key of the config: {arg}", hint="after --: --KEY VALUE or @ FILE")
            else:
                self.rest.append(arg)

    def _takes_file(self, name: str) -> bool:
        """An `@` follows, and the option is none that stands by itself, as in `--no-wait @ rl.toml`."""
        return bool(self._argv) and is_file_sign(self._argv[0]) and self._options.get(name, True)

    def _file(self, arg: str) -> str:
        """The file behind an `@`, with or without a space."""
        if arg != "@":
            return arg[1:]
        if not self._argv or self._argv[0].startswith("-"):
            raise UsageError("@ needs a file", hint="@ rl.toml")
        return self._argv.pop(0)

    def _edit(self, assignment: str | None) -> None:
        if assignment is None:
            if not self._argv:
                raise UsageError(f"{_SET} needs KEY=VALUE", hint=f"{_SET} lr=1e-5")
            assignment = self._argv.pop(0)
        self._assignments.append(assignment)

    def _own_option(self, option: str, *, takes_value: bool) -> None:
        self.rest.append(option)
        if takes_value and self._argv:
            self.rest.append(self._argv.pop(0))

    def _override(self, arg: str, name: str, values: list[str] | None) -> None:
        if not self._is_pasted:
            if any(option.startswith(name) for option in self._options):  # argparse takes beginnings, too
                self.rest.append(arg)
                return
            guess = option_meant(name, self._options, least=_CLOSE_OPTION)
            hint = f"to set a config key, put it after --: rl.toml -- {name} …"
            raise UsageError(f"unknown option: {name}", hint=f"did you mean {guess}?" if guess else hint)
        if values is None:
            values = []
            while self._argv and not is_option(self._argv[0]):
                values.append(self._argv.pop(0))
        self.overrides[_key(name)] = tuple(values)

    def _program(self, arg: str) -> None:
        """A word of a launcher's, before its `@`; or a file without a suffix."""
        if not self._options:
            raise UsageError(f"not a config key: {arg}", hint="after --: --KEY VALUE")
        if self.overlays or arg in launchers.REFUSED:
            raise UsageError(f"not understood here: {arg}", hint="write it as: rl @ FILE --KEY VALUE")
        if Path(arg).exists():
            self.rest.append(arg)
        elif arg not in launchers.PREFIXES:
            raise UsageError(f"not understood before @: {arg}", hint="write it as: rl @ rl.toml")


def _key(name: str) -> str:
    key = name.removeprefix("--")
    if not _KEY.fullmatch(key):
        raise UsageError(f"not a config key: {name}", hint="write it as --model.name X")
    key = key.replace("-", "_")
    if key in launchers.NOT_KEYS:
        raise UsageError(f"not a config key: {name}", hint=launchers.NOT_KEYS[key])
    return key


def config_line_of(arguments: Arguments) -> ConfigLine:
    """The config that was named, and what options or several `@` change of it.

    Raises:
        ConfigError: if a folder has no config.
    """
    from rltui.core.experiment.request import ConfigLine, ConfigOverlay, Override
    from rltui.services.config.files import named, with_companion_files  # only where a config is looked into

    config: ConfigArguments = arguments.config_line
    files = named([Path(name) for name in arguments.config])
    overlays = tuple(ConfigOverlay(Path(name).absolute(), table) for name, table in config.overlays)
    if config.component and len(overlays) == 1:
        files, overlays = with_companion_files(overlays[0].path), ()
    return ConfigLine(
        files=files,
        overlays=overlays,
        program="" if files or overlays else config.component,
        overrides=tuple(Override(key, values) for key, values in config.overrides.items()),
        edits=config.edits,
    )
