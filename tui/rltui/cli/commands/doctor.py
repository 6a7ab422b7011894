"""`doctor`: what this box has and lacks, and what the nodes of a layout do; no experiment needed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rltui import paths
from rltui.base.text import GIB, gib, join_words
from rltui.cli.arguments import JSON, layout_option
from rltui.cli.choosing import choose
from rltui.cli.colour import role_of, style
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.output import print_json
from rltui.cli.parser import is_file_name
from rltui.cli.progress import working
from rltui.cli.table import room, wrap
from rltui.core import hints
from rltui.errors import RltuiError, UsageError
from rltui.frameworks.packages import MOST_USED
from rltui.services.own_files import FileLock, make_folder, write_atomically
from rltui.services.processes.identity import require_proc
from rltui.services.processes.logind import at_logout

if TYPE_CHECKING:
    from rltui.client.nodes import NodeFinding
    from rltui.frameworks.base import Checkout, Framework

_ADVISED_OPEN_FILES = 32000
"""Limit that prime-rl's documentation advises for many concurrent rollouts."""
_LITTLE_DISK_BYTES = 5 * GIB
_ANSWER_S = 5.0
_NEEDS_OF_RUNS = {"gpu": "no GPU", MOST_USED: "no checkout"}
"""Name of a check → what runs of that framework lack if it fails."""
_NAME_WIDTH = 15
"""Cells of a check's sign and name."""


@dataclass(frozen=True, slots=True)
class _Finding:
    name: str
    ok: bool
    text: str
    essential: bool
    """True if rltui does not work without it."""


_Answer = tuple[bool, str]
"""Whether it is fine, and what to say of it. An `RltuiError` in its place: it is not."""


@command(
    "doctor",
    argument(
        "config", "CONFIG|RUN", "with --nodes: a run, or its config files", nargs="*", completes="openable"
    ),
    flag(
        "--nodes",
        "check the nodes of a layout: connection, shared folder, clocks, ports, GPUs, versions",
    ),
    layout_option("layout name or file"),
    JSON,
    examples=(
        "doctor",
        "doctor --json",
        "doctor --nodes train.toml -l mine",
    ),
)
def doctor(arguments: Arguments) -> int:
    """Run every check, of this box or of a layout's nodes; fails where something essential is missing."""
    if arguments.nodes:
        return _of_nodes(arguments)
    if arguments.config or arguments.layout:
        raise UsageError("a config, layout or run is only for --nodes", hint="add --nodes, or leave it out")
    findings = [_finding(*check) for check in _checks()]
    if arguments.json:
        print_json(_Report(_is_ready(findings), _verdict(findings), _next(findings), findings))
    else:
        _print_wrapped(style(_verdict(findings), "good" if _is_ready(findings) else "bad"))
        _show(findings)
        fix = "" if _is_ready(findings) else "fix the lines with ✗, then "
        _print_wrapped(f"Next: {fix}{_next(findings)}")
    return 0 if _is_ready(findings) else 1


@dataclass(frozen=True, slots=True)
class _Report:
    """The document that `rltui doctor --json` prints."""

    ready: bool
    verdict: str
    next: str
    """The command to type next."""
    checks: Sequence[_Finding]


def _is_ready(findings: Iterable[_Finding | NodeFinding]) -> bool:
    return all(finding.ok or not finding.essential for finding in findings)


def _verdict(findings: Sequence[_Finding]) -> str:
    if not _is_ready(findings):
        names = [finding.name for finding in findings if finding.essential and not finding.ok]
        return f"not ready: {join_words(names)}"
    missing = {finding.name for finding in findings if not finding.ok}
    demo = "not ready for the demo" if "demo" in missing else "ready for the demo"
    if reasons := [text for name, text in _NEEDS_OF_RUNS.items() if name in missing]:
        return f"{demo}; not ready for {MOST_USED}: {join_words(reasons)}"
    return f"{demo}; ready for {MOST_USED}"


def _next(findings: Sequence[_Finding]) -> str:
    missing = {finding.name for finding in findings if not finding.ok}
    if not _is_ready(findings):
        return str(hints.DOCTOR)
    if missing.isdisjoint(_NEEDS_OF_RUNS):
        return hints.CHECK_WITH(config="rl.toml") if Path("rl.toml").exists() else str(hints.CHECK)
    return str(hints.DEMO) if "demo" not in missing else "pip install 'rltui[local]'"


