"""Provenance of each start of a run besides its config (code, versions, data), stored in its folder."""

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
from rltui.base.interpreter import OWN_PYTHON
from rltui.core.config.data import deep_leaves
from rltui.core.experiment.layout import Layout
from rltui.core.runs.provenance import DataPrint, Provenance
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks import packages
from rltui.frameworks.base import Checkout, Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.config.origins import original_files
from rltui.services.experiment import checkout
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.gpu.model_files import HubKind, hub_commit
from rltui.services.own_files import append_line, make_folder, open_own, write_atomically
from rltui.services.processes import subprocesses

logger = logging.getLogger(__name__)

FILE_NAME = "provenance.jsonl"
_DIFFS = "diffs"
_MOST_DIFF_BYTES = 1 << 20
"""Limit of the stored changes of a workspace."""
_MOST_UNTRACKED = 100
_TAIL_BYTES = 1 << 18
"""Far more than one record."""
_GIT_TIMEOUT_S = 30.0
"""Limit for git in a workspace on a slow disk: later answers stay unknown."""
_GIT_VARIABLES = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
"""Variables that keep git from taking the lock of the person's own git."""
_PACKAGE_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_ENVIRONMENT_KEYS = frozenset({"id", "env_id"})
"""Last segment of keys that name an environment, which is a package."""
_DATA_KEYS = frozenset({"data", "dataset", "datasets"})
_NAME_KEYS = frozenset({"name", "path", "repo", "dir", "file", "files"})
_MODEL_KEYS = frozenset({"model", "base_model"})
_DATA_SUFFIXES = frozenset({".json", ".jsonl", ".parquet", ".csv", ".tsv", ".txt", ".arrow", ".gz", ".zst"})
_HASHED_BYTES = 8 << 20
"""Larger files are not hashed."""
_OWN_PYTHON = "{python}"
_MOST_FILES = 10_000
"""Limit of files that are read in a folder of data."""


