"""Pods, through kubectl: commands, and the parsing of their output. Remote runners import it, so it is
small.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui.base.text import parse_whole_number, truncate
from rltui.core.experiment.states import HostPhase
from rltui.core.hosts.kubectl import Kubectl
from rltui.errors import RltuiError
from rltui.services.hosts.job_status import read_job_status
from rltui.services.processes import subprocesses
from rltui.services.processes.attempts import SHIM_PROGRAMS

SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
"""Default command for a person's shell in a pod."""
RELEASE_LABEL = "app.kubernetes.io/instance"
"""A label whose value is the release; `app`, `example` and `role` alone occur on other pods too."""
KEEP_ANNOTATION = "helm.sh/resource-policy"
"""An object with the value `keep` is left alone by helm: https://helm.sh/docs/howto/charts_tips_and_tricks"""
_GPU = "nvidia.com/gpu"
_TIMEOUT_S = 10.0
"""Limit of a simple query, in seconds."""
_SLEEPS = frozenset({"sleep infinity", "tail -f /dev/null"})
"""Commands of containers that wait for `kubectl exec`; the chart's own with `autoStart = false`."""
_WRAPPERS = frozenset({"sh", "bash", "/bin/sh", "/bin/bash"})
_IDLE = frozenset({"sleep", "sh", "bash", "dash", "ash", "tail", "tini", "dumb-init", "pause", "cat", "head"})
"""Names of processes that are not programs of a run; `cat` and `head` are those that read `/proc`."""
_OWN = (b"-I\0-u\0-c\0", b"-I\0-u\0-\0", *map(str.encode, SHIM_PROGRAMS))
"""Parts of command lines of rltui's programs in a pod: an agent, a reader of GPUs, a shim."""
_STAT = re.compile(r"^(\d+) \((.*)\) [^ZX] (\d+) ", re.DOTALL)
"""Matches the stat line of a process that has not ended."""
_PROCESS_COMMAND = (
    "sh",
    "-c",
    "cd /proc; cat [0-9]*/stat 2>/dev/null; head -v -c 400 [0-9]*/cmdline 2>/dev/null; true",
)
"""Two programs for all processes: there may be hundreds."""
_COMMAND_LINE = re.compile(rb"^==> (\d+)/cmdline <==\n", re.MULTILINE)
_MAX_TEXT = 160
_WAITING = {
    "ContainerCreating": "its container is being created",
    "PodInitializing": "its init containers are running",
    "ErrImagePull": "its image cannot be pulled (ErrImagePull)",
    "ImagePullBackOff": "its image cannot be pulled (ImagePullBackOff)",
    "InvalidImageName": "its image name is invalid (InvalidImageName)",
    "CreateContainerConfigError": "its container cannot be created (CreateContainerConfigError)",
    "CreateContainerError": "its container cannot be created (CreateContainerError)",
    "RunContainerError": "its container cannot be started (RunContainerError)",
}


class NoPodError(RltuiError):
    """The cluster has no pod of that name."""


class NoContainerError(RltuiError):
    """The pod has no container of that name."""


@dataclass(frozen=True, slots=True)
class End:
    code: int
    """Exit code; 128 and its number for a signal."""
    reason: str
    """Reason in the cluster's notation: `OOMKilled`, `Error`, `Completed`."""

    @property
    def text(self) -> str:
        """Display text: `exited 1`, `exited 137 (OOMKilled)`."""
        return f"exited {self.code}" + (
            f" ({self.reason})" if self.reason not in ("", "Error", "Completed") else ""
        )


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod and one container of it, as the cluster describes them."""

    name: str
    uid: str
    container: str
    command: tuple[str, ...]
    """Command of the container; empty: that of its image."""
    phase: HostPhase
    reason: str = ""
    """Reason why it does not run; empty if it runs."""
    restarts: int = 0
    started_at: str = ""
    is_terminating: bool = False
    """True if it was deleted, and is being stopped."""
    end: End | None = None
    """End of the container if it does not run; else the end of its previous start."""
    owner: tuple[str, str] = ("", "")
    """Kind and name of its creator, such as a StatefulSet."""
    node: str = ""
    release: str = ""
    role: str = ""
    """Role by its labels, as in the chart of prime-rl."""
    is_ready: bool = False

    @property
    def instance(self) -> str:
        """Identifies this start of its container."""
        return f"{self.uid}/{self.restarts}"

    @property
    def waits(self) -> bool:
        """True if its command does nothing, so that others can be run in it."""
        return _shell_text(self.command) in _SLEEPS

    @property
    def sleeps_after_program(self) -> bool:
        """True if it sleeps on when its command has finished, however that ended."""
        return not self.waits and any(text in _shell_text(self.command) for text in _SLEEPS)


@dataclass(frozen=True, slots=True)
class ContainerPrograms:
    """Names of the programs that run in a container."""

    own: tuple[str, ...]
    """Programs of its own command."""
    by_hand: tuple[str, ...]
    """Programs of commands that were run in it by `kubectl exec`."""


def _shell_text(command: Sequence[str]) -> str:
    """The script of a shell command, or the arguments joined."""
    argv = list(command)
    if argv[:1] and argv[0] in _WRAPPERS and len(argv) >= 3:
        argv = argv[2:]
    return " ".join(argv).strip()


def without_sleep(command: Sequence[str]) -> str:
    """The script of a chart's command, without the sleep after it."""
    text = _shell_text(command)
    for sleep in _SLEEPS:
        text = re.sub(rf"\s*(;|&&|\|\|)\s*{re.escape(sleep)}\s*$", "", text)
    return "" if text in _SLEEPS else text


