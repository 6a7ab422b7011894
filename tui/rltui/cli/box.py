"""`doctor`: what this box has and lacks; no experiment needed."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from rltui import paths, settings
from rltui.core.units import GIB, gib
from rltui.errors import RltuiError

ADVISED_OPEN_FILES = 32000
"""What prime-rl's documentation advises for many concurrent rollouts."""
LITTLE_DISK_BYTES = 5 * GIB


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str
    ok: bool
    text: str
    essential: bool = True
    """rltui does not work without it."""


def doctor(arguments: argparse.Namespace) -> int:
    """Run every check; fails where something essential is missing."""
    findings = [check() for check in CHECKS]
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        for finding in findings:
            symbol = "✓" if finding.ok else "✗" if finding.essential else "–"
            print(f"{symbol} {finding.name:<12} {finding.text}")
    return 0 if all(finding.ok or not finding.essential for finding in findings) else 1


def _python() -> Finding:
    return Finding("python", sys.version_info >= (3, 11), sys.version.split()[0])


def _tmux() -> Finding:
    from rltui.services.tmux_host import TmuxHost

    try:
        TmuxHost(paths.tmux_socket()).check()
    except RltuiError as error:
        return Finding("tmux", False, str(error).replace("\n", " "))
    return Finding("tmux", True, f"{shutil.which('tmux')}, server -L {paths.tmux_socket()}")


def _sockets() -> Finding:
    try:
        return Finding("sockets", True, str(paths.runtime_dir()))
    except RltuiError as error:
        return Finding("sockets", False, str(error).replace("\n", " "))


def _gpu() -> Finding:
    from rltui.services.gpu_once import read_once

    report = read_once()
    names = ", ".join(device.name for device in report.devices)
    return Finding("gpu", report.available, names or report.reason or "none", essential=False)


def _engine() -> Finding:
    missing = [
        name for name in ("torch", "transformers", "uvicorn") if importlib.util.find_spec(name) is None
    ]
    text = "the embedded engine can run" if not missing else "`rltui demo` needs: pip install 'rltui[local]'"
    return Finding("demo", not missing, text, essential=False)


def _terminal() -> Finding:
    term, locale = os.environ.get("TERM", ""), sys.stdout.encoding or ""
    good = bool(term) and term != "dumb" and locale.lower().replace("-", "") == "utf8"
    advice = "" if good else "; the TUI wants a UTF-8 terminal (export LANG=C.UTF-8)"
    return Finding("terminal", good, f"TERM={term or 'not set'}, {locale}{advice}", essential=False)


def _open_files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    good = soft >= ADVISED_OPEN_FILES
    advice = "" if good else f"; many concurrent rollouts need more: ulimit -n {ADVISED_OPEN_FILES}"
    return Finding("open files", good, f"limit {soft}{advice}", essential=False)


def _disk() -> Finding:
    free = shutil.disk_usage(".").free
    return Finding("disk", free >= LITTLE_DISK_BYTES, f"{gib(free)} GiB free here", essential=False)


def _settings() -> Finding:
    path = settings.settings_file()
    try:
        alerts = settings.load(path).alerts
    except RltuiError as error:
        return Finding("settings", False, str(error).replace("\n", " "), essential=False)
    if alerts.command and shutil.which(os.path.expanduser(alerts.command[0])) is None:  # noqa: PTH111
        text = f"{path}: alerts.command: there is no program {alerts.command[0]!r}; give its full path"
        return Finding("settings", False, text, essential=False)
    return Finding("settings", True, str(path) if path.exists() else f"defaults; yours would be in {path}")


CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _tmux,
    _sockets,
    _terminal,
    _gpu,
    _engine,
    _open_files,
    _disk,
    _settings,
)