def _finding(name: str, is_essential: bool, check: Callable[[], _Answer]) -> _Finding:
    try:
        ok, text = check()
    except RltuiError as error:
        ok, text = False, str(error).replace("\n", " ")
    return _Finding(name, ok, text, is_essential)


def _of_nodes(arguments: Arguments) -> int:
    from rltui.client.draft import ConfiguredRequest, plan_record
    from rltui.client.nodes import check_nodes
    from rltui.core.experiment.request import ConfigLine, ExperimentRequest

    words: list[str] = arguments.config
    if arguments.layout or any(map(is_file_name, words)):
        files = tuple(map(Path, words))
        request = ExperimentRequest(ConfigLine(files), layout=arguments.layout, earlier_run="resume")
        record, _ = plan_record(ConfiguredRequest.plain(request))
    else:
        record = choose(Arguments(**vars(arguments), run=words[0] if words else None), acts=True).record
    with working("checking the nodes"):
        findings = check_nodes(record)
    is_ready = _is_ready(findings)
    if arguments.json:
        print_json(findings)
        return 0 if is_ready else 1
    bad_nodes = {finding.node: None for finding in findings if finding.essential and not finding.ok}
    names = join_words([node or "the nodes compared" for node in bad_nodes])
    verdict = "the nodes are ready" if is_ready else f"not ready: {names}"
    _print_wrapped(style(verdict, "good" if is_ready else "bad"))
    for node, node_findings in groupby(findings, key=lambda finding: finding.node):
        print(node or "compared with each other")
        _show(node_findings)
    return 0 if is_ready else 1


def _print_wrapped(text: str) -> None:
    print("\n".join(wrap(text, room())))


def _show(findings: Iterable[_Finding | NodeFinding]) -> None:
    width = room()
    for finding in findings:
        symbol = "✓" if finding.ok else "✗" if finding.essential else "–"
        lines = wrap(f"{'':{_NAME_WIDTH}}{finding.text}", width)
        name = f"{style(symbol, role_of(symbol))} {finding.name:<{_NAME_WIDTH - 2}}"
        print("\n".join([f"{name}{lines[0].lstrip()}", *lines[1:]]))


def _python() -> _Answer:
    return sys.version_info >= (3, 11), sys.version.split()[0]


def _tmux() -> _Answer:
    from rltui.services.tmux import TmuxHost

    host = TmuxHost(paths.tmux_socket())
    host.check()
    host.list_sessions()  # where its socket would be is a folder that can be used
    return True, f"{shutil.which('tmux')}, server -L {paths.tmux_socket()}"


def _state() -> _Answer:
    """Tried: a disk may be full or read-only, a file system may know no locks."""
    require_proc()
    folder = paths.state_dir()
    make_folder(folder, mode=0o700)
    trial = folder / f".doctor.{os.getpid()}"
    try:
        write_atomically(trial, bytes(4096))
        FileLock(trial).acquire()
    finally:
        trial.unlink(missing_ok=True)
    return True, f"{folder} is writable and lockable"


def _sockets() -> _Answer:
    runtime_dir = paths.runtime_dir()
    try:
        trial = runtime_dir / f"doctor-{os.getpid()}.sock"
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(trial))
        trial.unlink()
    except OSError as error:
        text = f"cannot create a socket in {runtime_dir}: {error.strerror}; export XDG_RUNTIME_DIR=FOLDER"
        return False, text
    instead = "".join(f"; {reason}" for reason in paths.unusable_runtime_dirs())
    unset = "" if os.environ.get("XDG_RUNTIME_DIR") else "; XDG_RUNTIME_DIR is not set"
    return True, f"{runtime_dir}{instead or unset}"


def _gpu() -> _Answer:
    from rltui.services.gpu.account import read_once
    from rltui.services.gpu.cuda import BY_BUS, DEVICE_ORDER

    report = read_once()
    names = [device.name for device in report.devices]
    text = ", ".join(names) or report.reason or "none"
    if len(set(names)) > 1 and (order := os.environ.get(DEVICE_ORDER, BY_BUS)) != BY_BUS:
        text += (
            f"; {DEVICE_ORDER} is {order}, but components get {BY_BUS}: GPU numbers are those of nvidia-smi"
        )
    return report.available, text