# --- what the cluster says ---


def pod_of(document: Mapping[str, Any], container: str = "") -> Pod:
    """Parse a pod from a document of the API, with the container of that name, else its first.

    Raises:
        NoContainerError: if it has none of that name.
        RltuiError: if the document describes no pod.
    """
    try:
        return _pod(document, container)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise RltuiError(f"unexpected pod description from the cluster: {error!r}") from error


def _pod(document: Mapping[str, Any], container: str) -> Pod:
    metadata, spec, status = document["metadata"], document["spec"], document.get("status", {})
    names = [item["name"] for item in spec["containers"]]
    if container and container not in names:
        raise NoContainerError(
            f"the pod {metadata['name']} has no container {container}", hint=f"it has: {', '.join(names)}"
        )
    container_spec = next(item for item in spec["containers"] if item["name"] == (container or names[0]))
    container_status: Mapping[str, Any] = next(
        (item for item in status.get("containerStatuses") or () if item["name"] == container_spec["name"]), {}
    )
    state = container_status.get("state") or {}
    terminated = (state if "terminated" in state else container_status.get("lastState") or {}).get(
        "terminated"
    )
    end = None if terminated is None else End(int(terminated["exitCode"]), terminated.get("reason", ""))
    owners = metadata.get("ownerReferences") or [{}]
    phase, reason = _phase(status, state, end)
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        container=container_spec["name"],
        command=(*(container_spec.get("command") or ()), *(container_spec.get("args") or ())),
        phase=phase,
        reason=reason,
        restarts=int(container_status.get("restartCount", 0)),
        started_at=(state.get("running") or {}).get("startedAt") or "",
        is_terminating=bool(metadata.get("deletionTimestamp")),
        end=end,
        owner=(owners[0].get("kind", ""), owners[0].get("name", "")),
        node=spec.get("nodeName", ""),
        release=(metadata.get("labels") or {}).get(RELEASE_LABEL, ""),
        role=(metadata.get("labels") or {}).get("role", ""),
        is_ready=bool(container_status.get("ready")),
    )


def _phase(status: Mapping[str, Any], state: Mapping[str, Any], end: End | None) -> tuple[HostPhase, str]:
    """Return the pod's phase, which is `ended` only if nothing starts it again, and the reason for it."""
    if status.get("phase") in ("Succeeded", "Failed"):
        texts = filter(None, (end.text if end is not None else "", status.get("reason")))
        return "ended", ", ".join(texts) or status["phase"].lower()
    if "running" in state:
        return "running", ""
    waiting = state.get("waiting") or {}
    if (reason := waiting.get("reason", "")) == "CrashLoopBackOff":
        end_text = f"it {end.text}, and " if end is not None else ""
        return "pending", f"{end_text}restarts after a delay (CrashLoopBackOff)"
    if "terminated" in state:
        return "pending", f"it {end.text if end is not None else 'ended'}, and restarts"
    if (problem := _scheduling_problem(status)) or reason in ("", "ContainerCreating", "PodInitializing"):
        return "pending", problem or _WAITING.get(reason, "its node has not started it yet")
    message = waiting.get("message", "")
    return "pending", _truncate(f"{_WAITING.get(reason, reason)}{f': {message}' if message else ''}")


