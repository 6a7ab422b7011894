"""What a run was started with besides its config: code, versions, data, machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rltui.core.text import listed, size_text

_SHOWN_COMMIT = 10
_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPrint:
    """How one file, folder or name of the hub was told from others like it."""

    size: int | None = None
    """In bytes, of a folder with all that lies in it. `None`: it is not on this machine."""
    mtime: float = 0.0
    """Of a folder the newest of its files."""
    sha256: str = ""
    """Of a small file its content, of a folder the names and sizes of its files."""
    revision: str = ""
    """Of a name of the hub: the commit that was downloaded; empty: none yet."""

    def difference(self, other: DataPrint) -> str:
        """How it differs from what `other` was, in words; empty where it does not, as far as can be told."""
        if self.revision and other.revision and self.revision != other.revision:
            return f"is at revision {_short(self.revision)}, was at {_short(other.revision)}"
        if (self.size is None) != (other.size is None):
            return "is not there any more" if self.size is None else "was not there then"
        if self.size != other.size:
            return f"has {size_text(self.size or 0)}, had {size_text(other.size or 0)}"
        if self.sha256 and other.sha256:
            return "" if self.sha256 == other.sha256 else "has another content of the same size"
        return "" if self.mtime == other.mtime else "was written since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What was found when the jobs of a run started."""

    at: float
    commit: str = ""
    """Of the workspace; empty: it is in no git repository, or one without a commit."""
    branch: str = ""
    """Empty: none, as after `git checkout COMMIT`."""
    is_dirty: bool = False
    """Files that git follows, besides the config files, had changes without a commit."""
    diff: str = ""
    """sha256 of those changes as `git diff HEAD` prints them, and name of the file that keeps them."""
    diff_bytes: int = 0
    """The kept file has no more than the first MiB of them."""
    untracked: tuple[str, ...] = ()
    """Files and folders that git neither follows nor ignores: names, sorted, the first hundred."""
    checkout_commit: str = ""
    """Of the framework's own checkout, where that is not the workspace's repository."""
    checkout_is_dirty: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    """By package as it is installed where the programs run: `prime-rl`, `vllm`, …; `python` and `driver`."""
    host: str = ""
    gpus: tuple[str, ...] = ()
    """Its devices, as people name them: `0`."""
    gpu_names: tuple[str, ...] = ()
    """Beside `gpus`: `NVIDIA H200`."""
    data: Mapping[str, DataPrint] = field(default_factory=dict)
    """By what the config names: paths of files and folders, datasets and models of the hub."""

    @classmethod
    def parsed(cls, data: Mapping[str, Any]) -> Provenance:
        """Of a document that `orjson` made of one. Keys of newer versions are passed over.

        Raises:
            TypeError, ValueError, AttributeError: if it is none.
        """
        known = {key: value for key, value in data.items() if key in _FIELDS}
        for key in ("untracked", "gpus", "gpu_names"):
            known[key] = tuple(map(str, known.get(key, ())))
        known["data"] = {name: DataPrint(**each) for name, each in known.get("data", {}).items()}
        return cls(**known)


_FIELDS = frozenset(each.name for each in fields(Provenance))


def differences(now: Provenance, then: Provenance) -> tuple[str, ...]:
    """What is another now, each in a sentence without a full stop, code first; none where nothing is."""
    return (
        *_code(now, then),
        *_versions(now.versions, then.versions),
        *_data(now.data, then.data),
        *_machine(now, then),
    )


def _code(now: Provenance, then: Provenance) -> Iterator[str]:
    if now.commit != then.commit:
        branch = f" ({now.branch})" if now.branch and now.branch != then.branch else ""
        before = _short(then.commit) or "none"
        yield f"the workspace is at commit {_short(now.commit) or 'none'}{branch}, was at {before}"
    if then.is_dirty and not now.is_dirty:
        yield f"the changes without a commit that it ran with are gone ({_kept(then)})"
    elif now.is_dirty and not then.is_dirty:
        yield "the workspace has changes without a commit, and had none"
    elif now.diff != then.diff:
        yield f"the workspace has other changes without a commit than it ran with ({_kept(then)})"
    new = [name for name in now.untracked if name not in then.untracked]
    gone = [name for name in then.untracked if name not in now.untracked]
    if gone:
        yield f"files that git does not know are gone: {_names(gone)}"
    if new:
        yield f"there are files that git does not know: {_names(new)}"
    if now.checkout_commit != then.checkout_commit:
        yield (
            f"the framework's checkout is at commit {_short(now.checkout_commit) or 'none'},"
            f" was at {_short(then.checkout_commit) or 'none'}"
        )
    if now.checkout_is_dirty != then.checkout_is_dirty:
        word = "has" if now.checkout_is_dirty else "had"
        yield f"the framework's checkout {word} changes without a commit"


def _kept(then: Provenance) -> str:
    return f"kept: .rltui/diffs/{then.diff[:_SHOWN_COMMIT]}….patch"


def _versions(now: Mapping[str, str], then: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*now, *then}):
        if now.get(name) == then.get(name):
            continue
        if name not in now:
            yield f"{name} is not installed, was {then[name]}"
        elif name not in then:
            yield f"{name} is {now[name]}, was not installed"
        else:
            yield f"{name} is {now[name]}, was {then[name]}"


def _data(now: Mapping[str, DataPrint], then: Mapping[str, DataPrint]) -> Iterator[str]:
    for name, before in then.items():
        if name in now and (words := now[name].difference(before)):
            yield f"{name} {words}"


def _machine(now: Provenance, then: Provenance) -> Iterator[str]:
    if now.host != then.host:
        yield f"the machine is {now.host or 'unknown'}, was {then.host or 'unknown'}"
    if sorted(now.gpu_names) != sorted(then.gpu_names):
        yield f"the GPUs are {_counted(now.gpu_names)}, were {_counted(then.gpu_names)}"


def _counted(names: tuple[str, ...]) -> str:
    """`2 × NVIDIA H200`."""
    return listed([f"{names.count(name)} × {name}" for name in sorted(set(names))]) or "none"


def _names(names: list[str]) -> str:
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _short(commit: str) -> str:
    return commit[:_SHOWN_COMMIT]
