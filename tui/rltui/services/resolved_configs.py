"""Files for a framework's programs, made from a person's config by the framework itself, once for each."""

from __future__ import annotations

import asyncio
import glob
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rltui.core.config_data import deep_leaves, edited, replaced, value_at
from rltui.core.lines import decode_line, plain_text
from rltui.core.template import Missing
from rltui.core.text import duration
from rltui.core.toml.values import TomlValue
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import ConfigFiles, Resolution
from rltui.services import subprocesses
from rltui.services.own_files import write_atomically

_SCRATCH = "{scratch}"
KEPT_S = 600.0
"""So long what was made serves for further starts with the same config."""
_UNKNOWN_OPTION = 2
"""Exit code of argparse and tyro for an option that they do not know."""
_PLAIN_OUTPUT = {"NO_COLOR": "1", "COLUMNS": "160", "TERM": "dumb"}
_LAST_LINES = 20
"""Of what a failed command said."""
_BOX = re.compile(r"[─━╭╮╰╯│┃┌┐└┘═║╔╗╚╝]")
_MADE = "made"


@dataclass(frozen=True, slots=True)
class Made:
    files: Mapping[str, str]
    """Name → absolute path."""
    was_kept: bool
    """It had been made before, from the same."""


class Resolver:
    """Carries resolutions out, in a scratch folder below `folder`, where the results are kept.

    Several that ask for the same at once wait for one that makes it.
    """

    def __init__(
        self, folder: Path, *, workspace: Path, tell: Callable[[bool], None] = lambda _: None
    ) -> None:
        """`tell`: takes whether the framework is at work on it, when that changes."""
        self._folder = folder
        self._tell = tell
        self._workspace = workspace
        self._lock = asyncio.Lock()
        self._made: dict[str, tuple[Path, int]] = {}
        """By what they have in common but for `Resolution.moves`: the newest result, and its number there."""

    async def make(
        self, resolution: Resolution, files: ConfigFiles, *, run: tuple[str, ...] | Missing, into: Path
    ) -> Made:
        """Make the outputs and copy them to the folder `into`.

        Raises:
            ConfigError, RltuiError: as `prepare`.
        """
        kept, was_kept = await self.prepare(resolution, files, run=run)
        try:
            _share(resolution, kept)
            return Made(_copied(kept, into), was_kept)
        except OSError as error:
            raise _disk_error(kept, error) from error

    async def prepare(
        self, resolution: Resolution, files: ConfigFiles, *, run: tuple[str, ...] | Missing
    ) -> tuple[Path, bool]:
        """Make the outputs where that was not done yet: the folder they are kept in, and whether it was.

        Cancelled, it ends the command that runs.

        Raises:
            ConfigError: if the framework refuses the config, or cannot do this.
            RltuiError: if the disk does not take the files, or the command cannot be run.
        """
        kept = self._folder / _digest(resolution, _texts(resolution, files), run)
        async with self._lock:
            try:
                was_kept = _is_fresh(kept)
                number = _moved(resolution)
                edits = {
                    role: {key: value for key, value in each.items() if key != resolution.moves}
                    for role, each in resolution.edits.items()
                }
                alike = _digest(resolution, _texts(replace(resolution, edits=edits), files), run)
                if not was_kept and (number is None or not self._move(resolution, alike, number, kept)):
                    await self._make_known(resolution, files, run, kept)
                if number is not None:
                    self._made[alike] = kept, number
            except OSError as error:
                raise _disk_error(kept, error) from error
            return kept, was_kept

    def _move(self, resolution: Resolution, alike: str, number: int, kept: Path) -> bool:
        """Put `number` into the newest result that differs only in it; false where there is none, or it is
        not clear where the number stands there.
        """
        before, old = self._made.get(alike, (kept, number))
        if not _is_fresh(before):
            return False
        moved = {path.name: _with_number(path, resolution.moves, old, number) for path in before.iterdir()}
        texts = {name: text for name, text in moved.items() if text is not None}
        if len(texts) < len(moved) or all(
            (before / name).read_text() == text for name, text in texts.items()
        ):
            return False
        scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=self._folder))
        try:
            for name, text in texts.items():
                (scratch / name).touch(mode=0o600)
                (scratch / name).write_text(text, encoding="utf-8")
            made_at = before.stat().st_mtime_ns
            os.utime(scratch, ns=(made_at, made_at))  # as old as what the framework itself has made
            scratch.rename(kept)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return True

    async def _make_known(
        self, resolution: Resolution, files: ConfigFiles, run: tuple[str, ...] | Missing, kept: Path
    ) -> None:
        """Without edits of keys that the framework turns out not to know, and that need not be."""
        try:
            await self._make(resolution, _texts(resolution, files), run, kept)
        except ConfigError as error:
            said = "\n".join(error.details).replace("-", "_")
            unknown = {key for key in resolution.unless_unknown if key in said}
            if not unknown:
                raise
            known = {
                role: {key: value for key, value in edits.items() if key not in unknown}
                for role, edits in resolution.edits.items()
            }
            less = replace(resolution, edits=known, unless_unknown=resolution.unless_unknown - unknown)
            await self._make_known(less, files, run, kept)

    async def _make(
        self,
        resolution: Resolution,
        texts: Mapping[str, str],
        run: tuple[str, ...] | Missing,
        kept: Path,
    ) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=self._folder))
        try:
            names = {_SCRATCH: str(scratch)}
            for role, text in texts.items():
                copy = scratch / f"{role}.toml"
                copy.write_text(text.replace(_SCRATCH, str(scratch)), encoding="utf-8")
                names[f"{{input.{role}}}"] = str(copy)
            if resolution.commands:
                if isinstance(run, Missing):
                    raise ConfigError(run.reason, hint=run.hint)
                self._tell(True)
                try:
                    await self._run(resolution, run, names)
                finally:
                    self._tell(False)
            made = scratch / _MADE
            made.mkdir(mode=0o700)
            _collect(resolution, scratch, made)
            made.rename(kept)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    async def _run(self, resolution: Resolution, run: tuple[str, ...], names: Mapping[str, str]) -> None:
        output = b""
        for command in resolution.commands:
            argv = [*run, *(_filled(argument, names) for argument in command)]
            code, output = await self._outcome(argv, timeout_s=resolution.timeout_s)
            if code == 0:
                return
            if code != _UNKNOWN_OPTION:
                words = _last_words(output)
                raise ConfigError(
                    f"{command[0]} refuses the config (exit code {code})",
                    details=words,
                    hint="mend the config; nothing was started",
                )
        title = f"{resolution.commands[0][0]} knows no option to write out the config of each process"
        raise ConfigError(title, details=_last_words(output), hint=resolution.unsupported)

    async def _outcome(self, argv: Sequence[str], *, timeout_s: float) -> tuple[int, bytes]:
        """Exit code and output of a command, of which nothing is left behind."""
        done = await subprocesses.run(
            argv,
            timeout_s=timeout_s,
            variables=_PLAIN_OUTPUT,
            cwd=self._workspace,
            mixed=True,
            leaves_nothing=True,
        )
        if done.code is None:
            raise RltuiError(
                f"{' '.join(argv[:3])} … was not done after {duration(timeout_s)} and was ended",
                details=_last_words(done.output),
            )
        return done.code, done.output


