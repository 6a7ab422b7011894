"""`k8s`: Helm releases of prime-rl's chart: made, looked at, opened as an experiment, ended."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.cli.app import need_terminal, show
from rltui.cli.arguments import JSON, KEYMAP, NO_TUI, WAIT, YES, name_option, output_dir_option, plan_flag
from rltui.cli.colour import style
from rltui.cli.command import Arguments, argument, command, flag, repeatable
from rltui.cli.consent import require_consent, require_right
from rltui.cli.output import print_json
from rltui.cli.progress import working
from rltui.cli.status_text import print_status
from rltui.cli.table import TableColumn, print_table
from rltui.client import launch
from rltui.client.statuses import read_status
from rltui.core import hints
from rltui.core.experiment.states import Role
from rltui.errors import RltuiError, UsageError
from rltui.frameworks.charts import CHART
from rltui.services.experiment.registry import find_experiment

if TYPE_CHECKING:
    from rltui.core.hosts.kubectl import Kubectl
    from rltui.services.hosts.kube import Pod

_PODS = (
    TableColumn("POD", least=16, cut="middle"),
    TableColumn("STATE"),
    TableColumn("INSIDE", least=12, goes=1),
    TableColumn("RESTARTS", is_right=True, goes=2),
    TableColumn("NODE", least=8, cut="middle", goes=3),
    TableColumn("WHY", least=20),
)


_STATES: Mapping[str, Role] = {
    "runs": "good",
    "by hand": "good",
    "pending": "busy",
    "ending": "busy",
    "ended": "bad",
    "sleeps": "faint",
}


def _kubectl(arguments: Arguments) -> Kubectl:
    from rltui.core.hosts.kubectl import Kubectl

    return Kubectl(arguments.context or "", arguments.namespace or "")


def _pod(arguments: Arguments) -> tuple[Kubectl, Pod]:
    """The pod of the role that is named, and how its cluster is asked."""
    from rltui.client.release import pod_of_role, read_release

    kubectl = _kubectl(arguments)
    return kubectl, pod_of_role(read_release(arguments.release, kubectl), arguments.role)


RELEASE = argument("release", "RELEASE", "name of the release", completes="experiments")
ROLE = (
    RELEASE,
    argument("role", "ROLE", "trainer, inference, …; one of several pods: trainer-1", completes="pod_roles"),
)
PLACE = (
    argument("--namespace", "NAMESPACE", "namespace (default: the context's)"),
    argument("--context", "CONTEXT", "context of the kubeconfig (default: the current one)"),
)
MAKING = (
    RELEASE,
    argument(
        "--chart",
        "FOLDER",
        "folder of the chart (default: that of the checkout)",
        completes="folders",
    ),
    repeatable(
        "-f --values",
        "FILE",
        "values file, or the name of an example of the chart; repeatable",
        completes="files",
    ),
    repeatable("--set", "KEY=VALUE", "set a value, as `helm --set` does; repeatable", dest="edits"),
    flag("--sft", "start sleeping pods (autoStart=false), to run SFT first"),
    plan_flag("show the command and the values; change nothing"),
    YES,
    WAIT,
    *PLACE,
)
_EPILOG = """\
The config of a run in pods is in the image and on /data, where rltui cannot edit it. Its knobs are the values
of the chart: rltui k8s upgrade RELEASE -f FILE --set trainer.command=…
"""


@command(
    "k8s up",
    *MAKING,
    examples=(
        "k8s up my-exp -f reverse-text",
        "k8s up my-exp --sft --plan",
    ),
)
def up(arguments: Arguments) -> int:
    from rltui.cli.releases import apply_values
    from rltui.services.hosts.helm import Helm

    helm = Helm(_kubectl(arguments))
    if helm.release(arguments.release) is not None:
        raise UsageError(
            f"release exists already: {arguments.release}",
            hint=f"change it: {hints.K8S_UPGRADE(release=arguments.release)}; "
            f"open it: {hints.K8S_WATCH(release=arguments.release)}",
        )
    return apply_values(arguments, helm, "install", {})


@command(
    "k8s upgrade",
    *MAKING,
    examples=("k8s upgrade my-exp -f values.yaml --plan",),
)
def upgrade(arguments: Arguments) -> int:
    from rltui.cli.releases import apply_values
    from rltui.services.hosts.helm import Helm

    helm = Helm(_kubectl(arguments))
    if helm.release(arguments.release) is None:
        raise UsageError(
            f"release not found: {arguments.release}",
            hint=f"install it: {hints.K8S_UP(release=arguments.release)}",
        )
    return apply_values(arguments, helm, "upgrade", helm.values(arguments.release, every=False))


@command(
    "k8s status",
    argument("release", "RELEASE", "name of the release (default: all)", nargs="?", completes="experiments"),
    *PLACE,
    JSON,
    examples=(
        "k8s status",
        "k8s status my-exp",
        "k8s status --json",
    ),
    epilog=_EPILOG,
)
def status(arguments: Arguments) -> int:
    import asyncio

    from rltui.cli.releases import read_releases

    kubectl = _kubectl(arguments)
    with working("querying the cluster"):
        releases = asyncio.run(read_releases(kubectl, arguments.release))
    if arguments.json:
        print_json(releases)
        return 0
    if not releases:
        print(f"no release of {CHART.framework}'s chart", file=sys.stderr)
    for release in releases:
        print(style(str(release["release"]), "head"))
        print_table(_PODS, [_row(pod) for pod in release["pods"]], indent="  ")
        for claim in release["claims"]:
            print(f"  data {claim['name']}: {claim['phase']}, {claim['size'] or 'size unknown'}")
    return 0


def _row(pod: Mapping[str, Any]) -> list[str]:
    inside = pod["inside"]
    programs = [] if inside is None else [*inside["own"], *inside["by_hand"]]
    reason = pod["why"]
    if pod["state"] == "ended":
        reason = "its program has ended; the pod sleeps and keeps its devices"
    elif not reason and pod["last_end"] is not None:
        reason = f"before: {pod['last_end']}"
    restarts = str(pod["restarts"]) if pod["restarts"] else ""
    state = style(pod["state"], _STATES.get(pod["state"]))
    return [pod["name"], state, " ".join(programs), restarts, pod["node"], reason]


@command(
    "k8s watch",
    RELEASE,
    name_option("name of the run (default: that of the release)"),
    output_dir_option("local output folder (default: outputs/NAME)"),
    NO_TUI,
    KEYMAP,
    *PLACE,
    JSON,
    examples=("k8s watch my-exp",),
)
def watch(arguments: Arguments) -> int:
    from rltui.cli.releases import follow_release

    kubectl = _kubectl(arguments)
    if not arguments.no_tui:
        need_terminal()
    name = arguments.name or arguments.release
    folder = Path(arguments.output_dir or Path("outputs") / name).absolute()
    experiment = find_experiment(name)
    code = 0
    if experiment is None or not launch.is_running(experiment):
        code = follow_release(arguments.release, kubectl, name, folder, as_json=arguments.json)
    elif arguments.no_tui:
        print_status(read_status(experiment), as_json=arguments.json)
    return code if arguments.no_tui or code else show(launch.choose(name))


@command(
    "k8s logs",
    *ROLE,
    flag("-f --follow", "keep printing new lines until ctrl+c"),
    flag("--previous", "the log of the container before its last restart"),
    *PLACE,
    examples=("k8s logs my-exp trainer -f",),
)
def logs(arguments: Arguments) -> int:
    kubectl, pod = _pod(arguments)
    options = ["--follow"] if arguments.follow else []
    options += ["--previous"] if arguments.previous else []
    command = kubectl.argv("logs", pod.name, f"--container={pod.container}", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="", flush=arguments.follow)
        except BaseException:
            process.terminate()
            raise
    return process.returncode


@command(
    "k8s exec",
    *ROLE,
    argument("command", "COMMAND", "after --: command to run (default: a shell)", nargs="*"),
    *PLACE,
    examples=(
        "k8s exec my-exp trainer",
        "k8s exec my-exp trainer -- nvidia-smi",
    ),
)
def execute(arguments: Arguments) -> int:
    from rltui.services.hosts import kube
    from rltui.services.processes import subprocesses

    kubectl, pod = _pod(arguments)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    command = tuple(arguments.command) or kube.SHELL
    return subprocesses.in_terminal(kubectl.execute(pod.name, pod.container, command, tty=is_terminal))


@command(
    "k8s down",
    RELEASE,
    flag("--delete-data", "also delete the shared volume; asks for its name"),
    flag("--yes", "do not ask about the release"),
    *PLACE,
    examples=("k8s down my-exp",),
)
def down(arguments: Arguments) -> int:
    import asyncio

    from rltui.cli.releases import end_experiment, is_unwanted
    from rltui.services.hosts import kube
    from rltui.services.hosts.helm import Helm
    from rltui.services.processes import subprocesses

    kubectl, name = _kubectl(arguments), arguments.release
    helm = Helm(kubectl)
    is_there = helm.release(name) is not None
    if is_there:
        pods = asyncio.run(kube.read_pods(kubectl, f"{kube.RELEASE_LABEL}={name}"))
        print(f"{name}: {', '.join(pod.name for pod in pods) or 'no pod'}", file=sys.stderr)
        require_right("k8s-uninstall")
        require_consent("k8s-uninstall", arguments, f"uninstall {name}? this ends its pods")
    else:
        print(f"helm has no release {name}", file=sys.stderr)
    claims = asyncio.run(kube.read_volume_claims(kubectl, name))
    unwanted_names = {claim.name for claim in claims if is_unwanted(claim, name, arguments)}
    saved_names = {claim.name for claim in claims} - unwanted_names
    if is_there:
        # Helm deletes them with the rest of prime-rl's chart.
        if at_risk := helm.claims(name) - unwanted_names:
            helm.keep(name, at_risk)
            saved_names |= at_risk
        end_experiment(name)  # first: else its pods are deleted under it, and it has failed
        if (code := subprocesses.in_terminal(helm.argv("uninstall", name))) != 0:
            raise RltuiError(f"helm uninstall failed (exit code {code})", hint="see its output above")
    else:
        end_experiment(name)
    delete = kubectl.argv("delete", "persistentvolumeclaim")
    for claim_name in sorted(unwanted_names):
        subprocesses.check_output((*delete, claim_name, "--wait=false", "--ignore-not-found"), timeout_s=60.0)
        print(f"{claim_name} was deleted", file=sys.stderr)
    for claim_name in sorted(saved_names):
        print(f"{claim_name} is kept; to delete it: {shlex.join((*delete, claim_name))}", file=sys.stderr)
    return 0
