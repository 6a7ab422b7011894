"""What the nodes of a layout have and lack for it: asked of each of them, and compared with each other."""

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

from rltui.client import launch
from rltui.client.draft import ExperimentRequest, plan_record
from rltui.core.hosts import NodeSpec
from rltui.core.layout import Layout
from rltui.core.text import join_words
from rltui.errors import RltuiError, UsageError
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services import layout_files, subprocesses
from rltui.services.config.store import ConfigStore
from rltui.services.launch import Launcher
from rltui.services.nodes import facts_command
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.observed import framework_of

_ANSWER_S = 90.0
_CLOCK_S = 1.0
"""Beyond what an answer took, clocks may differ by so much: rendezvous and logs want them together."""
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
_OF_ONE = ("_IFNAME", "_IP")
"""How the names of variables end that may well be different on each node."""


@dataclass(frozen=True, slots=True)
class NodeFinding:
    node: str
    """Empty: of all of them."""
    name: str
    ok: bool
    text: str
    essential: bool = True
    """What the layout says does not work without it."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    experiment: str
    env: Mapping[str, str]
    cwd: str
    ports: tuple[int, ...]
    programs: tuple[str, ...]
    """Programs that the commands of its components begin with."""
    variables: tuple[str, ...]
    """Must be set, by whomever."""


def check_nodes(request: ExperimentRequest | None, name: str | None) -> list[NodeFinding]:
    """Of the layout that `request` would use, else of the experiment `name`.

    A file is written into its output folder, or the nearest above it that exists, and removed.

    Raises:
        UsageError: if the layout has no nodes, or it is not clear which experiment is meant.
        ConfigError, ConflictError: as `plan_record`.
    """
    record = launch.choose(name) if request is None else plan_record(request)[0]
    layout = layout_files.load_for(record)
    if not layout.node:
        raise UsageError(
            f"the layout {record.layout_file} has no [[node]]", hint="layouts/README.md says how"
        )
    paths = [Path(path) for path in record.config_files]
    framework = framework_of(record).fitted(layout)
    files = ConfigStore(paths, framework).load()
    folder = next(
        path for path in (Path(record.output_dir), *Path(record.output_dir).parents) if path.is_dir()
    )
    token = secrets.token_hex(8)
    shared = folder / f".rltui-shared-{token}"
    shared.write_text(token, encoding="utf-8")
    try:
        with ThreadPoolExecutor(len(layout.node)) as threads:
            wanted = [_wanted(node, record, layout, framework, files) for node in layout.node]
            asked = threads.map(_ask, layout.node, wanted, [shared] * len(wanted))
            facts = list(zip(layout.node, asked, strict=True))
        findings = [
            finding
            for (node, found), needs in zip(facts, wanted, strict=True)
            for finding in _findings(node, found, needs, shared, token)
        ]
    finally:
        for path in (shared, *(_reply(shared, node) for node in layout.node)):
            with suppress(FileNotFoundError):
                path.unlink()
    answers = {node.name: found for node, found in facts if not isinstance(found, str)}
    return [*findings, *_differences(answers)]


def _wanted(
    node: NodeSpec, record: ExperimentRecord, layout: Layout, framework: Framework, files: ConfigFiles
) -> _Wanted:
    launcher = Launcher(record, layout, framework)
    env = {name: environ[name] for name in node.send_env if name in environ}
    ports: list[int] = []
    programs: list[str] = []
    for spec in layout.component:
        if spec.node == node.name and not spec.is_manual:
            added, used, program = launcher.node_requirements(spec.id, files)
            env |= added
            ports += used
            programs += program
    servers = framework.inference_servers(files)
    keys = [server.key_variable for server in servers if server.key_variable]
    variables = (*node.send_env, *keys) if ports or env else node.send_env
    return _Wanted(
        record.name,
        {**node.env, **env},
        node.cwd or record.workspace,
        tuple(sorted({*ports})),
        tuple(dict.fromkeys(programs)),
        tuple(dict.fromkeys(variables)),
    )


def _reply(shared: Path, node: NodeSpec) -> Path:
    return shared.with_name(f"{shared.name}-{node.name}")


def _ask(node: NodeSpec, wanted: _Wanted, shared: Path) -> dict[str, Any] | str:
    """Its facts, with how long it `took` and how far its clock is `off`; or why there are none."""
    request = {
        "env": dict(wanted.env),
        "cwd": wanted.cwd,
        "shared": str(shared),
        "written": str(_reply(shared, node)),
        "ports": list(wanted.ports),
        "programs": list(wanted.programs),
        "variables": list(wanted.variables),
    }
    command, stdin = facts_command(node.reach, request, python=node.python, login=node.login)
    began = time.time()
    try:
        said = subprocesses.check_output(command, timeout_s=_ANSWER_S, stdin=stdin)
    except RltuiError as error:
        return str(error)
    line = said.decode(errors="replace").strip().rpartition("\n")[2]
    try:
        facts: dict[str, Any] = json.loads(line)
    except ValueError:
        return f"it answers something else: {line[:200]!r}"
    took = time.time() - began
    return {**facts, "took": took, "off": max(0.0, began - facts["time"], facts["time"] - began - took)}


def _findings(
    node: NodeSpec, facts: dict[str, Any] | str, wanted: _Wanted, shared: Path, token: str
) -> Iterator[NodeFinding]:
    name = node.name
    if isinstance(facts, str):
        yield NodeFinding(name, "reached", False, f"{shlex.join(node.reach)}: {facts}")
        return
    yield NodeFinding(name, "reached", True, f"in {facts['took']:.1f} s · {facts['host']}")
    oldest = tuple(map(int, facts["python"].split(".")[:2])) >= (3, 9)
    yield NodeFinding(
        name, "python", oldest, facts["python"] + ("" if oldest else "; 3.9 or newer is needed")
    )
    where = wanted.cwd if facts["cwd"] else f"there is no {wanted.cwd}; set cwd of the node"
    yield NodeFinding(name, "workspace", facts["cwd"], where)
    if lacking := facts["lacking"]:
        path = "a login shell" if node.login else "ssh"
        text = (
            f"{join_words(lacking)} not found on the PATH that {path} has there; set PATH in env of the node"
        )
        yield NodeFinding(name, "programs", False, text)
    elif wanted.programs:
        yield NodeFinding(name, "programs", True, f"{join_words(wanted.programs)} found")
    yield _shared(node, facts, shared, token)
    is_near = facts["off"] <= _CLOCK_S
    off = "as here" if is_near else f"{facts['off']:.1f} s off; let both follow a time server (chrony, ntpd)"
    yield NodeFinding(name, "clock", is_near, off, essential=False)
    is_own = f" of the experiment {wanted.experiment}" in (facts["port"] or "")
    held = f"{facts['port']}; it must end before a start" if facts["port"] else _free(wanted.ports)
    yield NodeFinding(name, "ports", is_own or not facts["port"], "used by it" if is_own else held)
    gpus = {model: facts["gpus"].count(model) for model in facts["gpus"]}
    models = ", ".join(f"{count} × {model}" for model, count in gpus.items())
    yield NodeFinding(name, "gpus", bool(gpus) or not node.gpus, models or "none", essential=False)
    versions = " · ".join(f"{package} {version}" for package, version in facts["versions"].items())
    yield NodeFinding(name, "versions", True, versions or "none of what is looked for", essential=False)
    yield from _interfaces(node, facts)
    if wanted.variables:
        unset = facts["unset"]
        hint = f"{join_words(unset)} not set there; export it here and name it in send_env of the node"
        yield NodeFinding(
            name, "variables", not unset, hint if unset else f"{join_words(wanted.variables)} set"
        )


def _free(ports: Sequence[int]) -> str:
    return f"{join_words([str(port) for port in ports])} free" if ports else "none is asked for"


def _shared(node: NodeSpec, facts: Mapping[str, Any], shared: Path, token: str) -> NodeFinding:
    folder = str(shared.parent)
    is_needed = not node.cwd
    if facts["shared"] != token:
        text = f"{folder} is not the same there: what is written here is not seen"
        return NodeFinding(node.name, "folder", False, text, is_needed)
    try:
        answer = _reply(shared, node).read_text(encoding="utf-8")
    except OSError:
        answer = ""
    if answer != token:
        text = f"{folder} is seen there, but what is written there is not seen here"
        return NodeFinding(node.name, "folder", False, text, is_needed)
    return NodeFinding(node.name, "folder", True, f"{folder} is shared, both ways", is_needed)


def _interfaces(node: NodeSpec, facts: Mapping[str, Any]) -> Iterator[NodeFinding]:
    there = facts["interfaces"]
    for variable in _INTERFACES:
        value = facts["variables"].get(variable, "")
        if value.startswith("^"):
            continue
        named = [word.lstrip("=") for word in value.split(",") if word]
        lacking = [word for word in named if not any(each.startswith(word) for each in there)]
        if lacking:
            text = f"{variable} is {value}, and there are {join_words(there)}"
            yield NodeFinding(node.name, "interface", False, text)
        elif named:
            yield NodeFinding(node.name, "interface", True, f"{variable} is {value}")
        else:
            text = f"{variable} is not set; there are {join_words(there)}"
            yield NodeFinding(node.name, "interface", True, text, essential=False)


def _differences(answers: Mapping[str, Mapping[str, Any]]) -> Iterator[NodeFinding]:
    """What should be the same on all nodes: versions, and variables that their programs agree by."""
    for kind, name in (("versions", "versions"), ("variables", "variables")):
        keys = dict.fromkeys(key for facts in answers.values() for key in facts[kind])
        for key in keys:
            if key.endswith(_OF_ONE):
                continue
            values = {node: facts[kind].get(key, "none") for node, facts in answers.items()}
            if len(set(values.values())) > 1:
                text = ", ".join(f"{value} on {node}" for node, value in values.items())
                yield NodeFinding("", name, False, f"{key}: {text}", essential=False)