def _moved(resolution: Resolution) -> int | None:
    """The number at `Resolution.moves`, where its outputs are made by a command."""
    found = [edits.get(resolution.moves) for edits in resolution.edits.values() if resolution.commands]
    return next((each for each in found if isinstance(each, int) and not isinstance(each, bool)), None)


def _with_number(path: Path, key: str, old: int, new: int) -> str | None:
    """The file with `new` in place of `old` at `key`; as it is where it has no such key. `None` where the
    number stands at another key of that name as well.
    """
    text, data = path.read_text(encoding="utf-8"), read_made(path)
    if not isinstance(data, dict):
        return text
    is_there = value_at(data, key) == old
    after = edited(data, {key: new}) if is_there else data
    name = key.rpartition(".")[2]
    if any(other.rpartition(".")[2] == name and value == old for other, value in deep_leaves(after).items()):
        return None
    if not is_there:
        return text
    return json.dumps(after, indent=2) if path.suffix == ".json" else _toml(after)


def _texts(resolution: Resolution, files: ConfigFiles) -> dict[str, str]:
    """Role → edited copy of its file."""
    return {
        role: _toml(edited(files[role].data, edits))
        for role, edits in resolution.edits.items()
        if role in files
    }


def _is_fresh(kept: Path) -> bool:
    """What was made long ago goes: the checkout may be another since. Attempts have copies of their own."""
    if kept.is_dir() and time.time() - kept.stat().st_mtime > KEPT_S:
        shutil.rmtree(kept)
    return kept.is_dir()