def _engine() -> _Answer:
    from rltui.frameworks import registry

    packages = registry.get("tinyrl").own_packages
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    text = f"{join_words(missing)} not installed: pip install 'rltui[local]'" if missing else "installed"
    return not missing, text


def _uv() -> _Answer:
    path = shutil.which("uv")
    text = path or f"not found; {MOST_USED} needs it: https://docs.astral.sh/uv"
    return path is not None, text


def _checkout(framework: Framework) -> _Answer:
    from rltui.services.experiment import checkout

    spec = framework.checkout
    assert spec is not None
    folder = checkout.NearbyCheckout(spec, workspace=Path.cwd()).folder
    if folder is None:
        lack = f"no {'checkout' if spec.generations else f'{spec.project} project'} in this folder or above"
        return False, f"{lack}; to use another: export {spec.variable}=FOLDER"
    return _tree(folder, framework) if spec.generations else _packages(folder, spec)


def _tree(folder: Path, framework: Framework) -> _Answer:
    """Describe a checkout that has the framework's own sources."""
    from rltui.frameworks import registry
    from rltui.services.config.models import FrameworkModels
    from rltui.services.experiment import checkout

    assert framework.checkout is not None
    generation = checkout.generation_of(folder, framework.checkout)
    framework = framework if generation is None else registry.get(generation)
    title = "unknown generation" if generation is None else framework.title
    segments = [str(folder), title, _commit(folder) or "no git history: unknown date"]
    with contextlib.closing(FrameworkModels(framework, Path.cwd())) as models:
        versions = models.versions(())
    if versions:
        segments.append(", ".join(f"{name} {version}" for name, version in versions.items()))
    segments.append(f"its validators cannot run: {models.reason}" if models.reason else "its validators run")
    return generation is not None, " · ".join(segments)


def _packages(folder: Path, spec: Checkout) -> _Answer:
    """Describe a project that the framework is installed into."""
    from rltui.services.experiment import checkout

    packages = checkout.installed_packages(folder)
    if reason := spec.lacking(packages) if spec.lacking is not None else "":
        return False, f"{folder} · {reason}; {spec.instead}"
    version = next((f"{name} {packages[name]}" for name in spec.dependents[::-1] if name in packages), "")
    return bool(version), f"{folder} · {version or 'not installed yet: uv sync'}"


def _commit(folder: Path) -> str:
    """Describe the commit that is checked out. Git is not run where nobody trusts the folder: its config can
    name programs.
    """
    from rltui.services.config.models.state import commit_of
    from rltui.services.experiment import trust

    if trust.is_trusted(folder):
        return _first_line(["git", "-C", str(folder), "log", "-1", "--format=commit %h of %cs"])
    commit = commit_of(folder)
    return f"commit {commit[:9]}" if commit else ""


def _slurm() -> _Answer:
    from rltui.services.hosts.slurm import is_absent, partitions

    if is_absent():
        text = "no sbatch here; submit jobs (--slurm) from a login node"
        return False, text
    try:
        listed_partitions = partitions(timeout_s=4 * _ANSWER_S)
    except RltuiError as error:
        text = f"does not answer: {str(error).replace(chr(10), ' ')}"
        return False, text
    segments = [
        f"{partition.name}{' (default)' if partition.is_default else ''}"
        f"{'' if partition.is_up else ' (down)'}: {partition.nodes} nodes, up to {partition.time_limit}"
        + (f", {partition.gres}" if partition.gres else ", no GPUs listed")
        for partition in listed_partitions
    ]
    segments.append("only a running job shows whether the nodes see this folder")
    segments.append("tested with SLURM 22.05 on two CPU nodes, never on a cluster with GPUs")
    return bool(listed_partitions), " · ".join(segments)


