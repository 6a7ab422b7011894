"""Makes an experiment of a Helm release; its components are the release's pods."""

from __future__ import annotations

import asyncio
import copy
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from rltui import paths
from rltui.core import hints
from rltui.core.hosts.kubectl import Kubectl
from rltui.errors import RltuiError, UsageError
from rltui.frameworks.charts import CHART
from rltui.services.experiment.files import ControlFolder
from rltui.services.hosts import kube
from rltui.services.hosts.kube import Pod, PodSet
from rltui.services.own_files import make_folder, write_atomically

FILE = "release.toml"
"""The layout of a release, in the output folder of its experiment."""
_SHARED = ("shell", "sft")
"""Components that no StatefulSet stands for."""


@dataclass(frozen=True, slots=True)
class Release:
    name: str
    kubectl: Kubectl
    sets: tuple[PodSet, ...]
    pods: tuple[Pod, ...]


def read_release(name: str, kubectl: Kubectl) -> Release:
    """Read the release as it is now.

    Raises:
        UsageError: if nothing of it exists.
        RltuiError: if the cluster does not answer.
    """

    async def both() -> Release:
        selector = f"{kube.RELEASE_LABEL}={name}"
        sets, pods = await asyncio.gather(kube.read_sets(kubectl, name), kube.read_pods(kubectl, selector))
        return Release(name, kubectl, sets, pods)

    release = asyncio.run(both())
    if not release.sets and not release.pods:
        where = f" in the namespace {kubectl.namespace}" if kubectl.namespace else ""
        raise UsageError(
            f"release not found: {name}{where}",
            hint=(
                f"list all: {hints.K8S_STATUS}; in another namespace: --namespace NS; create it:"
                f" {hints.K8S_UP(release=name)}"
            ),
        )
    return release


def component_ids(release: Release) -> dict[str, str]:
    """Component → its pod: `trainer`, and of further pods `trainer-1`."""
    ids = {}
    for pod_set in _ordered(release.sets):
        for number in range(max(1, pod_set.replicas)):
            role = pod_set.role or pod_set.name
            ids[role if number == 0 else f"{role}-{number}"] = f"{pod_set.name}-{number}"
    return ids


def _ordered(sets: Iterable[PodSet]) -> list[PodSet]:
    positions = {role: position for position, role in enumerate(CHART.roles)}
    return sorted(sets, key=lambda pod_set: (positions.get(pod_set.role, len(CHART.roles)), pod_set.name))


def write_layout(release: Release, values: Mapping[str, Any], output_dir: Path) -> Path:
    """A layout that fits the release, in its folder. `values`: all of its values, where helm says them.

    Raises:
        RltuiError: if it cannot be written.
    """
    shipped_text = (paths.shipped_dir("layouts") / f"{CHART.layout}.toml").read_text(encoding="utf-8")
    layout = fitted_layout(tomllib.loads(shipped_text), release, values)
    head = f"# The release {release.name}. `{hints.K8S_WATCH(release=release.name)}` rewrites this file.\n\n"
    file = output_dir / FILE
    make_folder(output_dir)
    write_atomically(file, (head + tomlkit.dumps(layout)).encode())
    return file


def fitted_layout(
    shipped_layout: Mapping[str, Any], release: Release, values: Mapping[str, Any]
) -> dict[str, Any]:
    """The shipped layout with a component for each pod that the release has."""
    entries = {entry["id"]: entry for entry in shipped_layout["component"]}
    where = {
        key: value
        for key, value in (("namespace", release.kubectl.namespace), ("context", release.kubectl.context))
        if value
    }
    components: list[dict[str, Any]] = []
    for pod_set in _ordered(release.sets):
        entry = entries.get(pod_set.role) or {"id": pod_set.role or pod_set.name}
        components.extend(_of_set(entry, pod_set, where, _command(pod_set, values)))
    ids = [component["id"] for component in components]
    for component in components:
        if together := [name for name in component.get("restart", {}).get("together", ()) if name in ids]:
            component["restart"]["together"] = together
        else:
            component.pop("restart", None)
    for name in _SHARED:
        entry = copy.deepcopy(entries[name])
        if name == "sft" and (example := values.get("config", {}).get("example")):
            entry["command"][-1] = entry["command"][-1].replace(
                "reverse_text", str(example).replace("-", "_")
            )
        entry["pod"] = {**entry["pod"], **where, "name": entry["pod"]["name"].replace("{name}", release.name)}
        components.append(entry)
    title = f"{release.name} in Kubernetes"
    screen = {**shipped_layout["screen"], "columns": [ids, *shipped_layout["screen"]["columns"][1:]]}
    return {**shipped_layout, "title": title, "component": components, "screen": screen}


def _of_set(
    entry: Mapping[str, Any], pod_set: PodSet, where: Mapping[str, str], command: Sequence[str]
) -> Iterator[dict[str, Any]]:
    role = entry["id"]
    for number in range(max(1, pod_set.replicas)):
        component = copy.deepcopy(dict(entry))
        if number:
            text = json.dumps(component).replace(f"{{port.{role}}}", f"{{port.{role}-{number}}}")
            component = json.loads(text)
            component["id"] = f"{role}-{number}"
        pod = {
            **component.get("pod", {}),
            "name": f"{pod_set.name}-{number}",
            "container": pod_set.container,
            **where,
        }
        component["pod"] = {**pod, "gpus": True} if pod_set.gpus else pod
        if command or "command" not in component:
            component["command"] = list(command) or ["true"]
        yield component


def _command(pod_set: PodSet, values: Mapping[str, Any]) -> list[str]:
    """Command of a sleeping pod: the chart's command for the role, without the sleep behind it."""
    command = kube.without_sleep(pod_set.command) or kube.without_sleep(
        ["sh", "-c", str((values.get(pod_set.role) or {}).get("command") or "")]
    )
    return ["bash", "-c", command] if command else []


def to_follow(release: Release, output_dir: Path) -> tuple[str, ...]:
    """The components whose pods run commands of their own, unless their end was seen already."""
    control = ControlFolder(output_dir)
    pods = {pod.name: pod for pod in release.pods}
    components = []
    for component, name in component_ids(release).items():
        pod = pods.get(name)
        if pod is None or pod.waits:
            continue
        numbers = control.attempts(component)
        if not numbers or not kube.was_followed_to_end(control.attempt_dir(component, numbers[-1]), pod):
            components.append(component)
    return tuple(components)


def pod_of_role(release: Release, role: str) -> Pod:
    """The pod of `trainer`, or of `trainer-1`.

    Raises:
        UsageError: if there is none.
    """
    component_id = component_ids(release).get(role)
    if (pod := next((pod for pod in release.pods if component_id == pod.name), None)) is not None:
        return pod
    known_roles = ", ".join(component_ids(release)) or "none"
    raise UsageError(f"{release.name} has no pod of {role} now", hint=f"available: {known_roles}")


def read_values(release: str, kubectl: Kubectl) -> tuple[Mapping[str, Any], str]:
    """All values of the release; else none, and the reason why they cannot be read."""
    from rltui.services.hosts.helm import Helm

    try:
        return Helm(kubectl).values(release, every=True), ""
    except RltuiError as error:
        return {}, error.title
