"""What a run was started with besides its config: found as it starts, kept in its folder start by start."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from rltui import paths
from rltui.core.config_data import deep_leaves
from rltui.core.interpreter import OWN_PYTHON
from rltui.core.layout import Layout
from rltui.core.provenance import DataPrint, Provenance
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services import checkout, subprocesses
from rltui.services.config.origins import made_from
from rltui.services.gpu.model_files import HubKind, hub_commit
from rltui.services.own_files import make_folder, open_own, write_atomically

logger = logging.getLogger(__name__)

FILE_NAME = "provenance.jsonl"
_DIFFS = "diffs"
_MOST_DIFF_BYTES = 1 << 20
"""Kept of the changes of a workspace."""
_MOST_UNTRACKED = 100
_TAIL_BYTES = 1 << 18
"""Read of the end of the file: far more than one record."""
_GIT_S = 30.0
"""A workspace on a slow disk: what git has not said by then stays unknown."""
_GIT_VARIABLES = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
"""It never takes the lock of the person's own git."""
_PACKAGE_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_PACKAGES = ("prime-rl", "verifiers", "verifiers-rl", "vllm", "torch", "transformers", "rltui")
_ENVIRONMENT_KEYS = frozenset({"id", "env_id"})
"""Last part of keys that name an environment, which is a package."""
_DATA_KEYS = frozenset({"data", "dataset", "datasets"})
_NAME_KEYS = frozenset({"name", "path", "repo", "dir", "file", "files"})
_MODEL_KEYS = frozenset({"model", "base_model"})
_DATA_SUFFIXES = frozenset({".json", ".jsonl", ".parquet", ".csv", ".tsv", ".txt", ".arrow", ".gz", ".zst"})
_HASHED_BYTES = 8 << 20
"""The content of a larger file is not read."""
_OWN_PYTHON = "{python}"
_MOST_FILES = 10_000
"""Looked at in a folder of data."""


