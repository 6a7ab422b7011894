"""A Kubernetes API server for tests: as much of it as kubectl 1.32 asks for, on the loopback, without TLS.

    python -m tests.fakes.kube_api FOLDER

writes `FOLDER/kubeconfig` once it listens. It keeps StatefulSets, services, claims and secrets as kubectl and
helm send them. Its pods are real processes, each container in a process namespace of its own (`unshare`), so
that PID 1 is there what it is in a pod. StatefulSets make and replace pods as the real ones do; nothing is
scheduled or pulled: `trouble` of a StatefulSet says what keeps its pods pending.

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
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_NAMESPACE = "default"
_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""The fixed key of RFC 6455."""
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
"""Channels of `v5.channel.k8s.io`."""
_GRACE_S = 1.0
_BACKOFF_S = 0.4
"""Time from the end of a container to its next start."""
_WATCH_S = 0.05
_KINDS = {
    "statefulsets": ("apps/v1", "StatefulSet"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
    "services": ("v1", "Service"),
    "secrets": ("v1", "Secret"),
}
_TROUBLES = {
    "gpu": ("Unschedulable", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: none."),
    "claim": ("Unschedulable", 'persistentvolumeclaim "my-exp-shared-data" not found'),
}


def can_isolate() -> bool:
    """Whether processes can get a namespace of their own here."""
    result = subprocess.run([*_unshare(), "true"], capture_output=True, check=False)
    return result.returncode == 0


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
    """Pid, here, of its PID 1."""
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
        last_container = self.container if not running else self.before
        last = {} if last_container is None else {"terminated": _terminated(last_container)}
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
    state = {"exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error"}
    return {**state, "startedAt": container.started_at, "finishedAt": _now()}


def _environment(pod: Pod) -> dict[str, str]:
    """Its home is a folder of its own, removed with it."""
    here = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "RLTUI_"))}
    return {**here, **pod.template.get("env", {}), "HOME": str(pod.folder), "POD_NAME": pod.name}


