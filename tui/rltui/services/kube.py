"""Pods, through kubectl: what to run, and what its answers mean. Followers import it, so it stays small."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rltui.core.text import whole_number
from rltui.errors import RltuiError
from rltui.services import subprocesses
from rltui.services.job_status import read_job_status

SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
"""What a person gets in a pod who names no command."""
RELEASE_LABEL = "app.kubernetes.io/instance"
"""Its value is the release; `app`, `example` and `role` alone are those of others too."""
KEEP_ANNOTATION = "helm.sh/resource-policy"
"""With the value `keep`, helm leaves an object alone: https://helm.sh/docs/howto/charts_tips_and_tricks"""
_GPU = "nvidia.com/gpu"
_ANSWER_S = 10.0
"""Of a command that asks for one thing."""
_SLEEPS = frozenset({"sleep infinity", "tail -f /dev/null"})
"""Commands of containers that wait for `kubectl exec`; the chart's own with `autoStart = false`."""
_WRAPPERS = frozenset({"sh", "bash", "/bin/sh", "/bin/bash"})
_IDLE = frozenset({"sleep", "sh", "bash", "dash", "ash", "tail", "tini", "dumb-init", "pause", "cat", "head"})
"""Names of processes that are no program of a run; `cat` and `head` are the ones that look."""
_OWN = (b"-I\0-u\0-c\0", b"-I\0-u\0-\0", b"rltui/daemon/shim/")
"""In command lines of what rltui runs in a pod: an agent, a reader of GPUs, a shim."""
_STAT = re.compile(r"^(\d+) \((.*)\) [^ZX] (\d+) ", re.DOTALL)
"""Of one that has not ended."""
_LOOK = ("sh", "-c", "cd /proc; cat [0-9]*/stat 2>/dev/null; head -v -c 400 [0-9]*/cmdline 2>/dev/null; true")
"""Two programs for all processes: there may be hundreds."""
_COMMAND_LINE = re.compile(rb"^==> (\d+)/cmdline <==\n", re.MULTILINE)
_LONGEST_WORDS = 160
_WAITING = {
    "ContainerCreating": "its container is being made",
    "PodInitializing": "its init containers run",
    "ErrImagePull": "its image cannot be pulled (ErrImagePull)",
    "ImagePullBackOff": "its image cannot be pulled (ImagePullBackOff)",
    "InvalidImageName": "the name of its image is none (InvalidImageName)",
    "CreateContainerConfigError": "its container cannot be made (CreateContainerConfigError)",
    "CreateContainerError": "its container cannot be made (CreateContainerError)",
    "RunContainerError": "its container cannot be started (RunContainerError)",
}


class NoPodError(RltuiError):
    """There is no such pod."""


class NoContainerError(RltuiError):
    """The pod has no container of that name."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Which cluster, and where in it. Empty: as kubectl itself has it."""

    context: str = ""
    namespace: str = ""

    def words(self, *words: str) -> tuple[str, ...]:
        where = [f"--context={self.context}"] if self.context else []
        where += [f"--namespace={self.namespace}"] if self.namespace else []
        return ("kubectl", *where, *words)

    def execute(
        self, pod: str, container: str, command: Sequence[str], *, tty: bool = False
    ) -> tuple[str, ...]:
        """`command` in a pod; with `tty`, in this terminal."""
        into = [f"--container={container}"] if container else []
        return self.words("exec", "-it" if tty else "-i", pod, *into, "--", *command)


def pod_words(host: Mapping[str, Any], *, tty: bool = False) -> tuple[str, ...]:
    """What goes before a command that shall run in the pod of a layout's entry, filled in."""
    kubectl = Kubectl(host["context"], host["namespace"])
    return kubectl.execute(host["name"], host["container"], (), tty=tty)