def latest(control: Path) -> Provenance | None:
    """Of the last start of the run's jobs; `control` is rltui's own folder of it.

    `None`: nothing was kept, or nothing that can be understood.
    """
    try:
        with os.fdopen(open_own(control / FILE_NAME, os.O_RDONLY), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            return Provenance.parsed(orjson.loads(line))
        except (ValueError, TypeError, AttributeError):  # cut short by a full disk: the one before
            continue
    return None


@dataclass(frozen=True, slots=True)
class ProvenanceCollector:
    control: Path
    workspace: Path
    output_dir: Path
    """What lies there is made by the run."""
    framework: Framework
    layout: Layout
    config_files: Sequence[Path]

    async def keep(self, files: ConfigFiles, gpus: Mapping[str, str], driver: str | None) -> Provenance:
        """Find it and append it to what is kept, with the changes of the workspace beside it.

        `gpus`: names of the devices by label. `driver`: its version, where known.

        Raises:
            RltuiError: if it cannot be written.
        """
        found, patch = await self._found(files, gpus, driver)
        await asyncio.to_thread(self._write, found, patch)
        return found

    async def survey(self, files: ConfigFiles, gpus: Mapping[str, str], driver: str | None) -> Provenance:
        """What it would be now, as `keep`. Writes nothing."""
        return (await self._found(files, gpus, driver))[0]

    async def _found(
        self, files: ConfigFiles, gpus: Mapping[str, str], driver: str | None
    ) -> tuple[Provenance, bytes]:
        code = await _git_state(self.workspace, besides=made_from(self.config_files))
        theirs = await self._checkout_state()
        if theirs is not None and theirs.root == code.root:
            theirs = None
        versions, data = await asyncio.to_thread(self._versions_and_data, files)
        if driver:
            versions["driver"] = driver
        # without the folders of runs, and the config files
        own, configs = self.output_dir.resolve(), {path.resolve() for path in made_from(self.config_files)}
        names = (
            name
            for name in code.untracked
            if code.root / name not in configs
            if not _is_around(code.root / name, own) and not _has_run(code.root / name)
        )
        found = Provenance(
            at=time.time(),
            commit=code.commit,
            branch=code.branch,
            is_dirty=code.changes.size > 0,
            diff=code.changes.sha256,
            diff_bytes=code.changes.size,
            untracked=tuple(sorted(names)[:_MOST_UNTRACKED]),
            checkout_commit=theirs.commit if theirs is not None else "",
            checkout_is_dirty=theirs is not None and theirs.changes.size > 0,
            versions=versions,
            host=os.uname().nodename,
            gpus=tuple(gpus),
            gpu_names=tuple(gpus.values()),
            data=data,
        )
        return found, code.changes.kept

    async def _checkout_state(self) -> _Repository | None:
        """Of the framework's own checkout; `None` where there is none."""
        if self.framework.checkout is None:
            return None
        try:
            folder = checkout.find(
                self.framework.checkout, workspace=self.workspace, config_files=self.config_files
            )
        except ConfigError:
            return None
        return None if folder is None else await _git_state(folder)

    def _write(self, found: Provenance, patch: bytes) -> None:
        if found.diff:
            make_folder(self.control / _DIFFS)
            path = self.control / _DIFFS / f"{found.diff}.patch"
            if not path.exists():
                write_atomically(path, patch)
        path = self.control / FILE_NAME
        try:
            with os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
                file.write(b"\n" * (not _ends_with_line(path)) + orjson.dumps(found) + b"\n")
        except OSError as error:
            raise RltuiError(f"cannot write {path}: {error.strerror}", hint="is the disk full?") from error

    # --- versions and data, in a thread -------------------------------------------------------------------

    def _versions_and_data(self, files: ConfigFiles) -> tuple[dict[str, str], dict[str, DataPrint]]:
        leaves = [leaf for file in files.values() for leaf in _texts(file.data)]
        environments = [
            value.partition("@")[0].rpartition("/")[2]
            for key, value in leaves
            if key.rpartition(".")[2] in _ENVIRONMENT_KEYS
        ]
        programs = self._programs()
        models = self.framework.config_models
        names = (*_PACKAGES, *(models.packages if models is not None else ()), *environments)
        versions = checkout.installed(programs, tuple(dict.fromkeys(filter(_PACKAGE_NAME.fullmatch, names))))
        if python := _python_of(programs):
            versions["python"] = python
        return versions, dict(self._prints(leaves))

    def _programs(self) -> Path:
        """Of the environment that its programs run in: its checkout's, rltui's where the layout says so, else
        the workspace's.
        """
        found = None
        if self.framework.checkout is not None:
            try:
                found = checkout.programs(
                    self.framework.checkout, workspace=self.workspace, config_files=self.config_files
                )
            except ConfigError:
                found = None
        elif not any(_OWN_PYTHON in spec.command for spec in self.layout.automatic):
            python = checkout.interpreter(self.workspace)
            found = Path(python[0]).parent if python is not None else None
        return found or Path(OWN_PYTHON).parent

    def _prints(self, leaves: Sequence[tuple[str, str]]) -> Iterator[tuple[str, DataPrint]]:
        for key, value in dict.fromkeys(leaves):
            path = self.workspace / Path(value).expanduser()
            if "\0" in value or path.is_relative_to(self.output_dir) or self.workspace.is_relative_to(path):
                continue  # its own, or all there is
            parts = key.split(".")
            is_model = parts[-1] in _MODEL_KEYS or (parts[-1] == "name" and parts[-2:-1] == ["model"])
            is_data = bool(_DATA_KEYS.intersection(re.split(r"[._]", key))) and (
                parts[-1] in _NAME_KEYS or bool(_DATA_KEYS.intersection(parts[-1].split("_")))
            )
            if not (path.suffix in _DATA_SUFFIXES or is_model or is_data):
                continue
            if (found := _print_of(path, value, "models" if is_model else "datasets")) is not None:
                yield value, found


def _is_around(place: Path, folder: Path) -> bool:
    """`folder` lies in `place`, is it, or has it."""
    return folder.is_relative_to(place) or place.is_relative_to(folder)


def _has_run(folder: Path) -> bool:
    """It is the output folder of an experiment, or one of such folders."""
    return any(any(folder.glob(f"{above}{paths.STATE_FOLDER}")) for above in ("", "*/"))


def _texts(data: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Every text in a config, by its dotted key."""
    for key, value in deep_leaves(data).items():
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, str) and each:
                yield key, each


def _python_of(programs: Path) -> str:
    if programs == Path(OWN_PYTHON).parent:
        return ".".join(map(str, sys.version_info[:3]))
    try:
        text = (programs.parent / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r"^version(?:_info)?\s*=\s*(\S+)", text, re.MULTILINE)
    return found[1] if found is not None else ""


def _ends_with_line(path: Path) -> bool:
    """Also an empty one: what was cut short by a full disk stays a line of its own."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return size == 0 or file.read(1) == b"\n"


def _print_of(path: Path, name: str, kind: HubKind) -> DataPrint | None:
    """`None` for what is neither there nor a name of the hub."""
    try:
        if path.is_file():
            info = path.stat()
            digest = ""
            if info.st_size <= _HASHED_BYTES:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
            return DataPrint(size=info.st_size, mtime=info.st_mtime, sha256=digest)
        if path.is_dir():
            return _print_of_folder(path)
    except OSError:
        return DataPrint()
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return None
    return DataPrint(revision=hub_commit(name, kind, os.environ))


def _print_of_folder(folder: Path) -> DataPrint:
    digest, total, newest, count = hashlib.sha256(), 0, 0.0, 0
    for inner, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(inner) / name
            info = path.stat()
            total, newest, count = total + info.st_size, max(newest, info.st_mtime), count + 1
            digest.update(os.fsencode(path.relative_to(folder)) + f"\0{info.st_size}\0".encode())
        if count > _MOST_FILES:
            break
    return DataPrint(size=total, mtime=newest, sha256=digest.hexdigest())


# --- git ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Changes:
    kept: bytes = b""
    """Its beginning."""
    size: int = 0
    sha256: str = ""
    """Of all of it; empty where there are none."""


@dataclass(frozen=True, slots=True)
class _Repository:
    """A git repository as it is now. Without one all is empty."""

    root: Path
    commit: str = ""
    branch: str = ""
    changes: _Changes = _Changes()
    untracked: tuple[str, ...] = ()


async def _git_state(folder: Path, *, besides: Collection[Path] = ()) -> _Repository:
    """Of the repository around `folder`. Changes of the files `besides` do not count."""
    git = ("git", "-C", str(folder), "-c", "core.fsmonitor=false")
    said = await _said((*git, "rev-parse", "--show-toplevel", "HEAD"))
    root, _, commit = said.strip().partition("\n")
    if not commit:
        return _Repository(Path(root or folder))
    inside = (path.resolve() for path in besides if path.resolve().is_relative_to(root))
    where = (":(top)", *(f":(top,exclude,literal){path.relative_to(root)}" for path in inside))
    changes = await _changes(
        (*git, "diff", "--no-ext-diff", "--no-textconv", "--no-color"), ("HEAD", "--", *where)
    )
    others = await _said(
        (*git, "ls-files", "--others", "--exclude-standard", "--directory", "--full-name", "-z")
    )
    return _Repository(
        root=Path(root),
        commit=commit,
        branch=(await _said((*git, "symbolic-ref", "--short", "-q", "HEAD"))).strip(),
        changes=changes,
        untracked=tuple(filter(None, others.split("\0"))),
    )


async def _changes(diff: Sequence[str], of: Sequence[str]) -> _Changes:
    """By a file, which may be large: what is read of a pipe is slowed down."""
    with TemporaryDirectory(prefix="rltui-") as folder:
        path = Path(folder) / "patch"
        done = await subprocesses.run(
            (*diff, f"--output={path}", *of), timeout_s=_GIT_S, variables=_GIT_VARIABLES, leaves_nothing=True
        )
        if done.code != 0:
            logger.warning(
                "the changes of the workspace are not known: git diff %s", done.failure or "takes long"
            )
            return _Changes()
        return await asyncio.to_thread(_read_changes, path)


def _read_changes(path: Path) -> _Changes:
    with path.open("rb") as file:
        kept = file.read(_MOST_DIFF_BYTES)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest() if kept else ""
        return _Changes(kept, file.tell(), digest)


async def _said(command: Sequence[str]) -> str:
    """Empty where it fails, or there is no git."""
    try:
        done = await subprocesses.run(
            command, timeout_s=_GIT_S, variables=_GIT_VARIABLES, leaves_nothing=True
        )
    except RltuiError:
        return ""
    return done.output.decode(errors="replace") if done.code == 0 else ""