def _kubernetes() -> _Answer:
    from rltui.services.processes import subprocesses

    if shutil.which("kubectl") is None:
        return False, "no kubectl here"
    context = _first_line(["kubectl", "config", "current-context"])
    if not context:
        return False, "kubectl has no current context"
    segments = [f"context {context}"]
    if shutil.which("helm") is None:
        segments.append("no helm: can open releases, not install them")
    else:
        segments.append(f"helm {_first_line(['helm', 'version', '--short'])}".strip())
    try:
        subprocesses.check_output(
            ["kubectl", "auth", "can-i", "list", "pods", "--quiet"], timeout_s=_ANSWER_S
        )
        is_allowed = True
        segments.append("pods can be listed")
    except RltuiError as error:
        is_allowed = False
        segments.append(f"pods cannot be listed: {error.title}")
    segments.append("tested with kubectl 1.32 and a simulated cluster, never with a real one")
    return is_allowed, " · ".join(segments)


def _terminal() -> _Answer:
    term, encoding = os.environ.get("TERM", ""), sys.stdout.encoding
    if term in ("", "dumb"):
        advice = f"the TUI cannot run here; instead: {hints.UP}, {hints.STATUS}"
    elif encoding.lower().replace("-", "") != "utf8":
        advice = "the TUI needs UTF-8: export LANG=C.UTF-8"
    elif "TMUX" in os.environ and _first_line(["tmux", "display-message", "-p", "#{client_utf8}"]) == "0":
        advice = (
            "this tmux shows symbols as _: detach, then export LANG=C.UTF-8 and attach, or tmux -u attach"
        )
    else:
        return True, f"TERM={term}, {encoding}"
    return False, f"TERM={term or 'not set'}, {encoding}; {advice}"


def _logout() -> _Answer:
    logout = at_logout()
    if logout is None:
        return True, "no systemd here: processes continue after logout"
    if logout.kills_processes:
        text = (
            "KillUserProcesses=yes: systemd ends your processes when you log out. "
            f"Once: loginctl enable-linger; then start with: systemd-run --user --scope {hints.UP}"
        )
        return False, text
    if logout.removes_ipc:
        text = (
            "RemoveIPC=yes: when your last session ends, systemd removes shared memory, which NCCL and data "
            "loaders use, and the socket folder. Once: loginctl enable-linger"
        )
        return False, text
    return True, "processes and shared memory survive logout"


def _first_line(command: Sequence[str]) -> str:
    """The first line of what a program of the box says; empty where it fails."""
    from rltui.services.processes import subprocesses

    try:
        output = subprocesses.check_output(command, timeout_s=_ANSWER_S)
    except RltuiError:
        return ""
    return output.decode(errors="replace").strip().partition("\n")[0]


def _open_files() -> _Answer:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    good = soft >= _ADVISED_OPEN_FILES
    advice = "" if good else f"; many concurrent rollouts need more: ulimit -n {_ADVISED_OPEN_FILES}"
    return good, f"limit {soft}{advice}"


def _disk() -> _Answer:
    free = shutil.disk_usage(".").free
    return free >= _LITTLE_DISK_BYTES, f"{gib(free)} GiB free here"


def _settings() -> _Answer:
    from rltui import settings
    from rltui.ui import keymap  # brings Textual

    path = paths.settings_file()
    alerts = settings.load(path).alerts
    keymap.load(path)
    if alerts.command and shutil.which(os.path.expanduser(alerts.command[0])) is None:  # noqa: PTH111
        text = f"{path}: alerts.command: program not found: {alerts.command[0]}; give its full path"
        return False, text
    return True, str(path) if path.exists() else f"defaults; your own go into {path}"


_Check = tuple[str, bool, Callable[[], _Answer]]
"""Name, whether rltui does not work without it, and what is checked."""


def _checks() -> tuple[_Check, ...]:
    """In the order in which they are told."""
    from rltui.frameworks import registry

    return (
        ("python", True, _python),
        ("tmux", True, _tmux),
        ("state", True, _state),
        ("sockets", True, _sockets),
        ("terminal", False, _terminal),
        ("logout", False, _logout),
        ("gpu", False, _gpu),
        ("demo", False, _engine),
        ("uv", False, _uv),
        *((found.config.program, False, partial(_checkout, found)) for found in registry.with_checkout()),
        ("slurm", False, _slurm),
        ("kubernetes", False, _kubernetes),
        ("open files", False, _open_files),
        ("disk", False, _disk),
        ("settings", False, _settings),
    )