@dataclass(frozen=True, slots=True)
class End:
    code: int
    """128 and its number where a signal ended it."""
    reason: str
    """The cluster's word: `OOMKilled`, `Error`, `Completed`."""

    @property
    def text(self) -> str:
        """For people: `exited 1`, `exited 137 (OOMKilled)`."""
        return f"exited {self.code}" + (
            f" ({self.reason})" if self.reason not in ("", "Error", "Completed") else ""
        )


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod and one container of it, as the cluster tells of them."""

    name: str
    uid: str
    container: str
    command: tuple[str, ...]
    """Of the container; empty: as its image says."""
    phase: Literal["pending", "running", "ended"]
    why: str = ""
    """Why it does not run, in words; empty where it runs."""
    restarts: int = 0
    started_at: str = ""
    is_leaving: bool = False
    """It was deleted, and is being ended."""
    end: End | None = None
    """How the container ended, where it does not run; else the one before it."""
    owner: tuple[str, str] = ("", "")
    """Kind and name of what made it, such as a StatefulSet."""
    node: str = ""
    release: str = ""
    role: str = ""
    """By its labels, as the chart of prime-rl has them."""
    is_ready: bool = False

    @property
    def instance(self) -> str:
        """Names this start of its container."""
        return f"{self.uid}/{self.restarts}"

    @property
    def waits(self) -> bool:
        """Its command does nothing, so that others can be run in it."""
        return _shell_text(self.command) in _SLEEPS

    @property
    def outlives_its_program(self) -> bool:
        """It sleeps on when its command has done its work, however that ended."""
        return not self.waits and any(text in _shell_text(self.command) for text in _SLEEPS)


@dataclass(frozen=True, slots=True)
class Inside:
    """Which programs run in a container, by their names."""

    own: tuple[str, ...]
    """Of its own command."""
    by_hand: tuple[str, ...]
    """Of commands that were run in it, `kubectl exec`."""


def _shell_text(command: Sequence[str]) -> str:
    """What a shell is told, or the words themselves."""
    words = list(command)
    if words[:1] and words[0] in _WRAPPERS and len(words) >= 3:
        words = words[2:]
    return " ".join(words).strip()


def without_sleep(command: Sequence[str]) -> str:
    """What the shell of a chart's command is told, without the sleep behind it."""
    text = _shell_text(command)
    for sleep in _SLEEPS:
        text = re.sub(rf"\s*(;|&&|\|\|)\s*{re.escape(sleep)}\s*$", "", text)
    return "" if text in _SLEEPS else text


# --- what the cluster says ---


def pod_of(document: Mapping[str, Any], container: str = "") -> Pod:
    """The pod of a document of the API, and its container of that name, else its first.

    Raises:
        NoContainerError: if it has none of that name.
        RltuiError: if the document is none of a pod.
    """
    try:
        return _pod(document, container)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise RltuiError(
            f"the cluster describes a pod in a way that rltui does not know: {error!r}"
        ) from error


def _pod(document: Mapping[str, Any], container: str) -> Pod:
    metadata, spec, status = document["metadata"], document["spec"], document.get("status", {})
    names = [each["name"] for each in spec["containers"]]
    if container and container not in names:
        raise NoContainerError(
            f"the pod {metadata['name']} has no container {container}", hint=f"it has: {', '.join(names)}"
        )
    chosen = next(each for each in spec["containers"] if each["name"] == (container or names[0]))
    found: Mapping[str, Any] = next(
        (each for each in status.get("containerStatuses") or () if each["name"] == chosen["name"]), {}
    )
    state = found.get("state") or {}
    ended = (state if "terminated" in state else found.get("lastState") or {}).get("terminated")
    end = None if ended is None else End(int(ended["exitCode"]), ended.get("reason", ""))
    owners = metadata.get("ownerReferences") or [{}]
    phase, why = _phase(status, state, end)
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        container=chosen["name"],
        command=(*(chosen.get("command") or ()), *(chosen.get("args") or ())),
        phase=phase,
        why=why,
        restarts=int(found.get("restartCount", 0)),
        started_at=(state.get("running") or {}).get("startedAt") or "",
        is_leaving=bool(metadata.get("deletionTimestamp")),
        end=end,
        owner=(owners[0].get("kind", ""), owners[0].get("name", "")),
        node=spec.get("nodeName", ""),
        release=(metadata.get("labels") or {}).get(RELEASE_LABEL, ""),
        role=(metadata.get("labels") or {}).get("role", ""),
        is_ready=bool(found.get("ready")),
    )


def _phase(
    status: Mapping[str, Any], state: Mapping[str, Any], end: End | None
) -> tuple[Literal["pending", "running", "ended"], str]:
    """`ended`: nothing starts it again."""
    if status.get("phase") in ("Succeeded", "Failed"):
        said = status.get("reason") or ""
        words = [end.text] if end is not None else []
        return "ended", ", ".join([*words, *([said] if said else [])]) or status["phase"].lower()
    if "running" in state:
        return "running", ""
    waiting = state.get("waiting") or {}
    if (reason := waiting.get("reason", "")) == "CrashLoopBackOff":
        how = f"it {end.text}, and " if end is not None else ""
        return "pending", f"{how}is started again after a pause (CrashLoopBackOff)"
    if "terminated" in state:
        return "pending", f"it {end.text if end is not None else 'ended'}, and is started again"
    if (why := _unscheduled(status)) or reason in ("", "ContainerCreating", "PodInitializing"):
        return "pending", why or _WAITING.get(reason, "its node has not begun with it")
    message = waiting.get("message", "")
    return "pending", _short(f"{_WAITING.get(reason, reason)}{f': {message}' if message else ''}")


