"""Config files for a framework's programs, resolved from a person's config by the framework itself, and
cached.
"""

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rltui.base.kinds import is_integer
from rltui.base.template import Missing
from rltui.base.text import duration
from rltui.base.toml.values import TomlValue
from rltui.core.config.data import apply_edits, deep_leaves, replaced, value_at
from rltui.core.logs.lines import decode_line, plain_text
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.launch import Resolution
from rltui.services.own_files import write_atomically
from rltui.services.processes import subprocesses

_SCRATCH = "{scratch}"
CACHE_TTL_S = 600.0
"""Validity of results for further starts with the same config."""
_UNKNOWN_OPTION = 2
"""Exit code of argparse and tyro for an option that they do not know."""
_PLAIN_OUTPUT = {"NO_COLOR": "1", "COLUMNS": "160", "TERM": "dumb"}
_LAST_LINES = 20
"""Number of last lines of a failed command's output in an error."""
_BOX = re.compile(r"[─━╭╮╰╯│┃┌┐└┘═║╔╗╚╝]")
_OUTPUT_FOLDER = "made"


@dataclass(frozen=True, slots=True)
class ResolvedFiles:
    files: Mapping[str, str]
    """Name of an output → absolute path."""
    notes: tuple[str, ...]
    """Unexpected effects of what was not cached, in words."""


