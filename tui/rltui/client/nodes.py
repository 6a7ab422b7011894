"""Checks the nodes of a layout: each of them answers for itself, and the answers are compared."""

from __future__ import annotations

import json
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import Any

from rltui.base.text import join_words
from rltui.core.experiment.layout import Layout
from rltui.core.hosts.specs import NodeSpec
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.frameworks import packages
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import Launcher
from rltui.services.hosts.nodes import facts_command
from rltui.services.processes import subprocesses
from rltui.services.runs.observed import setup_of

_ANSWER_S = 90.0
_CLOCK_S = 1.0
"""Beyond what an answer took, clocks may differ by so much: rendezvous and logs want them together."""
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
_OF_ONE = ("_IFNAME", "_IP")
"""Suffixes of variables that may well differ between nodes."""


@dataclass(frozen=True, slots=True)
class NodeFinding:
    node: str
    """Name of the node; empty where it is about all nodes."""
    name: str
    ok: bool
    text: str
    essential: bool = True
    """True if the layout does not work without it."""


@dataclass(frozen=True, slots=True)
class _Requirements:
    experiment: str
    env: Mapping[str, str]
    cwd: str
    ports: tuple[int, ...]
    programs: tuple[str, ...]
    """Programs that the commands of its components begin with."""
    variables: tuple[str, ...]
    """Must be set, by whomever."""


def check_nodes(record: ExperimentRecord) -> list[NodeFinding]:
    """Check the nodes of the layout of a run, which need not exist yet.

    A file is written into its output folder, or the nearest above it that exists, and removed.

    Raises:
        UsageError: if the layout has no nodes.
    """
    layout = layout_files.load_for(record)
    if not layout.node:
        raise UsageError(f"the layout {record.layout_file} has no [[node]]", hint="see layouts/README.md")
    _, framework, files = setup_of(record)
    folder = next(
        path for path in (Path(record.output_dir), *Path(record.output_dir).parents) if path.is_dir()
    )
    token = secrets.token_hex(8)
    probe = folder / f".rltui-shared-{token}"
    probe.write_text(token, encoding="utf-8")
    try:
        with ThreadPoolExecutor(len(layout.node)) as threads:
            requirements = [_requirements(node, record, layout, framework, files) for node in layout.node]
            replies = threads.map(_reply_of, layout.node, requirements, [probe] * len(requirements))
            node_replies = list(zip(layout.node, replies, strict=True))
        findings = [
            finding
            for (node, reply), needs in zip(node_replies, requirements, strict=True)
            for finding in _findings(node, reply, needs, probe, token)
        ]
    finally:
        for path in (probe, *(_reply(probe, node) for node in layout.node)):
            with suppress(FileNotFoundError):
                path.unlink()
    answers = {node.name: reply for node, reply in node_replies if not isinstance(reply, str)}
    return [*findings, *_differences(answers)]


def _requirements(
    node: NodeSpec, record: ExperimentRecord, layout: Layout, framework: Framework, files: ConfigFiles
) -> _Requirements:
    context = Launcher(record, layout, framework).context(files)
    env = {name: environ[name] for name in node.send_env if name in environ}
    ports: list[int] = []
    programs: list[str] = []
    for spec in layout.component:
        if spec.node == node.name and not spec.is_manual:
            host = context.host(spec.id)
            env |= {**(host["env"] if host else {}), **context.environment(spec.id)}
            ports += filter(None, (context.port(spec.id), *context.ports(spec.id)))
            with suppress(ConfigError):  # something of this machine is missing: a start says what
                programs += context.render_list(spec.id, spec.command[:1])[:1]
    servers = framework.servers.addresses(files)
    keys = [server.key_variable for server in servers if server.key_variable]
    variables = (*node.send_env, *keys) if ports or env else node.send_env
    return _Requirements(
        record.name,
        {**node.env, **env},
        node.cwd or record.workspace,
        tuple(sorted({*ports})),
        tuple(dict.fromkeys(programs)),
        tuple(dict.fromkeys(variables)),
    )


def _reply(probe: Path, node: NodeSpec) -> Path:
    return probe.with_name(f"{probe.name}-{node.name}")


def _reply_of(node: NodeSpec, requirements: _Requirements, probe: Path) -> dict[str, Any] | str:
    """The node's answer, with `took` in seconds and its clock's difference `off`; or the reason why there is
    none.
    """
    request = {
        "env": dict(requirements.env),
        "cwd": requirements.cwd,
        "shared": str(probe),
        "written": str(_reply(probe, node)),
        "ports": list(requirements.ports),
        "programs": list(requirements.programs),
        "variables": list(requirements.variables),
        "packages": list(packages.ON_NODES),
        "prefixes": list(packages.VARIABLES),
    }
    command, stdin = facts_command(node.reach, request, python=node.python, login=node.login)
    began = time.time()
    try:
        output = subprocesses.check_output(command, timeout_s=_ANSWER_S, stdin=stdin)
    except RltuiError as error:
        return str(error)
    line = output.decode(errors="replace").strip().rpartition("\n")[2]
    try:
        reply: dict[str, Any] = json.loads(line)
    except ValueError:
        return f"unexpected answer: {line[:200]!r}"
    took = time.time() - began
    return {**reply, "took": took, "off": max(0.0, began - reply["time"], reply["time"] - began - took)}


