"""Provenance of a run besides its config: code, versions, data, machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rltui.base.text import join_some, join_words, size_text

_SHOWN_COMMIT = 10
_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPrint:
    """Fingerprint of one file, folder or name of the hub."""

    size: int | None = None
    """Size in bytes, of a folder with everything in it. `None`: it is not on this machine."""
    mtime: float = 0.0
    """Time of the last change, of a folder the newest of its files."""
    sha256: str = ""
    """Hash of a small file's content, or of the names and sizes of a folder's files."""
    revision: str = ""
    """Downloaded commit of a name of the hub; empty: none yet."""

    def difference(self, other: DataPrint) -> str:
        """The difference from `other`, an earlier state, in words; empty if there is none, as far as
        known.
        """
        if self.revision and other.revision and self.revision != other.revision:
            return f"is at revision {_short(self.revision)}, was at {_short(other.revision)}"
        if (self.size is None) != (other.size is None):
            return "no longer exists" if self.size is None else "did not exist then"
        if self.size != other.size:
            return f"has {size_text(self.size or 0)}, had {size_text(other.size or 0)}"
        if self.sha256 and other.sha256:
            return "" if self.sha256 == other.sha256 else "changed, with the same size"
        return "" if self.mtime == other.mtime else "has been modified since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """State of the surroundings when the jobs of a run started."""

    at: float
    commit: str = ""
    """Commit of the workspace; empty: it is in no git repository, or one without a commit."""
    branch: str = ""
    """Empty: none, as after `git checkout COMMIT`."""
    is_dirty: bool = False
    """Files that git tracks, besides the config files, had changes without a commit."""
    diff: str = ""
    """sha256 of those changes as `git diff HEAD` prints them, and name of the file that holds them."""
    diff_bytes: int = 0
    """The stored file has no more than the first MiB of them."""
    untracked: tuple[str, ...] = ()
    """Files and folders that git neither tracks nor ignores: names, sorted, the first hundred."""
    checkout: str = ""
    """Folder of the framework's own checkout."""
    checkout_commit: str = ""
    """Its commit, if that is not the workspace's repository."""
    checkout_is_dirty: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package → version in the environment of the programs: `prime-rl`, `vllm`, …; `python` and `driver`."""
    host: str = ""
    gpus: tuple[str, ...] = ()
    """Labels of its devices: `0`."""
    gpu_names: tuple[str, ...] = ()
    """Model of each of `gpus`: `NVIDIA H200`."""
    data: Mapping[str, DataPrint] = field(default_factory=dict)
    """Name in the config → fingerprint: paths of files and folders, datasets and models of the hub."""

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Provenance:
        """Read a document that `orjson` made of one. Keys of newer versions are dropped.

        Raises:
            TypeError, ValueError, AttributeError: if it is none.
        """
        values = {key: value for key, value in data.items() if key in _FIELDS}
        for key in ("untracked", "gpus", "gpu_names"):
            values[key] = tuple(map(str, values.get(key, ())))
        values["data"] = {
            name: DataPrint(**fingerprint) for name, fingerprint in values.get("data", {}).items()
        }
        return cls(**values)


_FIELDS = frozenset(field_.name for field_ in fields(Provenance))


def differences(current: Provenance, earlier: Provenance) -> tuple[str, ...]:
    """The changes, each in a sentence without a full stop, code first; empty if there are none."""
    return (*_code(current, earlier), *_surroundings(current, earlier))


def _code(current: Provenance, earlier: Provenance) -> Iterator[str]:
    if current.commit != earlier.commit:
        branch = f" ({current.branch})" if current.branch and current.branch != earlier.branch else ""
        old_commit = _short(earlier.commit) or "none"
        yield f"the workspace is at commit {_short(current.commit) or 'none'}{branch}, was at {old_commit}"
    if earlier.is_dirty and not current.is_dirty:
        yield f"the workspace no longer has the run's uncommitted changes ({_patch_note(earlier)})"
    elif current.is_dirty and not earlier.is_dirty:
        yield "the workspace has uncommitted changes, had none"
    elif current.diff != earlier.diff:
        yield f"the workspace has different uncommitted changes ({_patch_note(earlier)})"
    added = [name for name in current.untracked if name not in earlier.untracked]
    removed = [name for name in earlier.untracked if name not in current.untracked]
    if removed:
        yield f"missing untracked files: {join_some(removed, _SHOWN_NAMES)}"
    if added:
        yield f"new untracked files: {join_some(added, _SHOWN_NAMES)}"
    if current.checkout_commit != earlier.checkout_commit:
        yield (
            f"the framework's checkout is at commit {_short(current.checkout_commit) or 'none'},"
            f" was at {_short(earlier.checkout_commit) or 'none'}"
        )
    if current.checkout_is_dirty != earlier.checkout_is_dirty:
        verb = "has" if current.checkout_is_dirty else "had"
        yield f"the framework's checkout {verb} uncommitted changes"


def _patch_note(earlier: Provenance) -> str:
    return f"saved in .rltui/diffs/{earlier.diff[:_SHOWN_COMMIT]}….patch"


def _surroundings(current: Provenance, earlier: Provenance) -> Iterator[str]:
    """Yield the differences of packages, data and machine."""
    for name in sorted({*current.versions, *earlier.versions}):
        old, new = earlier.versions.get(name), current.versions.get(name)
        if old != new:
            yield f"{name} is {new or 'not installed'}, was {old or 'not installed'}"
    for name, old_data in earlier.data.items():
        if name in current.data and (difference := current.data[name].difference(old_data)):
            yield f"{name} {difference}"
    if current.host != earlier.host:
        yield f"the machine is {current.host or 'unknown'}, was {earlier.host or 'unknown'}"
    if sorted(current.gpu_names) != sorted(earlier.gpu_names):
        yield f"the GPUs are {_model_counts(current.gpu_names)}, were {_model_counts(earlier.gpu_names)}"


def _model_counts(names: tuple[str, ...]) -> str:
    """Format names with their counts: `2 × NVIDIA H200`."""
    return join_words([f"{names.count(name)} × {name}" for name in sorted(set(names))]) or "none"


def _short(commit: str) -> str:
    return commit[:_SHOWN_COMMIT]
