"""A Kubernetes API server for tests: as much of it as kubectl 1.32 asks for, on the loopback, without TLS.

    python -m tests.fakes.kube_api FOLDER

writes `FOLDER/kubeconfig` once it listens. Its pods are real processes, each container in a process namespace
of its own (`unshare`), so that PID 1 is there what it is in a pod. StatefulSets make and replace pods as the
real ones do; nothing is scheduled or pulled: `trouble` of a StatefulSet says what keeps its pods pending.

    POST /fake/apply     {"statefulsets": {NAME: {...}}, "claims": {NAME: LABELS}}   what helm would send
    POST /fake/remove    {"release": R}                                              helm uninstall
    POST /fake/trouble   {"name": STATEFULSET, "trouble": "gpu" | "image" | "claim" | ""}
    POST /fake/crash     {"pod": NAME}          the container's processes are killed
    POST /fake/cut       {"seconds": S}         all connections end, and new ones are refused so long
    GET  /fake/asked                            what was asked for so far: method and path
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import fcntl
import hashlib
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_NAMESPACE = "default"
_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Of RFC 6455."""
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
"""Channels of `v5.channel.k8s.io`."""
_GRACE_S = 1.0
_BACKOFF_S = 0.4
"""From the end of a container to its next start."""
_WATCH_S = 0.05
_TROUBLES = {
    "gpu": ("Unschedulable", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: none."),
    "claim": ("Unschedulable", 'persistentvolumeclaim "my-exp-shared-data" not found'),
}


def can_isolate() -> bool:
    """Whether processes can get a namespace of their own here."""
    done = subprocess.run([*_unshare(), "true"], capture_output=True, check=False)
    return done.returncode == 0


def _unshare() -> list[str]:
    user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(eq=False)
class Container:
    """One start of a pod's container."""

    process: asyncio.subprocess.Process
    init: int
    """Pid here of its PID 1."""
    started_at: str
    lines: list[tuple[int, bytes]] = field(default_factory=list)
    """Time in nanoseconds, line with its end."""
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    code: int | None = None

    def log(self, line: bytes) -> None:
        self.lines.append((time.time_ns(), line))
        self.wake()

    def wake(self) -> None:
        self.grown.set()
        self.grown = asyncio.Event()


@dataclass(eq=False)
class Pod:
    name: str
    owner: str
    folder: Path
    template: Mapping[str, Any]
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    made_at: str = field(default_factory=_now)
    container: Container | None = None
    before: Container | None = None
    restarts: int = 0
    deleting: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    version: int = 1
    trouble: str = ""

    def described(self) -> dict[str, Any]:
        template = self.template
        metadata = {
            "name": self.name,
            "namespace": _NAMESPACE,
            "uid": self.uid,
            "labels": template["labels"],
            "creationTimestamp": self.made_at,
            "resourceVersion": str(self.version),
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": self.owner,
                    "uid": "s",
                    "controller": True,
                }
            ],
        }
        if self.deleting:
            metadata["deletionTimestamp"] = _now()
        container = _described_container(template)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container], "nodeName": "node-1", "restartPolicy": "Always"},
            "status": self._status(),
        }

    def _status(self) -> dict[str, Any]:
        scheduled = self.trouble not in _TROUBLES
        conditions = [{"type": "PodScheduled", "status": "True"}]
        if not scheduled:
            reason, message = _TROUBLES[self.trouble]
            conditions = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]
            return {"phase": "Pending", "conditions": conditions}
        running = self.container is not None and self.container.code is None
        conditions.append({"type": "Ready", "status": "True" if running else "False"})
        state: dict[str, Any]
        if self.trouble == "image":
            message = 'Back-off pulling image "primeintellect/prime-rl:main"'
            state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
        elif running and self.container is not None:
            state = {"running": {"startedAt": self.container.started_at}}
        elif self.container is not None:
            state = {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": "back-off 10s restarting failed container",
                }
            }
        else:
            state = {"waiting": {"reason": "ContainerCreating"}}
        ended = self.container if not running else self.before
        last = {} if ended is None else {"terminated": _terminated(ended)}
        status = {
            "name": self.template["container"],
            "ready": running,
            "started": running,
            "restartCount": self.restarts,
            "state": state,
            "lastState": last,
        }
        phase = "Running" if self.container is not None else "Pending"
        return {"phase": phase, "conditions": conditions, "podIP": "127.0.0.1", "containerStatuses": [status]}