def _disk_error(kept: Path, error: OSError) -> RltuiError:
    return RltuiError(f"cannot keep what {kept} needs: {error.strerror}", hint="is the disk full?")


def _last_words(output: bytes) -> list[str]:
    """The last lines that say something, without colours and frames."""
    lines = (_BOX.sub(" ", plain_text(decode_line(line))).strip() for line in output.splitlines())
    return [line for line in lines if line][-_LAST_LINES:]


def _filled(argument: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        argument = argument.replace(name, value)
    return argument


def _collect(resolution: Resolution, scratch: Path, made: Path) -> None:
    """Every output as `<name>.<suffix>` in `made`, with the texts replaced.

    Raises:
        ConfigError: if one is not there.
    """
    texts = {old.replace(_SCRATCH, str(scratch)): new for old, new in resolution.replaced.items()}
    for name, places in resolution.outputs.items():
        found = next(filter(None, (_newest(scratch, place) for place in places)), [])
        if not found and name not in resolution.optional:
            raise ConfigError(
                f"the config of {name} was not written",
                details=[f"{' or '.join(places)} is not among what was made"],
                hint=resolution.unsupported or "does this layout suit the config?",
            )
        for path in found:
            full_name = f"{name}.{path.stem}" if resolution.is_many(name) else name
            data = replaced(read_made(path), texts)
            text = json.dumps(data, indent=2) if path.suffix == ".json" else _toml(data)
            output = made / f"{full_name}{path.suffix}"
            output.touch(mode=0o600)  # it may hold secrets
            output.write_text(text, encoding="utf-8")


def _newest(scratch: Path, place: str) -> list[Path]:
    """The files at one place; of several folders, those in the one with the greatest number."""
    found = sorted(scratch.glob(place))
    newest = max((path.parent for path in found), key=_numbers, default=None)
    return [path for path in found if path.parent == newest]


def _numbers(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]


def _share(resolution: Resolution, kept: Path) -> None:
    """Put the copies that other programs look for in their places, and make the folders they expect."""
    for folder in resolution.folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
    for name, place in resolution.shared.items():
        target = Path(place)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        many = resolution.is_many(name)
        for path in kept.glob(f"{glob.escape(name)}{'.*' if many else ''}{target.suffix}"):
            own = target.name.replace("*", path.stem.removeprefix(f"{name}."))
            write_atomically(target.with_name(own), path.read_bytes())


def read_made(path: Path) -> TomlValue:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)


def _copied(kept: Path, into: Path) -> dict[str, str]:
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {path.stem: str(shutil.copy(path, into.absolute())) for path in sorted(kept.iterdir())}


def _digest(resolution: Resolution, texts: Mapping[str, str], run: tuple[str, ...] | Missing) -> str:
    """Changes with whatever the outputs follow from, as far as it is in the inputs."""
    how = {key: _sorted(value) for key, value in asdict(resolution).items() if key not in _NOT_IN_OUTPUTS}
    prefix = None if isinstance(run, Missing) or not resolution.commands else run
    content = json.dumps([texts, how, prefix], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


_NOT_IN_OUTPUTS = frozenset({"edits", "notes", "unsupported", "timeout_s", "shared", "folders"})


def _sorted(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def _toml(data: Mapping[str, Any]) -> str:
    import tomlkit  # takes 30 ms, which only a start pays

    return tomlkit.dumps(data)