def latest(control: Path) -> Provenance | None:
    """Provenance of the last start of the run's jobs; `control` is rltui's own folder of it.

    `None`: none is stored, or it cannot be parsed.
    """
    try:
        with os.fdopen(open_own(control / FILE_NAME, os.O_RDONLY), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            return Provenance.parse(orjson.loads(line))
        except (ValueError, TypeError, AttributeError):  # cut short by a full disk: the one before
            continue
    return None


def checkout_of(record: ExperimentRecord, spec: Checkout) -> checkout.NearbyCheckout:
    """The framework's checkout that the run last started with; near its workspace before the first start."""
    known = latest(record.control.path)
    folder = known.checkout if known is not None and Path(known.checkout).is_dir() else ""
    variables = {spec.variable: folder} if folder else {}
    return checkout.NearbyCheckout(
        spec,
        workspace=Path(record.workspace),
        config_files=record.config_paths,
        environment={**os.environ, **variables},
    )


def collector_of(record: ExperimentRecord, layout: Layout, framework: Framework) -> ProvenanceCollector:
    return ProvenanceCollector(
        control=record.control.path,
        workspace=Path(record.workspace),
        output_dir=Path(record.output_dir),
        framework=framework,
        layout=layout,
        config_files=record.config_paths,
    )


@dataclass(frozen=True, slots=True)
class ProvenanceCollector:
    control: Path
    workspace: Path
    output_dir: Path
    """Files in it were made by the run."""
    framework: Framework
    layout: Layout
    config_files: Sequence[Path]

    async def record(self, files: ConfigFiles, gpus: Mapping[str, str], driver: str | None) -> Provenance:
        """Collect provenance and append it to the stored ones, with the changes of the workspace.

        `gpus`: device label → name. `driver`: its version, if known.

        Raises:
            RltuiError: if it cannot be written.
        """
        provenance, patch = await self._collect(files, gpus, driver)
        await asyncio.to_thread(self._write, provenance, patch)
        return provenance

    async def collect(self, files: ConfigFiles, gpus: Mapping[str, str], driver: str | None) -> Provenance:
        """Collect the current provenance, as `record`. Writes nothing."""
        return (await self._collect(files, gpus, driver))[0]

    async def _collect(
        self, files: ConfigFiles, gpus: Mapping[str, str], driver: str | None
    ) -> tuple[Provenance, bytes]:
        code = await _git_state(self.workspace, besides=original_files(self.config_files))
        checkout_folder = self._checkout_folder()
        framework_code = None if checkout_folder is None else await _git_state(checkout_folder)
        if framework_code is not None and framework_code.root == code.root:
            framework_code = None
        versions, data = await asyncio.to_thread(self._versions_and_data, files)
        if driver:
            versions["driver"] = driver
        # without the folders of runs, and the config files
        own, configs = (
            self.output_dir.resolve(),
            {path.resolve() for path in original_files(self.config_files)},
        )
        names = (
            name
            for name in code.untracked
            if code.root / name not in configs
            if not _overlaps(code.root / name, own) and not _has_run(code.root / name)
        )
        provenance = Provenance(
            at=time.time(),
            commit=code.commit,
            branch=code.branch,
            is_dirty=code.changes.size > 0,
            diff=code.changes.sha256,
            diff_bytes=code.changes.size,
            untracked=tuple(sorted(names)[:_MOST_UNTRACKED]),
            checkout=str(checkout_folder or ""),
            checkout_commit=framework_code.commit if framework_code is not None else "",
            checkout_is_dirty=framework_code is not None and framework_code.changes.size > 0,
            versions=versions,
            host=os.uname().nodename,
            gpus=tuple(gpus),
            gpu_names=tuple(gpus.values()),
            data=data,
        )
        return provenance, code.changes.beginning

    @property
    def _checkout(self) -> checkout.NearbyCheckout | None:
        if (spec := self.framework.checkout) is None:
            return None
        return checkout.NearbyCheckout(spec, workspace=self.workspace, config_files=self.config_files)

    def _checkout_folder(self) -> Path | None:
        """The framework's own checkout; `None` if there is none."""
        try:
            return None if (nearby := self._checkout) is None else nearby.folder
        except ConfigError:
            return None

    def _write(self, provenance: Provenance, patch: bytes) -> None:
        if provenance.diff:
            make_folder(self.control / _DIFFS)
            path = self.control / _DIFFS / f"{provenance.diff}.patch"
            if not path.exists():
                write_atomically(path, patch)
        path = self.control / FILE_NAME
        try:
            append_line(path, orjson.dumps(provenance))
        except OSError as error:
            raise RltuiError(f"cannot write {path}: {error.strerror}", hint="is the disk full?") from error

    # --- versions and data, in a thread -------------------------------------------------------------------

    def judging_files(self, files: ConfigFiles) -> tuple[Path, ...]:
        """Files and folders on this machine that decide what a run is worth: graders, environments, data."""
        leaves = [leaf for file in files.values() for leaf in _strings(file.data)]
        homes = [home for home in (self.workspace, self._checkout_folder()) if home is not None]
        homes += [home / "environments" for home in homes]
        homes += self._programs().parent.glob("lib/python3*/site-packages")
        modules = [
            re.sub(r"[-.]", "_", name) for name in _environments(leaves) if _PACKAGE_NAME.fullmatch(name)
        ]
        places = (home / name for module in modules for home in homes for name in (f"{module}.py", module))
        data = (path for _, path, kind in self._data_paths(leaves) if kind == "datasets")
        found = dict.fromkeys((*map(Path, self.framework.run.graders), *places, *data))
        return tuple(path for path in found if path.exists())

    def _versions_and_data(self, files: ConfigFiles) -> tuple[dict[str, str], dict[str, DataPrint]]:
        leaves = [leaf for file in files.values() for leaf in _strings(file.data)]
        environments = _environments(leaves)
        programs = self._programs()
        models = self.framework.config.models
        names = (*packages.RECORDED, "rltui", *(models.packages if models is not None else ()), *environments)
        versions = checkout.installed(programs, tuple(dict.fromkeys(filter(_PACKAGE_NAME.fullmatch, names))))
        if python := _python_of(programs):
            versions["python"] = python
        return versions, dict(self._fingerprints(leaves))

    def _programs(self) -> Path:
        """Program folder of the environment that its programs run in: its checkout's, rltui's if the layout
        says so, else the workspace's.
        """
        folder = None
        if (nearby := self._checkout) is not None:
            try:
                folder = nearby.programs()
            except ConfigError:
                folder = None
        elif not any(_OWN_PYTHON in spec.command for spec in self.layout.automatic):
            python = checkout.interpreter(self.workspace)
            folder = Path(python[0]).parent if python is not None else None
        return folder or Path(OWN_PYTHON).parent

    def _fingerprints(self, leaves: Sequence[tuple[str, str]]) -> Iterator[tuple[str, DataPrint]]:
        for value, path, kind in self._data_paths(leaves):
            if (fingerprint := _fingerprint_of(path, value, kind)) is not None:
                yield value, fingerprint

    def _data_paths(self, leaves: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Path, HubKind]]:
        """Each value of a config that names data or a model, as a path, and which of both it is."""
        for key, value in dict.fromkeys(leaves):
            path = self.workspace / Path(value).expanduser()
            if "\0" in value or path.is_relative_to(self.output_dir) or self.workspace.is_relative_to(path):
                continue  # its own, or all there is
            segments = key.split(".")
            is_model = segments[-1] in _MODEL_KEYS or (
                segments[-1] == "name" and segments[-2:-1] == ["model"]
            )
            is_data = bool(_DATA_KEYS.intersection(re.split(r"[._]", key))) and (
                segments[-1] in _NAME_KEYS or bool(_DATA_KEYS.intersection(segments[-1].split("_")))
            )
            if path.suffix in _DATA_SUFFIXES or is_model or is_data:
                yield value, path, "models" if is_model else "datasets"