def _findings(
    node: NodeSpec, reply: dict[str, Any] | str, requirements: _Requirements, probe: Path, token: str
) -> Iterator[NodeFinding]:
    name = node.name
    if isinstance(reply, str):
        yield NodeFinding(name, "reached", False, f"{shlex.join(node.reach)}: {reply}")
        return
    yield NodeFinding(name, "reached", True, f"in {reply['took']:.1f} s · {reply['host']}")
    oldest = tuple(map(int, reply["python"].split(".")[:2])) >= (3, 9)
    yield NodeFinding(
        name, "python", oldest, reply["python"] + ("" if oldest else "; 3.9 or newer is needed")
    )
    where = requirements.cwd if reply["cwd"] else f"{requirements.cwd} does not exist; set cwd of the node"
    yield NodeFinding(name, "workspace", reply["cwd"], where)
    if missing_programs := reply["lacking"]:
        path = "a login shell" if node.login else "ssh"
        text = (
            f"{join_words(missing_programs)} not found on the PATH of {path} there; set PATH in env of"
            " the node"
        )
        yield NodeFinding(name, "programs", False, text)
    elif requirements.programs:
        yield NodeFinding(name, "programs", True, f"{join_words(requirements.programs)} found")
    yield _shared(node, reply, probe, token)
    is_near = reply["off"] <= _CLOCK_S
    off = "as here" if is_near else f"{reply['off']:.1f} s off; synchronize both clocks (chrony, ntpd)"
    yield NodeFinding(name, "clock", is_near, off, essential=False)
    is_own = f" of the experiment {requirements.experiment}" in (reply["port"] or "")
    port_state = (
        f"{reply['port']}; end that process before a start" if reply["port"] else _free(requirements.ports)
    )
    yield NodeFinding(
        name, "ports", is_own or not reply["port"], "in use by this experiment" if is_own else port_state
    )
    gpus = {model: reply["gpus"].count(model) for model in reply["gpus"]}
    models = ", ".join(f"{count} × {model}" for model, count in gpus.items())
    yield NodeFinding(name, "gpus", bool(gpus) or not node.gpus, models or "none", essential=False)
    versions = " · ".join(f"{package} {version}" for package, version in reply["versions"].items())
    yield NodeFinding(name, "versions", True, versions or "none of the expected packages", essential=False)
    yield from _interfaces(node, reply)
    if requirements.variables:
        unset = reply["unset"]
        hint = f"{join_words(unset)} not set there; export it here and name it in send_env of the node"
        yield NodeFinding(
            name, "variables", not unset, hint if unset else f"{join_words(requirements.variables)} set"
        )


def _free(ports: Sequence[int]) -> str:
    return f"{join_words([str(port) for port in ports])} free" if ports else "none needed"


def _shared(node: NodeSpec, reply: Mapping[str, Any], probe: Path, token: str) -> NodeFinding:
    folder = str(probe.parent)
    is_needed = not node.cwd
    if reply["shared"] != token:
        text = f"{folder} is a different folder there: files written here are not visible"
        return NodeFinding(node.name, "folder", False, text, is_needed)
    try:
        answer = _reply(probe, node).read_text(encoding="utf-8")
    except OSError:
        answer = ""
    if answer != token:
        text = f"{folder} is visible there, but files written there are not visible here"
        return NodeFinding(node.name, "folder", False, text, is_needed)
    return NodeFinding(node.name, "folder", True, f"{folder} is shared in both directions", is_needed)


def _interfaces(node: NodeSpec, reply: Mapping[str, Any]) -> Iterator[NodeFinding]:
    interfaces = reply["interfaces"]
    for variable in _INTERFACES:
        value = reply["variables"].get(variable, "")
        if value.startswith("^"):
            continue
        prefixes = [prefix.lstrip("=") for prefix in value.split(",") if prefix]
        missing_prefixes = [
            prefix for prefix in prefixes if not any(interface.startswith(prefix) for interface in interfaces)
        ]
        if missing_prefixes:
            text = f"{variable} is {value}; available: {join_words(interfaces)}"
            yield NodeFinding(node.name, "interface", False, text)
        elif prefixes:
            yield NodeFinding(node.name, "interface", True, f"{variable} is {value}")
        else:
            text = f"{variable} is not set; available: {join_words(interfaces)}"
            yield NodeFinding(node.name, "interface", True, text, essential=False)


def _differences(answers: Mapping[str, Mapping[str, Any]]) -> Iterator[NodeFinding]:
    """Compare what should be the same on all nodes: versions, and variables that their programs agree by."""
    for kind, name in (("versions", "versions"), ("variables", "variables")):
        keys = dict.fromkeys(key for reply in answers.values() for key in reply[kind])
        for key in keys:
            if key.endswith(_OF_ONE):
                continue
            values = {node: reply[kind].get(key, "none") for node, reply in answers.items()}
            if len(set(values.values())) > 1:
                text = ", ".join(f"{value} on {node}" for node, value in values.items())
                yield NodeFinding("", name, False, f"{key}: {text}", essential=False)