def _children(pid: int) -> list[int]:
    return [int(pid_text) for pid_text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Cluster:
    """The objects of the cluster, and the processes of its pods."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in _KINDS}
        self.troubles: dict[str, str] = {}
        self.pods: dict[str, Pod] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.asked: list[str] = []
        self.cut_until = 0.0
        self.connections: set[asyncio.StreamWriter] = set()

    # --- what controllers do ---

    def replace(self, kind: str, name: str, document: dict[str, Any] | None) -> None:
        """Store an object; `None` deletes it."""
        before = self.objects[kind].pop(name, None)
        if document is not None:
            version = int(before["metadata"]["resourceVersion"]) + 1 if before else 1
            document["metadata"] |= {"namespace": _NAMESPACE, "resourceVersion": str(version)}
            self.objects[kind][name] = document
        if kind == "statefulsets":
            is_other = document is None or (before is not None and _template(before) != _template(document))
            for pod in self._of(name) if is_other else ():
                self.delete(pod)
            self.reconcile(name)

    def _of(self, owner: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.owner == owner]

    def reconcile(self, name: str) -> None:
        stateful_set = self.objects["statefulsets"].get(name)
        if stateful_set is None:
            return
        replicas, trouble = stateful_set["spec"]["replicas"], self.troubles.get(name, "")
        for number in range(replicas):
            pod_name = f"{name}-{number}"
            if pod_name not in self.pods:
                folder = self.folder / "pods" / pod_name
                pod = Pod(pod_name, name, folder, _template(stateful_set), trouble=trouble)
                self.pods[pod_name] = pod
                self.spawn(self._keep(pod))
        for pod in self._of(name):
            if int(pod.name.rpartition("-")[2]) >= replicas:
                self.delete(pod)

    def trouble(self, name: str, trouble: str) -> None:
        self.troubles[name] = trouble
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
        """Run the pod's container, again and again."""
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
        while not (children := _children(process.pid)):  # noqa: ASYNC110 - nobody tells of a child
            await asyncio.sleep(0.005)
        return Container(process, children[0], _now())

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
        segments = request.path.strip("/").split("/")
        if segments[0] == "fake":
            _send(writer, 200, self._control(segments[1], request.body, writer))
        elif len(segments) == 7 and segments[4] == "pods" and segments[6] == "log":
            await self._log(segments[5], request, writer)
        elif len(segments) == 7 and segments[4] == "pods" and segments[6] in ("exec", "portforward"):
            pod = self.pods.get(segments[5])
            if pod is None or pod.container is None or pod.container.code is not None:
                _send(writer, *_missing("pods", segments[5]))
                return False
            await _upgraded(request, writer)
            if segments[6] == "exec":
                await _Exec(pod, request, reader, writer).run()
            else:
                await _Forward(pod, reader, writer).run()
            return True
        elif request.query.get("watch"):
            await self._watch(segments, request, writer)
        else:
            _send(writer, *self._rest(segments, request))
        await writer.drain()
        return False

    def _control(self, what: str, body: bytes, own: asyncio.StreamWriter) -> object:
        values = json.loads(body or b"{}")
        match what:
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

    def _rest(self, segments: list[str], request: Request) -> tuple[int, Any]:
        if document := discovery(segments):
            return 200, document
        match segments:
            case ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]:
                kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
                return 201, {**kind, "spec": {}, "status": {"allowed": True}}
            case ["api", "v1", "namespaces", _, "pods"]:
                items = [pod.described() for pod in self._selected(request)]
                return 200, {
                    "kind": "PodList",
                    "apiVersion": "v1",
                    "metadata": {"resourceVersion": "1"},
                    "items": items,
                }
            case ["api", "v1", "namespaces", _, "pods", name]:
                pod = self.pods.get(name)
                if pod is None:
                    return _missing("pods", name)
                described = pod.described()
                if request.method == "DELETE":
                    self.delete(pod)
                return 200, described
            case ["apis", "apps", "v1", "namespaces", _, "statefulsets", name, "scale"]:
                return self._scale(name, request)
            case ["api" | "apis", *_, "namespaces", _, kind] if kind in _KINDS:
                return self._collection(kind, request)
            case ["api" | "apis", *_, "namespaces", _, kind, name] if kind in _KINDS:
                return self._object(kind, name, request)
        return 404, _failure(404, "NotFound", f"the server could not find {request.path}")

    def _selected(self, request: Request) -> list[Pod]:
        return [
            pod
            for pod in self.pods.values()
            if _matches(request.query.get("labelSelector", ""), pod.template["labels"])
            and request.query.get("fieldSelector", "") in ("", f"metadata.name={pod.name}")
        ]

    def _collection(self, kind: str, request: Request) -> tuple[int, Any]:
        version, called = _KINDS[kind]
        if request.method == "POST":
            document = request.document()
            name = document["metadata"]["name"]
            if name in self.objects[kind]:
                return 409, _failure(409, "AlreadyExists", f'{kind} "{name}" already exists')
            self.replace(kind, name, document)
            return 201, self._described(kind, name)
        selector = request.query.get("labelSelector", "")
        documents = [
            self._described(kind, name)
            for name, item in self.objects[kind].items()
            if _matches(selector, item["metadata"].get("labels", {}))
        ]
        return 200, {"kind": f"{called}List", "apiVersion": version, "metadata": {}, "items": documents}

    def _object(self, kind: str, name: str, request: Request) -> tuple[int, Any]:
        current = self.objects[kind].get(name)
        if current is None:
            return _missing(f"{kind}.apps" if kind == "statefulsets" else kind, name)
        if request.method == "DELETE":
            self.replace(kind, name, None)
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if request.method in ("PATCH", "PUT"):
            document = request.document()
            if (
                document.get("metadata", {}).pop(
                    "resourceVersion", now := current["metadata"]["resourceVersion"]
                )
                != now
            ):
                return 409, _failure(409, "Conflict", f'{kind} "{name}" has been modified')
            self.replace(kind, name, _patched(current, document) if request.method == "PATCH" else document)
        return 200, self._described(kind, name)

    def _scale(self, name: str, request: Request) -> tuple[int, Any]:
        stateful_set = self.objects["statefulsets"].get(name)
        if stateful_set is None:
            return _missing("statefulsets.apps", name)
        if request.method in ("PATCH", "PUT"):
            stateful_set["spec"]["replicas"] = request.document()["spec"].get("replicas", 0)
            self.reconcile(name)
        metadata = {"name": name, "namespace": _NAMESPACE, "resourceVersion": "1"}
        counts = {"replicas": stateful_set["spec"]["replicas"]}
        kind = {"kind": "Scale", "apiVersion": "autoscaling/v1"}
        return 200, {**kind, "metadata": metadata, "spec": counts, "status": counts}

    def _described(self, kind: str, name: str) -> dict[str, Any]:
        version, called = _KINDS[kind]
        described = {**self.objects[kind][name], "apiVersion": version, "kind": called}
        if kind == "persistentvolumeclaims":
            size = described["spec"]["resources"]["requests"]["storage"]
            described["status"] = {"phase": "Bound", "capacity": {"storage": size}}
        if kind == "statefulsets":
            is_rolled_out = all(pod.template == _template(described) for pod in self._of(name))
            described["metadata"] |= {"generation": 1}
            described["status"] = {
                "replicas": described["spec"]["replicas"],
                "observedGeneration": 1,
                "currentRevision": "new" if is_rolled_out else "old",
                "updateRevision": "new",
            }
        return described

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
        offset = 0
        while True:
            grown = container.grown
            for stamp, line in container.lines[offset:]:
                if stamp >= since:
                    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(stamp // 10**9))
                    head = (
                        f"{moment}.{stamp % 10**9:09d}Z ".encode()
                        if query.get("timestamps") == "true"
                        else b""
                    )
                    writer.write(_chunk(head + line))
            offset = len(container.lines)
            await writer.drain()
            if container.code is not None or query.get("follow") != "true":
                break
            await grown.wait()
        writer.write(_chunk(b""))

    async def _watch(self, segments: list[str], request: Request, writer: asyncio.StreamWriter) -> None:
        """Send the pods that have changed since the last event."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        sent_versions: dict[str, Pod] = {}
        versions: dict[str, int] = {}
        while segments[-1] == "pods":
            pods = {pod.uid: pod for pod in self._selected(request)}
            events: list[tuple[str, Pod]] = [
                ("DELETED", pod) for uid, pod in sent_versions.items() if uid not in pods
            ]
            for uid, pod in pods.items():
                if versions.get(uid) != pod.version:
                    events.append(("MODIFIED" if uid in sent_versions else "ADDED", pod))
                    versions[uid] = pod.version
            sent_versions = pods
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


def _template(stateful_set: Mapping[str, Any]) -> dict[str, Any]:
    """The pod template of a StatefulSet, as far as it counts here."""
    template = stateful_set["spec"]["template"]
    (container,) = template["spec"]["containers"]
    return {
        "labels": template["metadata"]["labels"],
        "container": container["name"],
        "command": [*container.get("command", ()), *container.get("args", ())],
        "ports": [port["containerPort"] for port in container.get("ports", ())],
        "env": {port["name"]: port["value"] for port in container.get("env", ()) if "value" in port},
        "limits": container.get("resources", {}).get("limits", {}),
    }


def _patched(current: Any, patch: Any) -> Any:
    """The object after a merge patch; of a strategic one, as much as helm sends: lists are merged by the
    names in them.
    """
    if isinstance(current, dict) and isinstance(patch, dict):
        merged = dict(current)
        for key, value in patch.items():
            if value is None:
                merged.pop(key, None)
            elif not key.startswith("$"):
                merged[key] = _patched(merged.get(key), value)
        return merged
    both = [*current, *patch] if isinstance(current, list) and isinstance(patch, list) else []
    if both and all(isinstance(item, dict) and "name" in item for item in both):
        by_name = {item["name"]: item for item in current}
        for item in patch:
            by_name[item["name"]] = _patched(by_name.get(item["name"], {}), item)
            if item.get("$patch") == "delete":
                del by_name[item["name"]]
        return [*by_name.values()]
    return _patched({}, patch) if isinstance(patch, dict) else patch


def put(url: str, document: Mapping[str, Any]) -> None:
    """Make an object, or set it anew: whoever has no kubectl at hand. `url`: of the server."""
    (kind,) = [kind for kind, (_, called) in _KINDS.items() if called == document["kind"]]
    version = document["apiVersion"]
    path = f"{url}/{'api' if version == 'v1' else 'apis'}/{version}/namespaces/{_NAMESPACE}/{kind}"
    body = json.dumps(document).encode()
    try:
        urllib.request.urlopen(urllib.request.Request(path, body, method="POST"), timeout=10).close()
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
        path += f"/{document['metadata']['name']}"
        urllib.request.urlopen(urllib.request.Request(path, body, method="PUT"), timeout=10).close()


def _matches(selector: str, labels: Mapping[str, str]) -> bool:
    terms = (term.partition("=") for term in selector.split(",") if term)
    return all(labels.get(key) == value.lstrip("=") for key, _, value in terms)


def discovery(segments: list[str]) -> dict[str, Any] | None:
    """The server's description of itself at this path; `None`: there is none."""
    match segments:
        case ["version"]:
            return {"major": "1", "minor": "32", "gitVersion": "v1.32.0", "platform": "linux/amd64"}
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            groups = [_group("apps", "v1"), _group("authorization.k8s.io", "v1")]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["api", "v1"]:
            names = {name: kind for name, (version, kind) in _KINDS.items() if version == "v1"}
            return _resources("v1", {"pods": "Pod", **names})
        case ["apis", "apps", "v1"]:
            return _resources("apps/v1", {"statefulsets": "StatefulSet", "statefulsets/scale": "Scale"})
        case ["apis", "authorization.k8s.io", "v1"]:
            names = {"selfsubjectaccessreviews": "SelfSubjectAccessReview"}
            return _resources("authorization.k8s.io/v1", names)
    return None


def _group(name: str, version: str) -> dict[str, Any]:
    served_version = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [served_version], "preferredVersion": served_version}


