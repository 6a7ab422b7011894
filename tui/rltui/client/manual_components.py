"""Requests that start a manual component, from what a person asks for."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from rltui.base.secrets import is_secret
from rltui.base.text import unknown_name
from rltui.core.experiment.api import Publication, Request
from rltui.errors import UsageError
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import ManualArguments
from rltui.services.runs import weights

SHELL, PUBLISH = "shell", "publish"
_LONGEST_REPO = 96
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_REPO = re.compile(rf"{_NAME}/{_NAME}")
"""Names that the hub accepts (`facts/hf.md`), but for `--`, `..` and `.git` at the end."""
_MARKERS = ("STABLE",)
"""Files that frameworks leave in a folder of weights for their own use."""


def shell_request(record: ExperimentRecord, *, like: str | None, command: Sequence[str] = ()) -> Request:
    """Request for a terminal in the environment of the component `like`, by default of the training one.

    Raises:
        UsageError: if there is no such component.
    """
    layout = layout_files.load_for(record)
    component_ids = [spec.id for spec in layout.automatic]
    if like is not None and like not in component_ids:
        raise unknown_name("component", like, component_ids)
    # whoever tries something wants the run's own machine: the first job with devices is the default
    jobs = [spec for spec in layout.automatic if spec.kind == "job" and not spec.creates]
    default = next((spec.id for spec in jobs if spec.gpus), component_ids[0])
    arguments: ManualArguments = {
        "like": like or default,
        "command": tuple(command) or (login_shell(),),
    }
    return Request(action="start", components=(SHELL,), given=arguments)


def login_shell() -> str:
    return os.environ.get("SHELL") or shutil.which("bash") or "sh"


def publication(
    record: ExperimentRecord,
    what: int | Path,
    repo: str,
    *,
    private: bool = False,
    revision: str | None = None,
    message: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Publication:
    """Plan an upload of `what`: the step of a checkpoint, or a folder of weights.

    Raises:
        UsageError: if `repo` is no name for a repository, or nothing would be uploaded.
        ConfigError: if there are no such weights, or they are not complete.
    """
    if not _REPO.fullmatch(repo) or len(repo) > _LONGEST_REPO or re.search(r"--|\.\.|\.git$", repo):
        raise UsageError(
            f"not a repository on the hub: {repo}",
            hint="use USER/NAME, with letters, digits, -, _ and ., such as alice/Qwen3-0.6B-Reverse-Text-RL",
        )
    if isinstance(what, Path):
        folder = weights.complete_folder(what, adapters=True)
    else:
        folder = weights.folder_of_step(record, what, adapters=True)
    exclusions = (*_MARKERS, *exclude)
    files = [path for path in _files(folder) if _is_selected(path, include, exclusions)]
    if not files:
        raise UsageError(f"nothing to upload in {folder}", hint="check --include and --exclude")
    patterns = (("--include", include), ("--exclude", exclusions))
    named_options = (
        ("--revision", revision),
        ("--commit-message", message or f"{record.name}: {folder.name.replace('step_', 'step ')}"),
    )
    options = [f"{option}={pattern}" for option, option_patterns in patterns for pattern in option_patterns]
    options += [f"{option}={value}" for option, value in named_options if value is not None]
    return Publication(
        repo=repo,
        folder=str(folder),
        files=tuple(files),
        size_bytes=sum((folder / path).stat().st_size for path in files),
        private=private,
        options=tuple(options),
    )


def tokens() -> dict[str, dict[str, str]]:
    """Parameters of `tokens`: this process's variables that hold one. They may be newer than those of the
    shell that the experiment was started from, and are kept in memory alone.
    """
    return {"values": {name: value for name, value in os.environ.items() if is_secret(name)}}


def publish_request(published: Publication) -> Request:
    options = (*published.options, *(["--private"] if published.private else []))
    arguments: ManualArguments = {"repo": published.repo, "folder": published.folder, "options": options}
    return Request(action="start", components=(PUBLISH,), given=arguments)


def _files(folder: Path) -> list[str]:
    """All files below it, without those of `hf` itself."""
    below = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in below if path.parts[0] not in (".cache", ".git")]


def _is_selected(path: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Patterns match as those of `hf`: `*` crosses folders."""
    is_included = not include or any(fnmatch(path, pattern) for pattern in include)
    return is_included and not any(fnmatch(path, pattern) for pattern in exclude)