def _overlaps(path: Path, folder: Path) -> bool:
    """True if one of the two contains the other, or they are equal."""
    return folder.is_relative_to(path) or path.is_relative_to(folder)


def _has_run(folder: Path) -> bool:
    """True if it is the output folder of an experiment, or contains such folders."""
    return any(any(folder.glob(f"{above}{paths.STATE_FOLDER}")) for above in ("", "*/"))


def _strings(data: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Dotted key and value of every string in a config."""
    for key, value in deep_leaves(data).items():
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, str) and item:
                yield key, item


def _environments(leaves: Sequence[tuple[str, str]]) -> list[str]:
    """Names of the packages of environments that a config uses."""
    return [
        value.partition("@")[0].rpartition("/")[2]
        for key, value in leaves
        if key.rpartition(".")[2] in _ENVIRONMENT_KEYS
    ]


def _python_of(programs: Path) -> str:
    if programs == Path(OWN_PYTHON).parent:
        return ".".join(map(str, sys.version_info[:3]))
    try:
        text = (programs.parent / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(r"^version(?:_info)?\s*=\s*(\S+)", text, re.MULTILINE)
    return match[1] if match is not None else ""


def _fingerprint_of(path: Path, name: str, kind: HubKind) -> DataPrint | None:
    """`None` for something that is neither a path nor a name of the hub."""
    try:
        if path.is_file():
            info = path.stat()
            digest = ""
            if info.st_size <= _HASHED_BYTES:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
            return DataPrint(size=info.st_size, mtime=info.st_mtime, sha256=digest)
        if path.is_dir():
            return _fingerprint_of_folder(path)
    except OSError:
        return DataPrint()
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return None
    return DataPrint(revision=hub_commit(name, kind, os.environ))


def _fingerprint_of_folder(folder: Path) -> DataPrint:
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
    beginning: bytes = b""
    """The beginning of the diff."""
    size: int = 0
    sha256: str = ""
    """Hash of the complete diff; empty if there are no changes."""


@dataclass(frozen=True, slots=True)
class _Repository:
    """The current state of a git repository. Without one all is empty."""

    root: Path
    commit: str = ""
    branch: str = ""
    changes: _Changes = _Changes()
    untracked: tuple[str, ...] = ()


async def _git_state(folder: Path, *, besides: Collection[Path] = ()) -> _Repository:
    """State of the repository around `folder`. Changes of the files `besides` do not count."""
    git = ("git", "-C", str(folder), "-c", "core.fsmonitor=false")
    output = await _output((*git, "rev-parse", "--show-toplevel", "HEAD"))
    root, _, commit = output.strip().partition("\n")
    if not commit:
        return _Repository(Path(root or folder))
    excluded = (path.resolve() for path in besides if path.resolve().is_relative_to(root))
    pathspecs = (":(top)", *(f":(top,exclude,literal){path.relative_to(root)}" for path in excluded))
    changes = await _changes(
        (*git, "diff", "--no-ext-diff", "--no-textconv", "--no-color"), ("HEAD", "--", *pathspecs)
    )
    untracked = await _output(
        (*git, "ls-files", "--others", "--exclude-standard", "--directory", "--full-name", "-z")
    )
    return _Repository(
        root=Path(root),
        commit=commit,
        branch=(await _output((*git, "symbolic-ref", "--short", "-q", "HEAD"))).strip(),
        changes=changes,
        untracked=tuple(filter(None, untracked.split("\0"))),
    )


async def _changes(diff: Sequence[str], of: Sequence[str]) -> _Changes:
    """The diff goes through a file, since it may be large: reading from a pipe is throttled."""
    with TemporaryDirectory(prefix="rltui-") as folder:
        path = Path(folder) / "patch"
        outcome = await subprocesses.run(
            (*diff, f"--output={path}", *of),
            timeout_s=_GIT_TIMEOUT_S,
            variables=_GIT_VARIABLES,
            leaves_nothing=True,
        )
        if outcome.code != 0:
            logger.warning(
                "the changes of the workspace are not known: git diff %s", outcome.failure or "takes long"
            )
            return _Changes()
        return await asyncio.to_thread(_read_changes, path)


def _read_changes(path: Path) -> _Changes:
    with path.open("rb") as file:
        beginning = file.read(_MOST_DIFF_BYTES)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest() if beginning else ""
        return _Changes(beginning, file.tell(), digest)


async def _output(command: Sequence[str]) -> str:
    """Empty if it fails, or there is no git."""
    try:
        outcome = await subprocesses.run(
            command, timeout_s=_GIT_TIMEOUT_S, variables=_GIT_VARIABLES, leaves_nothing=True
        )
    except RltuiError:
        return ""
    return outcome.output.decode(errors="replace") if outcome.code == 0 else ""
