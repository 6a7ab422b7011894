"""Releases of a chart on Kubernetes: made, looked at, followed by an experiment, ended."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rltui.cli.colour import style
from rltui.cli.command import Arguments
from rltui.cli.consent import require_consent, require_right
from rltui.cli.new_run import start_headless
from rltui.cli.progress import Waiting, working
from rltui.cli.status_text import print_status
from rltui.cli.terminal import confirm, prompt
from rltui.cli.waiting import state_changes
from rltui.client import creation, launch
from rltui.client.down import shut_down
from rltui.client.draft import ConfiguredRequest
from rltui.client.release import FILE, read_release, read_values, to_follow, write_layout
from rltui.client.statuses import read_status
from rltui.core import hints
from rltui.core.experiment.request import ExperimentRequest
from rltui.core.hosts.kubectl import Kubectl
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.charts import CHART
from rltui.services.experiment.checkout import NearbyCheckout
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import find_experiment
from rltui.services.hosts import kube
from rltui.services.hosts.helm import Helm, ReleaseRequest, chart_folder, flat, values_files
from rltui.services.hosts.kube import ContainerPrograms, Pod, VolumeClaim
from rltui.services.processes import subprocesses

_POLL_S = 2.0
"""Seconds between two polls of pods that are waited for."""


def apply_values(
    arguments: Arguments, helm: Helm, verb: Literal["install", "upgrade"], before: Mapping[str, Any]
) -> int:
    values_request = _values_request(arguments)
    with working("asking helm for the values"):
        values, claims = values_request.values(helm, verb)
        if verb == "upgrade":
            _refuse_to_lose(helm.claims(values_request.name) - claims, values_request.name, helm.kubectl)
    command = helm.argv(*values_request.argv(verb))
    print(shlex.join(command), file=sys.stderr)
    changes = list(_changes(dict(flat(before)), dict(flat(values))))
    for line in changes or ["  all values are those of the chart" if not before else "  no value changes"]:
        print(line, file=sys.stderr)
    if arguments.plan:
        print("nothing was done", file=sys.stderr)
        return 0
    require_right("k8s-install")
    require_consent("k8s-install", arguments, f"{verb} {values_request.name}?")
    if (code := subprocesses.in_terminal(command)) != 0:
        raise RltuiError(f"helm {verb} failed (exit code {code})", hint="see its output above")
    if arguments.wait:
        _wait_for_pods(values_request.name, helm.kubectl)
    print(f"open it: {hints.K8S_WATCH(release=values_request.name)}{_where(helm.kubectl)}", file=sys.stderr)
    if (
        arguments.wait
        and (record := _experiment_of(values_request.name)) is not None
        and not launch.is_running(record)
    ):
        return follow_release(
            values_request.name, helm.kubectl, record.name, Path(record.output_dir), as_json=False
        )
    return 0


def _refuse_to_lose(dropped_claims: Set[str], release: str, kubectl: Kubectl) -> None:
    """An upgrade deletes what the chart makes no more, unless the object itself says that it stays."""
    if not dropped_claims:
        return
    kept_claims = {
        claim.name for claim in asyncio.run(kube.read_volume_claims(kubectl, release)) if claim.is_kept
    }
    if lost := sorted(dropped_claims - kept_claims):
        command = kubectl.argv("annotate", "persistentvolumeclaim", *lost, f"{kube.KEEP_ANNOTATION}=keep")
        raise ConflictError(
            f"with these values, helm would delete {', '.join(lost)} and all checkpoints of {release}",
            hint=f"to keep it: {shlex.join(command)}",
        )


def _values_request(arguments: Arguments) -> ReleaseRequest:
    checkout_spec = registry.get(CHART.framework).checkout
    assert checkout_spec is not None
    chart = chart_folder(arguments.chart, NearbyCheckout(checkout_spec, workspace=Path.cwd()).folder)
    sets = list(arguments.edits)
    if arguments.sft:
        sets += [f"{role}.autoStart=false" for role in CHART.roles]
    if arguments.namespace and not any(setting.startswith("namespace=") for setting in sets):
        sets.append(f"namespace={arguments.namespace}")  # the chart puts its objects where this value says
    return ReleaseRequest(arguments.release, chart, values_files(arguments.values, chart), tuple(sets))


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """A line for each value, or for each that is another than before."""
    for key in sorted({*before, *after}):
        if before.get(key) == after.get(key):
            continue
        new = style(_line(after[key]), "good") if key in after else "default of the chart"
        old = f"{_line(before[key])} → " if key in before else ""
        yield f"  {key} = {old}{new}"


def _line(value: str) -> str:
    return " ⏎ ".join(line.strip() for line in value.splitlines() if line.strip())


def _wait_for_pods(name: str, kubectl: Kubectl) -> None:
    """Wait until each pod's container has run. Ctrl+c ends the wait, and nothing else."""
    started_at = time.monotonic()
    with Waiting() as waiting:
        printed_states: dict[str, str] = {}
        while True:
            release = read_release(name, kubectl)
            pods = {pod.name: pod for pod in release.pods}
            remaining_count = 0
            for pod_set in release.sets:
                for number in range(pod_set.replicas):
                    pod = pods.get(f"{pod_set.name}-{number}")
                    text = _why_awaited(pod, is_new=pod_set.is_rolled_out)
                    remaining_count += bool(text)
                    line = f"{pod_set.name}-{number}: {text or 'runs'}"
                    if printed_states.get(f"{pod_set.name}-{number}") != line:
                        waiting.show(f"{pod_set.name}-{number}", line, since=started_at if text else None)
                        printed_states[f"{pod_set.name}-{number}"] = line
            if not remaining_count:
                return
            time.sleep(_POLL_S)