def _resources(version: str, kinds: Mapping[str, str]) -> dict[str, Any]:
    verbs = ["get", "list", "watch", "delete", "patch", "update", "create"]
    resources = []
    for name, kind in kinds.items():
        resource = {
            "name": name,
            "singularName": kind.lower(),
            "namespaced": True,
            "kind": kind,
            "verbs": verbs,
        }
        resources.append(resource | ({"group": "autoscaling", "version": "v1"} if kind == "Scale" else {}))
    return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}


def _failure(code: int, reason: str, message: str) -> dict[str, Any]:
    status = {"status": "Failure", "reason": reason, "message": message, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status}


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

    def document(self) -> dict[str, Any]:
        """The object in it; helm sends its secrets as protobuf."""
        if self.body.startswith(b"k8s\0"):
            return _secret(self.body)
        document: dict[str, Any] = json.loads(self.body)
        return document


def _secret(body: bytes) -> dict[str, Any]:
    """Decodes protobuf: https://github.com/kubernetes/api/blob/master/core/v1/generated.proto"""
    secret = [*_fields(dict(_fields(body[4:]))[2])]
    metadata = [*_fields(dict(secret)[1])]
    labels = {key: value.decode() for key, value in _entries(metadata, 11)}
    return {
        "metadata": {"name": dict(metadata)[1].decode(), "labels": labels},
        "data": {key: base64.b64encode(value).decode() for key, value in _entries(secret, 2)},
        "type": dict(secret)[3].decode(),
    }


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field that is there: a number, or bytes."""
    position = 0

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            value, shift, position = value | (byte & 127) << shift, shift + 7, position + 1
            if byte < 128:
                return value

    while position < len(message):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
        else:
            length = number()
            yield tag >> 3, message[position : position + length]
            position += length


def _entries(fields: Iterable[tuple[int, Any]], number: int) -> Iterator[tuple[str, bytes]]:
    """Key → value, of a protobuf map."""
    for entries, value in fields:
        if entries == number:
            entry = dict(_fields(value))
            yield entry[1].decode(), entry[2]


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
    url = urlsplit(target)
    every = parse_qs(url.query)
    return Request(method, url.path, {key: item[-1] for key, item in every.items()}, every, headers, body)


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
        plain = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
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
                exit_code = code if code > 0 else 128 - code
                causes = [{"reason": "ExitCode", "message": str(exit_code)}]
                status = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                          "message": f"command terminated with exit code {exit_code}",
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


def kubeconfig(port: int) -> str:
    """A kubeconfig for the server at that port of the loopback."""
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
    temporary = folder / ".kubeconfig"
    temporary.write_text(kubeconfig(port))
    temporary.rename(folder / "kubeconfig")
    finished = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, finished.set)
    await finished.wait()
    await cluster.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