def _terminated(container: Container) -> dict[str, Any]:
    code = container.code or 0
    said = {"exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error"}
    return {**said, "startedAt": container.started_at, "finishedAt": _now()}


def _environment(pod: Pod) -> dict[str, str]:
    """Its home is its own, and goes with it."""
    here = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "RLTUI_"))}
    return {**here, **pod.template.get("env", {}), "HOME": str(pod.folder), "POD_NAME": pod.name}


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Cluster:
    """Its objects, and the processes of its pods."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sets: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, str]] = {}
        self.pods: dict[str, Pod] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.asked: list[str] = []
        self.cut_until = 0.0
        self.connections: set[asyncio.StreamWriter] = set()

    # --- what controllers do ---

    def apply(self, values: Mapping[str, Any]) -> None:
        for name, wanted in values.get("statefulsets", {}).items():
            before = self.sets.get(name)
            self.sets[name] = {"trouble": "", "replicas": 1, "env": {}, **wanted}
            if before is not None and before["command"] != wanted["command"]:
                for pod in self._of(name):
                    self.delete(pod)
            self.reconcile(name)
        self.claims |= values.get("claims", {})

    def remove(self, release: str) -> None:
        """Claims stay, as those do that a chart keeps."""
        label = "app.kubernetes.io/instance"
        for name in [name for name, each in self.sets.items() if each["labels"].get(label) == release]:
            for pod in self._of(name):
                self.delete(pod)
            del self.sets[name]

    def _of(self, owner: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.owner == owner]

    def reconcile(self, name: str) -> None:
        wanted = self.sets.get(name)
        if wanted is None:
            return
        for number in range(wanted["replicas"]):
            pod_name = f"{name}-{number}"
            if pod_name not in self.pods:
                pod = Pod(pod_name, name, self.folder / "pods" / pod_name, wanted, trouble=wanted["trouble"])
                self.pods[pod_name] = pod
                self.spawn(self._keep(pod))
        for pod in self._of(name):
            if int(pod.name.rpartition("-")[2]) >= wanted["replicas"]:
                self.delete(pod)

    def trouble(self, name: str, trouble: str) -> None:
        self.sets[name]["trouble"] = trouble
        for pod in self._of(name):
            pod.trouble, pod.version = trouble, pod.version + 1

    def spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def delete(self, pod: Pod) -> None:
        if not pod.deleting:
            pod.deleting, pod.version = True, pod.version + 1
            self.spawn(self._end(pod))

    async def _end(self, pod: Pod) -> None:
        container = pod.container
        if container is not None and container.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(container.init, signal.SIGTERM)
            try:
                await asyncio.wait_for(container.process.wait(), _GRACE_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    container.process.kill()
        pod.gone.set()
        self.pods.pop(pod.name, None)
        self.reconcile(pod.owner)

    async def _keep(self, pod: Pod) -> None:
        """Its container runs, again and again."""
        while not pod.gone.is_set() and not pod.deleting:
            if pod.trouble:
                await asyncio.sleep(_WATCH_S)
                continue
            shutil.rmtree(pod.folder, ignore_errors=True)
            pod.folder.mkdir(parents=True)
            pod.before = pod.container
            container = await self._start(pod)
            pod.container, pod.version = container, pod.version + 1
            assert container.process.stdout is not None
            while line := await container.process.stdout.readline():
                container.log(line)
            container.code = await container.process.wait()
            container.wake()
            pod.version += 1
            if not pod.deleting:
                await asyncio.sleep(_BACKOFF_S)
                pod.restarts += 1

    async def _start(self, pod: Pod) -> Container:
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL", *_unshare(), *pod.template["command"]),
            cwd=pod.folder,
            env=_environment(pod),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            limit=1 << 20,
        )
        while not (found := _children(process.pid)):  # noqa: ASYNC110 - nobody tells of a child
            await asyncio.sleep(0.005)
        return Container(process, found[0], _now())

    async def close(self) -> None:
        for pod in list(self.pods.values()):
            if pod.container is not None and pod.container.code is None:
                pod.container.process.kill()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    # --- HTTP ---

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while request := await _request(reader):
                self.asked.append(f"{request.method} {request.path}")
                if time.monotonic() < self.cut_until and not request.path.startswith("/fake"):
                    break
                if await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            self.connections.discard(writer)
            writer.close()

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection ends with it."""
        parts = request.path.strip("/").split("/")
        if parts[0] == "fake":
            _send(writer, 200, self._control(parts[1], request.body, writer))
        elif len(parts) == 7 and parts[4] == "pods" and parts[6] == "log":
            await self._log(parts[5], request, writer)
        elif len(parts) == 7 and parts[4] == "pods" and parts[6] in ("exec", "portforward"):
            pod = self.pods.get(parts[5])
            if pod is None or pod.container is None or pod.container.code is not None:
                _send(writer, *_missing("pods", parts[5]))
                return False
            await _upgraded(request, writer)
            if parts[6] == "exec":
                await _Exec(pod, request, reader, writer).run()
            else:
                await _Forward(pod, reader, writer).run()
            return True
        elif request.query.get("watch"):
            await self._watch(parts, request, writer)
        else:
            _send(writer, *self._rest(parts, request))
        await writer.drain()
        return False

    def _control(self, what: str, body: bytes, own: asyncio.StreamWriter) -> object:
        values = json.loads(body or b"{}")
        match what:
            case "apply":
                self.apply(values)
            case "remove":
                self.remove(values["release"])
            case "trouble":
                self.trouble(values["name"], values["trouble"])
            case "crash":
                container = self.pods[values["pod"]].container
                assert container is not None
                os.kill(container.init, signal.SIGKILL)
            case "cut":
                self.cut_until = time.monotonic() + values["seconds"]
                for connection in self.connections - {own}:
                    connection.transport.abort()
            case "asked":
                return self.asked
        return {}

    def _rest(self, parts: list[str], request: Request) -> tuple[int, Any]:
        match parts:
            case ["version"]:
                return 200, {"major": "1", "minor": "32", "gitVersion": "v1.32.0", "platform": "linux/amd64"}
            case ["api"]:
                return 200, {"kind": "APIVersions", "versions": ["v1"]}
            case ["apis"]:
                groups = [_group("apps", "v1"), _group("authorization.k8s.io", "v1")]
                return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["api", "v1"]:
                names = {"pods": "Pod", "persistentvolumeclaims": "PersistentVolumeClaim"}
                return 200, _resources("v1", names)
            case ["apis", "apps", "v1"]:
                return 200, _resources(
                    "apps/v1", {"statefulsets": "StatefulSet", "statefulsets/scale": "Scale"}
                )
            case ["apis", "authorization.k8s.io", "v1"]:
                names = {"selfsubjectaccessreviews": "SelfSubjectAccessReview"}
                return 200, _resources("authorization.k8s.io/v1", names)
            case ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]:
                kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
                return 201, {**kind, "spec": {}, "status": {"allowed": True}}
            case ["api", "v1", "namespaces", _, "pods"]:
                found = [pod.described() for pod in self._selected(request)]
                return 200, {
                    "kind": "PodList",
                    "apiVersion": "v1",
                    "metadata": {"resourceVersion": "1"},
                    "items": found,
                }
            case ["api", "v1", "namespaces", _, "pods", name]:
                pod = self.pods.get(name)
                if pod is None:
                    return _missing("pods", name)
                described = pod.described()
                if request.method == "DELETE":
                    self.delete(pod)
                return 200, described
            case ["api", "v1", "namespaces", _, "persistentvolumeclaims", *name]:
                return self._claims(name, request)
            case ["apis", "apps", "v1", "namespaces", _, "statefulsets", *name]:
                return self._sets(name, request)
        return 404, _failure(404, "NotFound", f"the server could not find {request.path}")

    def _selected(self, request: Request) -> list[Pod]:
        return [
            pod
            for pod in self.pods.values()
            if _matches(request.query.get("labelSelector", ""), pod.template["labels"])
            and request.query.get("fieldSelector", "") in ("", f"metadata.name={pod.name}")
        ]

    def _claims(self, name: list[str], request: Request) -> tuple[int, Any]:
        if name and name[0] not in self.claims:
            return _missing("persistentvolumeclaims", name[0])
        if request.method == "DELETE":
            del self.claims[name[0]]
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        described = [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": each, "namespace": _NAMESPACE, "labels": labels},
                "spec": {"resources": {"requests": {"storage": "1Ti"}}},
                "status": {"phase": "Bound", "capacity": {"storage": "1Ti"}},
            }
            for each, labels in self.claims.items()
            if (not name or name[0] == each) and _matches(request.query.get("labelSelector", ""), labels)
        ]
        kind = {"kind": "PersistentVolumeClaimList", "apiVersion": "v1"}
        return 200, described[0] if name else {**kind, "metadata": {}, "items": described}

    def _sets(self, name: list[str], request: Request) -> tuple[int, Any]:
        if name and name[0] not in self.sets:
            return _missing("statefulsets.apps", name[0])
        if not name:
            selector = request.query.get("labelSelector", "")
            chosen = {key: each for key, each in self.sets.items() if _matches(selector, each["labels"])}
            items = [self._described_set(key) for key in chosen]
            return 200, {"kind": "StatefulSetList", "apiVersion": "apps/v1", "metadata": {}, "items": items}
        wanted = self.sets[name[0]]
        if request.method in ("PATCH", "PUT"):
            wanted["replicas"] = json.loads(request.body)["spec"].get("replicas", 0)
            self.reconcile(name[0])
        if name[1:] == ["scale"]:
            metadata = {"name": name[0], "namespace": _NAMESPACE, "resourceVersion": "1"}
            counts = {"spec": {"replicas": wanted["replicas"]}, "status": {"replicas": wanted["replicas"]}}
            return 200, {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, **counts}
        return 200, self._described_set(name[0])

    def _described_set(self, name: str) -> dict[str, Any]:
        wanted = self.sets[name]
        is_rolled_out = all(pod.template["command"] == wanted["command"] for pod in self._of(name))
        return _described_set(name, wanted, is_rolled_out=is_rolled_out)

    async def _log(self, name: str, request: Request, writer: asyncio.StreamWriter) -> None:
        pod, query = self.pods.get(name), request.query
        container = None if pod is None else pod.before if query.get("previous") == "true" else pod.container
        if pod is None or container is None:
            if pod is not None:
                text = f'container "{pod.template["container"]}" in pod "{name}" is waiting to start'
                _send(writer, 400, _failure(400, "BadRequest", text))
            else:
                _send(writer, *_missing("pods", name))
            return
        since = 0
        if text := query.get("sinceTime", ""):
            since = int(datetime.datetime.fromisoformat(text).timestamp()) * 10**9
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        at = 0
        while True:
            grown = container.grown
            for stamp, line in container.lines[at:]:
                if stamp >= since:
                    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(stamp // 10**9))
                    head = (
                        f"{moment}.{stamp % 10**9:09d}Z ".encode()
                        if query.get("timestamps") == "true"
                        else b""
                    )
                    writer.write(_chunk(head + line))
            at = len(container.lines)
            await writer.drain()
            if container.code is not None or query.get("follow") != "true":
                break
            await grown.wait()
        writer.write(_chunk(b""))

    async def _watch(self, parts: list[str], request: Request, writer: asyncio.StreamWriter) -> None:
        """Of pods: what changed since the last look."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        known: dict[str, Pod] = {}
        versions: dict[str, int] = {}
        while parts[-1] == "pods":
            found = {pod.uid: pod for pod in self._selected(request)}
            events: list[tuple[str, Pod]] = [
                ("DELETED", pod) for uid, pod in known.items() if uid not in found
            ]
            for uid, pod in found.items():
                if versions.get(uid) != pod.version:
                    events.append(("MODIFIED" if uid in known else "ADDED", pod))
                    versions[uid] = pod.version
            known = found
            for kind, pod in events:
                writer.write(_chunk(json.dumps({"type": kind, "object": pod.described()}).encode() + b"\n"))
            await writer.drain()
            await asyncio.sleep(_WATCH_S)


def _described_container(template: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": template["container"],
        "image": "primeintellect/prime-rl:main",
        "command": list(template["command"]),
        "ports": [{"containerPort": port} for port in template.get("ports", ())],
        "resources": {"limits": template.get("limits", {})},
    }


def _described_set(name: str, wanted: Mapping[str, Any], *, is_rolled_out: bool) -> dict[str, Any]:
    container = _described_container(wanted)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": _NAMESPACE, "labels": wanted["labels"], "generation": 1},
        "spec": {
            "replicas": wanted["replicas"],
            "template": {"metadata": {"labels": wanted["labels"]}, "spec": {"containers": [container]}},
        },
        "status": {
            "replicas": wanted["replicas"],
            "observedGeneration": 1,
            "currentRevision": "new" if is_rolled_out else "old",
            "updateRevision": "new",
        },
    }


def _matches(selector: str, labels: Mapping[str, str]) -> bool:
    wanted = (term.partition("=") for term in selector.split(",") if term)
    return all(labels.get(key) == value.lstrip("=") for key, _, value in wanted)


def _group(name: str, version: str) -> dict[str, Any]:
    each = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [each], "preferredVersion": each}


def _resources(version: str, kinds: Mapping[str, str]) -> dict[str, Any]:
    verbs = ["get", "list", "watch", "delete", "patch", "update", "create"]
    listed = []
    for name, kind in kinds.items():
        each = {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": verbs}
        listed.append(each | ({"group": "autoscaling", "version": "v1"} if kind == "Scale" else {}))
    return {"kind": "APIResourceList", "groupVersion": version, "resources": listed}


def _failure(code: int, reason: str, message: str) -> dict[str, Any]:
    said = {"status": "Failure", "reason": reason, "message": message, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **said}


def _missing(kind: str, name: str) -> tuple[int, dict[str, Any]]:
    return 404, _failure(404, "NotFound", f'{kind} "{name}" not found')


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    every: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes


async def _request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ")
    headers = {
        key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    parts = urlsplit(target)
    every = parse_qs(parts.query)
    return Request(method, parts.path, {key: each[-1] for key, each in every.items()}, every, headers, body)


def _send(writer: asyncio.StreamWriter, code: int, document: object) -> None:
    body = json.dumps(document).encode()
    writer.write(
        f"HTTP/1.1 {code} .\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


# --- WebSocket ---


async def _upgraded(request: Request, writer: asyncio.StreamWriter) -> None:
    digest = hashlib.sha1(request.headers["sec-websocket-key"].encode() + _KEY).digest()
    protocol = request.headers["sec-websocket-protocol"].split(",")[0].strip()
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}",
        f"Sec-WebSocket-Protocol: {protocol}",
    ]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    await writer.drain()


def _framed(writer: asyncio.StreamWriter, data: bytes, *, kind: int = 2) -> None:
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 127, size)
    writer.write(head + data)


async def _messages(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    """Binary messages of the client, until it closes."""
    data = b""
    while True:
        try:
            first, second = await reader.readexactly(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", await reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", await reader.readexactly(8))
            mask = await reader.readexactly(4) if second & 0x80 else bytes(4)
            payload = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        plain = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        kind = first & 0x0F
        if kind == 8:
            return
        if kind == 9:
            _framed(writer, plain, kind=10)
        elif kind in (0, 1, 2):
            data += plain
            if first & 0x80:
                yield data
                data = b""


class _Exec:
    """`kubectl exec`: a process among those of the container."""

    def __init__(
        self, pod: Pod, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert pod.container is not None
        user = [] if os.getuid() == 0 else ["--user", "--preserve-credentials"]
        enter = ["nsenter", "--target", str(pod.container.init), *user, "--pid", "--mount"]
        inside = ["sh", "-c", 'cd "$0" && exec "$@"', str(pod.folder), *request.every["command"]]
        self._command = ["setpriv", "--pdeathsig", "KILL", *enter, *inside]
        self._env = {**_environment(pod), "TERM": "xterm"}
        self._is_tty = request.query.get("tty") == "true"
        self._reads = request.query.get("stdin") == "true"
        self._reader, self._writer = reader, writer

    async def run(self) -> None:
        terminal: int | None = None
        inner: int | None = None
        if self._is_tty:
            terminal, inner = pty.openpty()
        pipe = subprocess.PIPE if inner is None else inner
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._env,
            stdin=(pipe if self._reads else subprocess.DEVNULL),
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        if inner is not None:
            os.close(inner)
        reading = asyncio.create_task(self._feed(process, terminal))
        try:
            if terminal is not None:
                await self._pump_terminal(terminal)
            else:
                assert process.stdout is not None
                assert process.stderr is not None
                await asyncio.gather(self._pump(process.stdout, _STDOUT), self._pump(process.stderr, _STDERR))
            code = await process.wait()
            status: dict[str, Any] = {"metadata": {}, "status": "Success"}
            if code != 0:
                shown = code if code > 0 else 128 - code
                causes = [{"reason": "ExitCode", "message": str(shown)}]
                status = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                          "message": f"command terminated with exit code {shown}",
                          "details": {"causes": causes}}  # fmt: skip
            _framed(self._writer, bytes([_ERROR]) + json.dumps(status).encode())
            _framed(self._writer, struct.pack("!H", 1000), kind=8)
            await self._writer.drain()
        finally:
            reading.cancel()
            if process.returncode is None and self._writer.transport.is_closing():
                await process.wait()

    async def _pump(self, stream: asyncio.StreamReader, channel: int) -> None:
        while data := await stream.read(1 << 15):
            with contextlib.suppress(ConnectionError):  # as in a pod, it goes on unheard
                _framed(self._writer, bytes([channel]) + data)
                await self._writer.drain()

    async def _pump_terminal(self, terminal: int) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # EIO: nobody has it open any more
            while data := await loop.run_in_executor(None, os.read, terminal, 1 << 15):
                _framed(self._writer, bytes([_STDOUT]) + data)
                await self._writer.drain()

    async def _feed(self, process: asyncio.subprocess.Process, terminal: int | None) -> None:
        async for message in _messages(self._reader, self._writer):
            channel, data = message[0], message[1:]
            if channel == _STDIN and terminal is not None:
                os.write(terminal, data)
            elif channel == _STDIN and process.stdin is not None:
                process.stdin.write(data)
            elif channel == _CLOSE and process.stdin is not None:
                process.stdin.close()
            elif channel == _RESIZE and terminal is not None:
                size = json.loads(data)
                fcntl.ioctl(
                    terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                )
        if process.stdin is not None:
            process.stdin.close()


_SYN_STREAM, _SYN_REPLY, _RST, _PING, _GOAWAY = 1, 2, 3, 6, 7


class _Forward:
    """`kubectl port-forward`: SPDY/3.1 inside a WebSocket, to the first port of the container.

    Headers are not read: of each pair of streams that the client opens, the first is for errors, and a
    compressed stream without a dictionary answers.
    """

    def __init__(self, pod: Pod, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import zlib

        self._port = pod.template["ports"][0]
        self._reader, self._writer = reader, writer
        self._compress = zlib.compressobj()
        self._flush = zlib.Z_SYNC_FLUSH
        self._sockets: dict[int, asyncio.StreamWriter] = {}
        self._waiting: dict[int, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        data = b""
        try:
            async for message in _messages(self._reader, self._writer):
                data += message
                while len(data) >= 8 and len(data) >= 8 + (size := int.from_bytes(data[5:8], "big")):
                    frame, data = data[: 8 + size], data[8 + size :]
                    await self._take(frame)
        finally:
            for task in self._tasks:
                task.cancel()
            for socket in self._sockets.values():
                socket.close()

    async def _take(self, frame: bytes) -> None:
        first, flags, body = int.from_bytes(frame[:4], "big"), frame[4], frame[8:]
        if not first >> 31:
            await self._data(first, flags, body)
            return
        match first & 0xFFFF:
            case 1:  # SYN_STREAM
                stream = int.from_bytes(body[:4], "big") & 0x7FFFFFFF
                headers = self._compress.compress(bytes(4)) + self._compress.flush(self._flush)
                self._control(_SYN_REPLY, stream.to_bytes(4, "big") + headers)
                if (stream // 2) % 2:  # 1, 5, 9 … are for data's errors; 3, 7, 11 … for data
                    self._waiting[stream] = []
                    task = asyncio.create_task(self._connect(stream))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            case 6:  # PING
                self._control(_PING, body)
        await self._writer.drain()

    async def _data(self, stream: int, flags: int, body: bytes) -> None:
        if stream in self._waiting:
            self._waiting[stream].append(body)
        elif (socket := self._sockets.get(stream)) is not None:
            socket.write(body)
            if flags & 1 and socket.can_write_eof():
                socket.write_eof()

    async def _connect(self, stream: int) -> None:
        errors = stream - 2
        try:
            reader, socket = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError as error:
            self._waiting.pop(stream)
            self._frame(errors, f"an error occurred forwarding: {error}".encode(), last=True)
            self._frame(stream, b"", last=True)
            await self._writer.drain()
            return
        self._sockets[stream] = socket
        for body in self._waiting.pop(stream):
            socket.write(body)
        while data := await reader.read(1 << 15):
            self._frame(stream, data, last=False)
            await self._writer.drain()
        self._frame(stream, b"", last=True)
        self._frame(errors, b"", last=True)
        await self._writer.drain()

    def _frame(self, stream: int, data: bytes, *, last: bool) -> None:
        head = struct.pack("!I", stream) + bytes([1 if last else 0]) + len(data).to_bytes(3, "big")
        _framed(self._writer, head + data)

    def _control(self, kind: int, body: bytes) -> None:
        head = struct.pack("!HH", 0x8003, kind) + bytes([0]) + len(body).to_bytes(3, "big")
        _framed(self._writer, head + body)


def _kubeconfig(port: int) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "me", "user": {"token": "of-a-test"}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
        }
    )


async def _main(arguments: Iterable[str]) -> None:
    (folder,) = map(Path, arguments)
    cluster = Cluster(folder.absolute())
    server = await asyncio.start_server(cluster.serve, "127.0.0.1", 0, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    made = folder / ".kubeconfig"
    made.write_text(_kubeconfig(port))
    made.rename(folder / "kubeconfig")
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    await cluster.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