def _why_awaited(pod: Pod | None, *, is_new: bool) -> str:
    if pod is None:
        return "not created yet"
    if pod.is_terminating or not is_new:
        return "being replaced"
    return pod.reason


def _where(kubectl: Kubectl) -> str:
    options = [("--namespace", kubectl.namespace), ("--context", kubectl.context)]
    return "".join(f" {option} {value}" for option, value in options if value)


async def read_releases(kubectl: Kubectl, release_name: str | None) -> list[dict[str, Any]]:
    selector = f"{kube.RELEASE_LABEL}={release_name}" if release_name else CHART.selector
    pods = await kube.read_pods(kubectl, selector)
    names = [release_name] if release_name else sorted({pod.release for pod in pods})
    inside = await asyncio.gather(*(_look_inside(kubectl, pod) for pod in pods))
    claims = await asyncio.gather(*(_claims(kubectl, name) for name in names))
    if release_name and not pods and not claims[0] and not await kube.read_sets(kubectl, release_name):
        raise UsageError(f"release not found: {release_name}", hint=f"all releases: {hints.K8S_STATUS}")
    return [
        {
            "release": name,
            "pods": [
                _pod_document(pod, programs)
                for pod, programs in zip(pods, inside, strict=True)
                if pod.release == name
            ],
            "claims": [asdict(claim) for claim in of_release],
        }
        for name, of_release in zip(names, claims, strict=True)
    ]


async def _look_inside(kubectl: Kubectl, pod: Pod) -> ContainerPrograms | None:
    """Programs in the pod; `None` where nobody can look."""
    if pod.phase != "running":
        return None
    try:
        return await kube.read_programs(kubectl, pod)
    except RltuiError:
        return None


async def _claims(kubectl: Kubectl, name: str) -> tuple[VolumeClaim, ...]:
    """Volume claims of the release; none where the user may not list them."""
    try:
        return await kube.read_volume_claims(kubectl, name)
    except RltuiError:
        return ()


def _pod_document(pod: Pod, inside: ContainerPrograms | None) -> dict[str, Any]:
    programs = None if inside is None else {"own": inside.own, "by_hand": inside.by_hand}
    return {
        "name": pod.name,
        "role": pod.role,
        "state": _state(pod, inside),
        "phase": pod.phase,
        "why": pod.reason,
        "ready": pod.is_ready,
        "inside": programs,
        "restarts": pod.restarts,
        "last_end": None if pod.end is None else pod.end.text,
        "node": pod.node,
        "started_at": pod.started_at,
    }


def _state(pod: Pod, inside: ContainerPrograms | None) -> str:
    if pod.is_terminating:
        return "ending"
    if pod.phase != "running":
        return pod.phase
    if pod.waits:
        return "by hand" if inside is not None and inside.by_hand else "sleeps"
    if pod.sleeps_after_program and inside is not None and not inside.own:
        return "ended"
    return "runs"


def follow_release(release_name: str, kubectl: Kubectl, name: str, folder: Path, *, as_json: bool) -> int:
    """Make the experiment `name` of a release, anew where it is there; follow what its pods run."""
    with working("reading the release from the cluster"):
        release = read_release(release_name, kubectl)
        values, unknown = read_values(release_name, kubectl)
    if unknown:
        print(f"sleeping pods get the commands of the shipped layout: {unknown}", file=sys.stderr)
    layout = write_layout(release, values, folder)
    components = to_follow(release, folder)
    request = ExperimentRequest(
        layout=str(layout),
        name=name,
        output_dir=folder,
        components=components,
        is_loss_accepted=True,  # nothing is lost, whatever its plan says of the steps: the pods run already
    )
    run = ConfiguredRequest.plain(request)
    if components:
        return start_headless(run, wait=False, timeout_s=None, as_json=as_json)
    run.trust_programs()
    print_status(read_status(creation.create(run).record), as_json=as_json)
    return 0


def end_experiment(name: str) -> None:
    if (record := _experiment_of(name)) is not None and launch.is_running(record):
        with state_changes() as changes:
            shut_down(record, changes.show)


def _experiment_of(release: str) -> ExperimentRecord | None:
    """Find the experiment of its name that follows its pods; `None` where there is none."""
    record = find_experiment(release)
    return record if record is not None and Path(record.layout_file).name == FILE else None


def is_unwanted(claim: VolumeClaim, release: str, arguments: Arguments) -> bool:
    """True if a person wants the claim deleted; without an answer it stays."""
    claim_text = f"{claim.name} ({claim.size or 'size unknown'}): all checkpoints and outputs of {release}"
    if not sys.stdin.isatty():
        return bool(arguments.delete_data and arguments.yes)
    if arguments.delete_data:
        return prompt(f"delete {claim_text}? type its name:") == claim.name
    return not arguments.yes and confirm(f"delete {claim_text}?")