def _scheduling_problem(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            message = condition.get("message", "").split(" preemption:")[0].rstrip(". ")
            return _truncate(f"no node can run it: {message or condition.get('reason', 'unknown')}")
    return ""


def _truncate(text: str) -> str:
    return truncate(" ".join(text.split()), _MAX_TEXT)


def parse_programs(output: bytes) -> ContainerPrograms:
    """Parse the programs in a container from the lines of its `/proc/*/stat` and the command lines after
    them.
    """
    stats, *command_lines = _COMMAND_LINE.split(output)
    lines = dict(zip(map(int, command_lines[::2]), command_lines[1::2], strict=True))
    processes: dict[int, tuple[str, int]] = {}
    for line in stats.decode(errors="replace").splitlines():
        if match := _STAT.match(line):
            processes[int(match[1])] = (match[2], int(match[3]))
    own: dict[str, None] = {}
    by_hand: dict[str, None] = {}
    for pid, (name, _) in sorted(processes.items()):
        line = lines.get(pid, b"")
        if name not in _IDLE and not any(marker in line for marker in _OWN):
            (own if _descends(pid, processes) else by_hand)[_program_name(name, line)] = None
    return ContainerPrograms(tuple(own), tuple(by_hand))


def _program_name(name: str, line: bytes) -> str:
    """The name; for an interpreter, its script or module."""
    if not name.startswith("python"):
        return name
    argv = line.decode(errors="replace").split("\0")[1:]
    for index, argument in enumerate(argv[:-1]):
        if argument == "-m":
            return argv[index + 1]
        if not argument.startswith("-"):
            return argument.rpartition("/")[2]
        if argument == "-c":
            break
    return name


def _descends(pid: int, processes: Mapping[int, tuple[str, int]]) -> bool:
    """True for PID 1 and its descendants; processes of `kubectl exec` have a parent outside."""
    for _ in range(len(processes) + 1):
        if pid == 1:
            return True
        if pid not in processes:
            return False
        pid = processes[pid][1]
    return False


# --- asking ---


async def kubectl_output(command: Sequence[str]) -> bytes:
    """Output of a command of kubectl.

    Raises:
        NoPodError: if its object does not exist.
        RltuiError: if it fails, or does not answer in time.
    """
    outcome = await subprocesses.run(command, timeout_s=_TIMEOUT_S)
    if outcome.code is None:
        raise RltuiError(f"kubectl has not answered for {_TIMEOUT_S:.0f} s")
    if outcome.failure is not None:
        raise failure(outcome.errors, outcome.failure)
    return outcome.output


def failure(errors: bytes, default: str = "kubectl failed") -> RltuiError:
    lines = [line.strip() for line in errors.decode(errors="replace").splitlines() if line.strip()]
    message = _truncate(lines[-1]) if lines else default
    message = re.sub(r"^(error: |Error from server(?: \(\w+\))?: )", "", message)
    if "(NotFound)" in errors.decode(errors="replace"):
        return NoPodError(message)
    return RltuiError(message)


async def read_pods(kubectl: Kubectl, selector: str) -> tuple[Pod, ...]:
    """All pods with these labels, by name, each with its first container.

    Raises:
        RltuiError: if the cluster does not answer.
    """
    output = await kubectl_output(kubectl.argv("get", "pods", "-l", selector, "-o", "json"))
    return tuple(sorted((pod_of(item) for item in _document(output)["items"]), key=lambda pod: pod.name))


async def read_programs(kubectl: Kubectl, pod: Pod) -> ContainerPrograms:
    """The programs in its container.

    Raises:
        RltuiError: if they cannot be read.
    """
    output = await kubectl_output(kubectl.execute(pod.name, pod.container, _PROCESS_COMMAND))
    return parse_programs(output)


def was_followed_to_end(attempt: Path, pod: Pod) -> bool:
    """True if that attempt of a component has followed this very container to the end of its program."""
    status = read_job_status(attempt)
    return status is not None and status.phase == "ended" and status.id == pod.instance


@dataclass(frozen=True, slots=True)
class PodSet:
    """A StatefulSet of a release, and the command of its pods."""

    name: str
    role: str
    replicas: int
    container: str
    command: tuple[str, ...]
    gpus: int
    """Number of GPUs that its container requests."""
    is_rolled_out: bool
    """True if no pod from before an upgrade is left."""


async def read_sets(kubectl: Kubectl, release: str) -> tuple[PodSet, ...]:
    """The StatefulSets of a release, by name.

    Raises:
        RltuiError: if the cluster does not answer.
    """
    output = await kubectl_output(
        kubectl.argv("get", "statefulsets", "-l", f"{RELEASE_LABEL}={release}", "-o", "json")
    )
    try:
        sets = [_set(item) for item in _document(output)["items"]]
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise RltuiError(f"unexpected StatefulSet description from the cluster: {error!r}") from error
    return tuple(sorted(sets, key=lambda item: item.name))


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
class VolumeClaim:
    """A PersistentVolumeClaim of a release."""

    name: str
    phase: str
    size: str
    is_kept: bool = False
    """True if it survives an upgrade of its release that does not contain it."""


async def read_volume_claims(kubectl: Kubectl, release: str) -> tuple[VolumeClaim, ...]:
    """The volume claims of a release: those with its label, and the one that the chart names after it.

    Raises:
        RltuiError: if the cluster does not answer.
    """
    output = await kubectl_output(kubectl.argv("get", "persistentvolumeclaims", "-o", "json"))
    claims = []
    for item in _document(output).get("items", ()):
        metadata, status = item["metadata"], item.get("status") or {}
        if release in (
            (metadata.get("labels") or {}).get(RELEASE_LABEL),
            metadata["name"].removesuffix("-shared-data"),
        ):
            size = (status.get("capacity") or {}).get("storage", "")
            is_kept = (metadata.get("annotations") or {}).get(KEEP_ANNOTATION) == "keep"
            claims.append(VolumeClaim(metadata["name"], status.get("phase", ""), size, is_kept))
    return tuple(claims)


@dataclass(frozen=True, slots=True)
class PodHandle:
    """A pod by its name, whether it exists or not, and the StatefulSet in its name.

    Its queries raise RltuiError if the cluster does not answer.
    """

    kubectl: Kubectl
    name: str
    container: str = ""

    @property
    def owner(self) -> tuple[str, int]:
        """The StatefulSet and the number in it; -1 if the name is not that of such a pod."""
        owner, _, number = self.name.rpartition("-")
        ordinal = parse_whole_number(number)
        return (owner, ordinal) if owner and ordinal is not None else (self.name, -1)

    async def read(self) -> Pod:
        """The pod's current state. Raises NoPodError, NoContainerError."""
        output = await kubectl_output(self.kubectl.argv("get", "pod", self.name, "-o", "json"))
        return pod_of(_document(output), self.container)

    async def replicas(self) -> int:
        """Number of pods that its StatefulSet specifies. Raises NoPodError if there is none."""
        owner, number = self.owner
        if number < 0:
            raise NoPodError(f"{self.name} is not the name of a StatefulSet's pod")
        output = await kubectl_output(
            self.kubectl.argv("get", f"statefulset/{owner}", "-o", "jsonpath={.spec.replicas}")
        )
        return int(output or b"1")

    async def scale(self, replicas: int, target: int) -> None:
        """Scale its StatefulSet, if that still has `replicas`: others may scale it at the same time."""
        counts = (f"--current-replicas={replicas}", f"--replicas={target}")
        await kubectl_output(self.kubectl.argv("scale", f"statefulset/{self.owner[0]}", *counts))

    async def take_away(self) -> None:
        """Scale its StatefulSet below it; a pod without one is deleted."""
        try:
            replicas = await self.replicas()
        except NoPodError:
            await self.delete()
            return
        if replicas > self.owner[1]:
            await self.scale(replicas, self.owner[1])

    async def delete(self, *, at_once: bool = False) -> None:
        """Delete it; its StatefulSet creates it again. Raises NoPodError."""
        options = ("--grace-period=0", "--force") if at_once else ()
        await kubectl_output(self.kubectl.argv("delete", "pod", self.name, *options, "--wait=false"))

    def logs(self, *options: str) -> tuple[str, ...]:
        """The command that prints its output, each line after its time."""
        container_option = [f"--container={self.container}"] if self.container else []
        return self.kubectl.argv("logs", self.name, *container_option, "--timestamps", *options)


def _document(output: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(output)
    except ValueError as error:
        raise RltuiError(f"kubectl did not print JSON: {_truncate(repr(output[:80]))}") from error
    if not isinstance(document, dict):
        raise RltuiError("kubectl did not print a JSON object")
    return document