class Resolver:
    """Executes resolutions, in a scratch folder below `folder`, where the results are cached.

    Of several concurrent requests for the same, one makes it and the others wait.
    """

    def __init__(
        self, folder: Path, *, workspace: Path, notify: Callable[[bool], None] = lambda _: None
    ) -> None:
        """`notify`: called with True when the framework starts to work, and False when it is done."""
        self._folder = folder
        self._notify = notify
        self._workspace = workspace
        self._lock = asyncio.Lock()
        self._results: dict[str, tuple[Path, int]] = {}
        """Hash of the inputs without `Resolution.moves` → the newest result, and its number there."""

    async def make(
        self,
        resolutions: Iterable[Resolution],
        files: ConfigFiles,
        *,
        run: tuple[str, ...] | Missing,
        into: Path,
    ) -> ResolvedFiles:
        """Make the outputs of each and copy them to the folder `into`.

        Raises:
            ConfigError, RltuiError: as `prepare`.
        """
        copies: dict[str, str] = {}
        notes: list[str] = []
        for resolution in resolutions:
            results, is_cached = await self.prepare(resolution, files, run=run)
            try:
                _write_shared(resolution, results)
                copies |= _copy(results, into)
            except OSError as error:
                raise _disk_error(results, error) from error
            if resolution.notes and not is_cached:
                notes.append("; ".join(resolution.notes))
        return ResolvedFiles(copies, tuple(notes))

    async def prepare(
        self, resolution: Resolution, files: ConfigFiles, *, run: tuple[str, ...] | Missing
    ) -> tuple[Path, bool]:
        """Make the outputs unless they are cached. Returns their folder, and whether they were cached.

        Cancelled, it ends the command that runs.

        Raises:
            ConfigError: if the framework refuses the config, or cannot do this.
            RltuiError: if the disk does not take the files, or the command cannot be run.
        """
        results = self._folder / _input_hash(resolution, _texts(resolution, files), run)
        async with self._lock:
            try:
                is_cached = _is_fresh(results)
                number = _moving_number(resolution)
                common_hash = "" if number is None else _common_hash(resolution, files, run)
                if not is_cached and (
                    number is None or not self._make_by_moving(resolution, common_hash, number, results)
                ):
                    await self._make_without_unknown(resolution, files, run, results)
                if number is not None:
                    self._results[common_hash] = results, number
            except OSError as error:
                raise _disk_error(results, error) from error
            return results, is_cached

    def _make_by_moving(self, resolution: Resolution, common_hash: str, number: int, target: Path) -> bool:
        """Replace `number` in the newest result that differs only in it; false if there is none, or the
        occurrences of the number are ambiguous.
        """
        before, old = self._results.get(common_hash, (target, number))
        if not _is_fresh(before):
            return False
        contents = {path.name: _with_number(path, resolution.moves, old, number) for path in before.iterdir()}
        texts = {name: text for name, text in contents.items() if text is not None}
        if len(texts) < len(contents) or all(
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
            scratch.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return True

    async def _make_without_unknown(
        self, resolution: Resolution, files: ConfigFiles, run: tuple[str, ...] | Missing, target: Path
    ) -> None:
        """Drop optional edits of keys that the framework turns out not to know."""
        try:
            await self._make(resolution, _texts(resolution, files), run, target)
        except ConfigError as error:
            error_text = "\n".join(error.details).replace("-", "_")
            unknown = {key for key in resolution.unless_unknown if key in error_text}
            if not unknown:
                raise
            known_edits = {
                role: {key: value for key, value in edits.items() if key not in unknown}
                for role, edits in resolution.edits.items()
            }
            reduced = replace(
                resolution, edits=known_edits, unless_unknown=resolution.unless_unknown - unknown
            )
            await self._make_without_unknown(reduced, files, run, target)

    async def _make(
        self,
        resolution: Resolution,
        contents: Mapping[str, str],
        run: tuple[str, ...] | Missing,
        target: Path,
    ) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=self._folder))
        try:
            names = {_SCRATCH: str(scratch)}
            for role, text in contents.items():
                copy = scratch / f"{role}.toml"
                copy.write_text(text.replace(_SCRATCH, str(scratch)), encoding="utf-8")
                names[f"{{input.{role}}}"] = str(copy)
            if resolution.commands:
                if isinstance(run, Missing):
                    raise ConfigError(run.reason, hint=run.hint)
                self._notify(True)
                try:
                    await self._run(resolution, run, names)
                finally:
                    self._notify(False)
            output_folder = scratch / _OUTPUT_FOLDER
            output_folder.mkdir(mode=0o700)
            _collect(resolution, scratch, output_folder)
            output_folder.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    async def _run(self, resolution: Resolution, run: tuple[str, ...], names: Mapping[str, str]) -> None:
        output = b""
        for command in resolution.commands:
            argv = [*run, *(_fill(argument, names) for argument in command)]
            code, output = await self._outcome(argv, timeout_s=resolution.timeout_s)
            if code == 0:
                return
            if code != _UNKNOWN_OPTION:
                last_lines = _last_lines(output)
                raise ConfigError(
                    f"{command[0]} rejects the config (exit code {code})",
                    details=last_lines,
                    hint="fix the config; nothing was started",
                )
        title = f"{resolution.commands[0][0]} has no option to write the config of each process"
        raise ConfigError(title, details=_last_lines(output), hint=resolution.unsupported)

    async def _outcome(self, argv: Sequence[str], *, timeout_s: float) -> tuple[int, bytes]:
        """Exit code and output of a command, all of whose processes are ended."""
        outcome = await subprocesses.run(
            argv,
            timeout_s=timeout_s,
            variables=_PLAIN_OUTPUT,
            cwd=self._workspace,
            mixed=True,
            leaves_nothing=True,
        )
        if outcome.code is None:
            raise RltuiError(
                f"{' '.join(argv[:3])} … did not finish within {duration(timeout_s)} and was ended",
                details=_last_lines(outcome.output),
            )
        return outcome.code, outcome.output


def _moving_number(resolution: Resolution) -> int | None:
    """The number at `Resolution.moves`, if its outputs are made by a command."""
    values = [edits.get(resolution.moves) for edits in resolution.edits.values() if resolution.commands]
    return next((value for value in values if is_integer(value)), None)


def _with_number(path: Path, key: str, old: int, new: int) -> str | None:
    """The file with `new` in place of `old` at `key`; unchanged if it has no such key. `None` if the number
    occurs at another key of that name as well.
    """
    text, data = path.read_text(encoding="utf-8"), read_document(path)
    if not isinstance(data, dict):
        return text
    is_present = value_at(data, key) == old
    after = apply_edits(data, {key: new}) if is_present else data
    name = key.rpartition(".")[2]
    if any(
        other_key.rpartition(".")[2] == name and value == old
        for other_key, value in deep_leaves(after).items()
    ):
        return None
    if not is_present:
        return text
    return json.dumps(after, indent=2) if path.suffix == ".json" else _toml(after)


def _texts(resolution: Resolution, files: ConfigFiles) -> dict[str, str]:
    """Role → edited copy of its file."""
    return {
        role: _toml(apply_edits(files[role].data, edits))
        for role, edits in resolution.edits.items()
        if role in files
    }