def _unscheduled(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            message = condition.get("message", "").split(" preemption:")[0].rstrip(". ")
            return _short(f"no node takes it: {message or condition.get('reason', 'unknown')}")
    return ""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_WORDS else f"{text[: _LONGEST_WORDS - 1]}…"


def inside_of(said: bytes) -> Inside:
    """What runs in a container, by the lines of its `/proc/*/stat` and the command lines behind them."""
    stats, *told = _COMMAND_LINE.split(said)
    lines = dict(zip(map(int, told[::2]), told[1::2], strict=True))
    processes: dict[int, tuple[str, int]] = {}
    for line in stats.decode(errors="replace").splitlines():
        if found := _STAT.match(line):
            processes[int(found[1])] = (found[2], int(found[3]))
    own: dict[str, None] = {}
    by_hand: dict[str, None] = {}
    for pid, (name, _) in sorted(processes.items()):
        line = lines.get(pid, b"")
        if name not in _IDLE and not any(mark in line for mark in _OWN):
            (own if _descends(pid, processes) else by_hand)[_called(name, line)] = None
    return Inside(tuple(own), tuple(by_hand))


def _called(name: str, line: bytes) -> str:
    """Of an interpreter, the script or module that it runs."""
    if not name.startswith("python"):
        return name
    words = line.decode(errors="replace").split("\0")[1:]
    for at, word in enumerate(words[:-1]):
        if word == "-m":
            return words[at + 1]
        if not word.startswith("-"):
            return word.rpartition("/")[2]
        if word == "-c":
            break
    return name


def _descends(pid: int, processes: Mapping[int, tuple[str, int]]) -> bool:
    """Of PID 1, or it itself; what `kubectl exec` starts has a parent outside."""
    for _ in range(len(processes) + 1):
        if pid == 1:
            return True
        if pid not in processes:
            return False
        pid = processes[pid][1]
    return False


# --- asking ---


async def asked(command: Sequence[str]) -> bytes:
    """What a command of kubectl prints.

    Raises:
        NoPodError: if what it is about is not there.
        RltuiError: if it fails, or says nothing in time.
    """
    done = await subprocesses.run(command, timeout_s=_ANSWER_S)
    if done.code is None:
        raise RltuiError(f"kubectl has not answered for {_ANSWER_S:.0f} s")
    if done.failure is not None:
        raise failure(done.errors, done.failure)
    return done.output


def failure(errors: bytes, otherwise: str = "kubectl failed") -> RltuiError:
    lines = [line.strip() for line in errors.decode(errors="replace").splitlines() if line.strip()]
    said = _short(lines[-1]) if lines else otherwise
    said = re.sub(r"^(error: |Error from server(?: \(\w+\))?: )", "", said)
    if "(NotFound)" in errors.decode(errors="replace"):
        return NoPodError(said)
    return RltuiError(said)


async def read_pods(kubectl: Kubectl, selector: str) -> tuple[Pod, ...]:
    """All with these labels, by name; of each the first container.

    Raises:
        RltuiError: if nobody answers.
    """
    said = await asked(kubectl.words("get", "pods", "-l", selector, "-o", "json"))
    return tuple(sorted((pod_of(each) for each in _document(said)["items"]), key=lambda pod: pod.name))


async def read_inside(kubectl: Kubectl, pod: Pod) -> Inside:
    """What runs in its container.

    Raises:
        RltuiError: if nobody can look.
    """
    said = await asked(kubectl.execute(pod.name, pod.container, _LOOK))
    return inside_of(said)


def seen_to_end(attempt: Path, pod: Pod) -> bool:
    """Whether that attempt of a component has followed this very container to the end of its program."""
    before = read_job_status(attempt)
    return before is not None and before.phase == "ended" and before.id == pod.instance


@dataclass(frozen=True, slots=True)
class PodSet:
    """A StatefulSet of a release, and what its pods run."""

    name: str
    role: str
    replicas: int
    container: str
    command: tuple[str, ...]
    gpus: int
    """That its container asks for."""
    is_rolled_out: bool
    """No pod of before an upgrade is left."""


async def read_sets(kubectl: Kubectl, release: str) -> tuple[PodSet, ...]:
    """Those of a release, by name.

    Raises:
        RltuiError: if nobody answers.
    """
    said = await asked(kubectl.words("get", "statefulsets", "-l", f"{RELEASE_LABEL}={release}", "-o", "json"))
    try:
        found = [_set(each) for each in _document(said)["items"]]
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise RltuiError(
            f"the cluster describes a StatefulSet as rltui does not know it: {error!r}"
        ) from error
    return tuple(sorted(found, key=lambda each: each.name))


def _set(document: Mapping[str, Any]) -> PodSet:
    metadata, spec, status = document["metadata"], document["spec"], document.get("status") or {}
    container = spec["template"]["spec"]["containers"][0]
    limits = (container.get("resources") or {}).get("limits") or {}
    newest = status.get("updateRevision", "")
    return PodSet(
        name=metadata["name"],
        role=(metadata.get("labels") or {}).get("role")
        or spec["template"]["metadata"]["labels"].get("role", ""),
        replicas=int(spec.get("replicas", 1)),
        container=container["name"],
        command=(*(container.get("command") or ()), *(container.get("args") or ())),
        gpus=int(limits.get(_GPU, 0)),
        is_rolled_out=status.get("observedGeneration", 0) >= metadata.get("generation", 0)
        and status.get("currentRevision", "") == newest,
    )


@dataclass(frozen=True, slots=True)
class Claim:
    name: str
    phase: str
    size: str
    is_kept: bool = False
    """It stays when an upgrade of its release makes it no more."""


async def read_claims(kubectl: Kubectl, release: str) -> tuple[Claim, ...]:
    """The shared data of a release: those with its label, and the one that the chart names after it.

    Raises:
        RltuiError: if nobody answers.
    """
    said = await asked(kubectl.words("get", "persistentvolumeclaims", "-o", "json"))
    found = []
    for each in _document(said).get("items", ()):
        metadata, status = each["metadata"], each.get("status") or {}
        if release in (
            (metadata.get("labels") or {}).get(RELEASE_LABEL),
            metadata["name"].removesuffix("-shared-data"),
        ):
            size = (status.get("capacity") or {}).get("storage", "")
            is_kept = (metadata.get("annotations") or {}).get(KEEP_ANNOTATION) == "keep"
            found.append(Claim(metadata["name"], status.get("phase", ""), size, is_kept))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PodHandle:
    """A pod by its name, whether it is there or not, and the StatefulSet that its name tells of.

    What it asks raises RltuiError where nobody answers.
    """

    kubectl: Kubectl
    name: str
    container: str = ""

    @property
    def owner(self) -> tuple[str, int]:
        """Its StatefulSet, and its number there; -1 where its name is none of such a pod."""
        owner, _, number = self.name.rpartition("-")
        ordinal = whole_number(number)
        return (owner, ordinal) if owner and ordinal is not None else (self.name, -1)

    async def read(self) -> Pod:
        """As it is now. Raises NoPodError, NoContainerError."""
        said = await asked(self.kubectl.words("get", "pod", self.name, "-o", "json"))
        return pod_of(_document(said), self.container)

    async def replicas(self) -> int:
        """How many pods its StatefulSet shall have. Raises NoPodError where there is none."""
        owner, number = self.owner
        if number < 0:
            raise NoPodError(f"{self.name} is no name of a StatefulSet's pod")
        said = await asked(
            self.kubectl.words("get", f"statefulset/{owner}", "-o", "jsonpath={.spec.replicas}")
        )
        return int(said or b"1")

    async def scale(self, replicas: int, wanted: int) -> None:
        """Its StatefulSet, if that still is at `replicas`: others may scale it at the same time."""
        counts = (f"--current-replicas={replicas}", f"--replicas={wanted}")
        await asked(self.kubectl.words("scale", f"statefulset/{self.owner[0]}", *counts))

    async def take_away(self) -> None:
        """Scale its StatefulSet below it; a pod that none makes is deleted."""
        try:
            replicas = await self.replicas()
        except NoPodError:
            await self.delete()
            return
        if replicas > self.owner[1]:
            await self.scale(replicas, self.owner[1])

    async def delete(self, *, at_once: bool = False) -> None:
        """Its StatefulSet makes it anew. Raises NoPodError."""
        options = ("--grace-period=0", "--force") if at_once else ()
        await asked(self.kubectl.words("delete", "pod", self.name, *options, "--wait=false"))

    def logs(self, *options: str) -> tuple[str, ...]:
        """The command that prints its output, each line behind its time."""
        into = [f"--container={self.container}"] if self.container else []
        return self.kubectl.words("logs", self.name, *into, "--timestamps", *options)


def _document(said: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(said)
    except ValueError as error:
        raise RltuiError(f"kubectl answers what is no JSON: {_short(repr(said[:80]))}") from error
    if not isinstance(document, dict):
        raise RltuiError("kubectl answers with something else than an object")
    return document