def _is_fresh(results: Path) -> bool:
    """True if the results exist and are recent; old ones are deleted, since the checkout may have changed.
    Attempts have copies.
    """
    if results.is_dir() and time.time() - results.stat().st_mtime > CACHE_TTL_S:
        shutil.rmtree(results)
    return results.is_dir()


def _disk_error(results: Path, error: OSError) -> RltuiError:
    return RltuiError(f"cannot write {results}: {error.strerror}", hint="is the disk full?")


def _last_lines(output: bytes) -> list[str]:
    """The last lines that are not empty, without colours and frames."""
    lines = (_BOX.sub(" ", plain_text(decode_line(line))).strip() for line in output.splitlines())
    return [line for line in lines if line][-_LAST_LINES:]


def _fill(argument: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        argument = argument.replace(name, value)
    return argument


def _collect(resolution: Resolution, scratch: Path, output_folder: Path) -> None:
    """Write every output as `<name>.<suffix>` to `output_folder`, with replacements.

    Raises:
        ConfigError: if one does not exist.
    """
    replacements = {old.replace(_SCRATCH, str(scratch)): new for old, new in resolution.replaced.items()}
    for name, patterns in resolution.outputs.items():
        files = next(filter(None, (_newest(scratch, pattern) for pattern in patterns)), [])
        if not files and name not in resolution.optional:
            raise ConfigError(
                f"the config of {name} was not written",
                details=[f"not in the output: {' or '.join(patterns)}"],
                hint=resolution.unsupported or "check that this layout matches the config",
            )
        for path in files:
            full_name = f"{name}.{path.stem}" if resolution.is_many(name) else name
            data = replaced(read_document(path), replacements)
            text = json.dumps(data, indent=2) if path.suffix == ".json" else _toml(data)
            output = output_folder / f"{full_name}{path.suffix}"
            output.touch(mode=0o600)  # it may hold secrets
            output.write_text(text, encoding="utf-8")


def _newest(scratch: Path, pattern: str) -> list[Path]:
    """The files that match a pattern; of several folders, those in the one with the greatest number."""
    files = sorted(scratch.glob(pattern))
    newest = max((path.parent for path in files), key=_numbers, default=None)
    return [path for path in files if path.parent == newest]


def _numbers(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]


def _write_shared(resolution: Resolution, results: Path) -> None:
    """Write the copies that other programs look for, and create the folders that they expect."""
    for folder in resolution.folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
    for name, target_path in resolution.shared.items():
        target = Path(target_path)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        many = resolution.is_many(name)
        for path in results.glob(f"{glob.escape(name)}{'.*' if many else ''}{target.suffix}"):
            own = target.name.replace("*", path.stem.removeprefix(f"{name}."))
            write_atomically(target.with_name(own), path.read_bytes())


def read_document(path: Path) -> TomlValue:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)


def _copy(results: Path, into: Path) -> dict[str, str]:
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {path.stem: str(shutil.copy(path, into.absolute())) for path in sorted(results.iterdir())}


def _input_hash(resolution: Resolution, contents: Mapping[str, str], run: tuple[str, ...] | Missing) -> str:
    """A hash of all inputs that the outputs depend on."""
    options = {key: _sorted(value) for key, value in asdict(resolution).items() if key not in _NOT_IN_OUTPUTS}
    prefix = None if isinstance(run, Missing) or not resolution.commands else run
    content = json.dumps([contents, options, prefix], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _common_hash(resolution: Resolution, files: ConfigFiles, run: tuple[str, ...] | Missing) -> str:
    """The fingerprint of the inputs without the number at `Resolution.moves`."""
    edits = {
        role: {key: value for key, value in role_edits.items() if key != resolution.moves}
        for role, role_edits in resolution.edits.items()
    }
    return _input_hash(resolution, _texts(replace(resolution, edits=edits), files), run)


_NOT_IN_OUTPUTS = frozenset({"edits", "notes", "unsupported", "timeout_s", "shared", "folders"})


def _sorted(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def _toml(data: Mapping[str, Any]) -> str:
    import tomlkit  # takes 30 ms, which only a start pays

    return tomlkit.dumps(data)
