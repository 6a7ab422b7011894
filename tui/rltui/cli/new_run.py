"""`up`, `demo`, `watch`, `rltui CONFIG…`, `down`: experiments are made and ended."""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rltui import paths
from rltui.cli.app import need_terminal, show
from rltui.cli.choosing import choose_experiment
from rltui.cli.colour import paint
from rltui.cli.commands.orphans import change
from rltui.cli.config import WhoseConfig, wanted_devices
from rltui.cli.config_line import staged
from rltui.cli.consent import accepted, require_consent
from rltui.cli.progress import working
from rltui.cli.status_text import print_status, read_status
from rltui.cli.terminal import confirm
from rltui.cli.waiting import StateChanges, painted, plan_of, wait_until_settled
from rltui.client import creation, launch
from rltui.client.checking import cluster_layout
from rltui.client.down import take_down
from rltui.client.jobs import newest_job, previews
from rltui.client.observation import ObservationRequest, observe
from rltui.client.queue import asking
from rltui.client.wire import Wire
from rltui.core import hints
from rltui.core.api import Loss, Plan, Request, Status
from rltui.core.consent import loss_of_plan
from rltui.core.evals import EvalRequest, EvalTarget
from rltui.core.runs import RunOrigin
from rltui.core.text import listed, size_text
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.frameworks.base import Framework
from rltui.services.config.own_copy import Staged
from rltui.services.own_files import make_folder
from rltui.services.queue_file import read_queue
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord, same_folder
from rltui.services.runs.experiments import (
    check_name,
    find_experiment,
    forget,
    known_experiments,
    name_if_needed,
)
from rltui.services.runs.leases import users_of
from rltui.services.runs.run_folder import next_free

_DEMO_FILES = ("rl.toml", "sft.toml")
_DEMO_EVALS = tuple(
    EvalRequest(target=target, max_tokens=112, when_done=True)
    for target in (EvalTarget(kind="base"), EvalTarget(kind="sft"), EvalTarget(kind="now"))
)
"""Before all training, before RL, after it; at the end, so that they slow nothing. An untrained model seldom
comes to an end: as many tokens as the context has room for."""


def open_config(arguments: argparse.Namespace) -> int:
    """Attach to the experiment of this config, or ask, and create it: the TUI asks before anything starts."""
    return _or_submitted(_open_config, arguments)


def _or_submitted(start: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Where a config asks for a cluster and nobody has said that it shall be one, a person is asked."""
    try:
        return start(arguments)
    except creation.ClusterConfigError as error:
        if not sys.stdin.isatty() or not confirm(f"{error.title}. Submit it as a job?"):
            raise
    arguments.slurm = True
    return start(arguments)


def _open_config(arguments: argparse.Namespace) -> int:
    with wanted_run(arguments) as wanted:
        planned, _ = creation.plan_record(wanted)
        known = find_experiment(planned.name)
        if (
            known is not None
            and same_folder(known.output_dir, planned.output_dir)
            and not (arguments.new or arguments.resume or arguments.given.overrides or arguments.given.edits)
        ):
            # Opening changes nothing, so an earlier run can be looked at; the TUI asks before it starts any.
            return show(known)
        creation.examine(wanted)
        need_terminal()
        if not confirm(f"{planned.name} is new: make it in {planned.output_dir}, and open it?"):
            raise UsageError("nothing was made")
        created = creation.create(wanted)
    for note in created.notes:
        print(note, file=sys.stderr)
    return show(created.record)


def watch(arguments: argparse.Namespace) -> int:
    """Observe the run in a folder; from the TUI, or, without one, until `rltui down`."""
    if not arguments.no_tui:
        need_terminal()
    record = observe(
        ObservationRequest(
            folder=Path(arguments.run_dir),
            name=arguments.name,
            layout=arguments.layout,
            framework=arguments.framework,
        )
    )
    if not arguments.no_tui:
        return show(record)
    with launch.reach(record) as wire:
        print_status(wire.call("status"), as_json=arguments.json)
    return 0


def demo(arguments: argparse.Namespace) -> int:
    """Run the shipped example in a folder of its own, so that editing it leaves the original alone."""
    if importlib.util.find_spec("torch") is None:
        raise RltuiError(
            "the demo needs torch, which is not installed",
            hint=f"pip install 'rltui[local]', then `{hints.DEMO}`",
        )
    if not arguments.no_tui:
        need_terminal()
    folder = Path(arguments.output_dir or "outputs/demo").absolute()
    known = find_experiment(folder.name)
    if known is not None and launch.lives(known):
        print(f"the demo runs already in {known.output_dir}", file=sys.stderr)
        if arguments.no_tui:
            print_status(read_status(known), as_json=False)
            return 0
        return show(known)
    if folder.exists():
        # A demo is for watching: each one is a run of its own, the earlier ones stay.
        folder = next_free(folder)
    check_name(folder.name, folder)  # before the folder is made
    wanted = creation.ExperimentRequest(
        config_files=(_copy_example(folder),), name=folder.name, output_dir=folder
    )
    code = start_headless(
        wanted,
        Request(action="start"),
        wait=arguments.no_tui,
        timeout_s=None,
        as_json=False,
        evals=_DEMO_EVALS,
    )
    return code if arguments.no_tui or code else show(launch.choose(folder.name))


def _copy_example(folder: Path) -> Path:
    """Copy the example's config files; return the main one."""
    make_folder(folder)
    for name in _DEMO_FILES:
        shutil.copyfile(paths.shipped_dir("examples") / "reverse_text" / name, folder / name)
    return folder / _DEMO_FILES[0]


def up(arguments: argparse.Namespace) -> int:
    return _or_submitted(_up, arguments)


def _up(arguments: argparse.Namespace) -> int:
    components = tuple(arguments.only.split(",")) if arguments.only else ()
    with wanted_run(arguments) as wanted:
        creation.trust_what_runs(wanted)
        if arguments.dry_run:
            return _print_jobs(wanted)
        if (living := _living_run_of(arguments, wanted)) is not None:
            given = {"name": living.name, "component": components, "wait": arguments.wait}
            asked = argparse.Namespace(action="start", plan=False, yes=True, json=arguments.json, **given)
            return change(asked)
        return start_headless(
            wanted,
            Request(action="start", components=components, resume_step=arguments.resume_step),
            wait=arguments.wait,
            timeout_s=arguments.timeout,
            as_json=arguments.json,
            asked=arguments,
        )


def _living_run_of(
    arguments: argparse.Namespace, wanted: creation.ExperimentRequest
) -> ExperimentRecord | None:
    """The living experiment whose next program a pasted line starts: `orchestrator @ orch.toml` once
    `inference @ infer.toml` runs. `None` for other lines, and where the line sets something in a config.
    """
    if not arguments.given.program or arguments.given.overrides or arguments.given.edits:
        return None
    planned, _ = creation.plan_record(wanted)
    known = find_experiment(planned.name)
    is_it = known is not None and same_folder(known.output_dir, planned.output_dir)
    return known if known is not None and is_it and launch.lives(known) else None


def _print_jobs(wanted: creation.ExperimentRequest) -> int:
    planned, _ = creation.plan_record(wanted)
    with working("writes the job's script"):
        found = previews(planned)
    for preview in found:
        print(f"# {preview.component}: {shlex.join(preview.command)}")
        print(preview.script)
    print("nothing was submitted", file=sys.stderr)
    return 0


def start_headless(
    wanted: creation.ExperimentRequest,
    request: Request,
    *,
    wait: bool,
    timeout_s: float | None,
    as_json: bool,
    evals: Sequence[EvalRequest] = (),
    asked: argparse.Namespace | None = None,
) -> int:
    """Create, start, follow on stderr until all is ready, print the status on stdout; queue the `evals`.

    Where nothing can be started, or shall not be, nothing of it is left either. `asked`: of a command that
    may go back in an earlier run, whether its user agrees to what that loses.
    """
    begun: list[tuple[Wire, Plan, bool]] = []
    agreed = [request]

    def begin(created: creation.Created) -> None:
        for note in created.notes:
            print(note, file=sys.stderr)
        with working("starts its supervisor, and asks it for a plan"):
            wire = launch.reach(created.record)
            plan = plan_of(wire, "plan", request)
        sys.stderr.write(painted(plan))
        if loss_of_plan(plan, request) > request.accepts and asked is not None:
            agreed.append(accepted(plan, request, asked, verb="up"))
        is_agreed = not sys.stdin.isatty() or (asked is not None and asked.yes)
        is_safe = is_agreed or not any(verdict.is_bad for verdict in plan.memory)
        begun.append((wire, plan_of(wire, "execute", agreed[-1]) if is_safe else plan, is_safe))

    created = creation.create(wanted, begin)
    ((wire, plan, has_begun),) = begun
    with wire:
        if not has_begun:  # a person may take their time, and holds up nobody meanwhile
            try:
                is_meant = confirm("start all the same?")
                plan = plan_of(wire, "execute", agreed[-1]) if is_meant else plan
            except (RltuiError, KeyboardInterrupt):
                creation.undo(created)
                raise
            if not is_meant:
                print("nothing was started", file=sys.stderr)
                creation.undo(created)
                return int(ExitCode.FAILED)
        for each in evals:
            wire.call("evaluate", each.model_dump())
        if wait:
            status = wait_until_settled(wire, set(plan.start), timeout_s=timeout_s)
        else:
            status = wire.call("status")
    print_status(status, as_json=as_json)
    return 0


@contextmanager
def wanted_run(arguments: argparse.Namespace) -> Iterator[creation.ExperimentRequest]:
    """What the arguments of `up` and `open` ask for, once it is clear which framework the config is for."""
    checkpoint = getattr(arguments, "resume_step", None)
    if checkpoint is not None and arguments.new:
        raise UsageError("a new run has no checkpoint to continue from", hint="leave out --new")
    earlier = "resume" if arguments.resume or checkpoint is not None else "new" if arguments.new else "ask"
    workspace = Path(arguments.workspace) if arguments.workspace else None
    here = workspace or Path.cwd()
    choose = WhoseConfig(arguments, workspace)
    slurm = _asked_of_slurm(arguments)
    devices = wanted_devices(arguments) if slurm is None else None

    def request(copies: Staged) -> creation.ExperimentRequest:
        return creation.ExperimentRequest(
            config_files=copies.files,
            copies=copies,
            layout=_layout(arguments, copies.files, framework := choose.named(copies.files), workspace),
            framework=framework,
            name=arguments.name,
            output_dir=Path(arguments.output_dir) if arguments.output_dir else None,
            slurm=None if slurm is None else _on_devices(arguments, slurm, choose(copies.files)),
            workspace=workspace,
            checkpoint=checkpoint,
            devices=devices,
            earlier_run=earlier,  # type: ignore[arg-type]  # one of three literals
            inference=()
            if arguments.inference == ["config"]
            else arguments.inference and tuple(arguments.inference),
            inference_of=arguments.inference_of,
            force=arguments.force,
            origin=RunOrigin(entry=getattr(arguments, "entry", ""), group=getattr(arguments, "group", "")),
        )

    with staged(arguments, choose, workspace=here, force=arguments.force) as copies:
        for line in copies.told:
            print(line, file=sys.stderr)
        wanted = request(copies)
        if not (own := creation.own_copies(wanted)):
            yield wanted
            return
    print(f"it goes on with its own copy of the config: {' '.join(map(str, own))}", file=sys.stderr)
    for changed in copies.changed_since(own):
        print(
            f"{changed}: what was changed there since is not in it; "
            f"set it ({hints.SET}), or begin with --new",
            file=sys.stderr,
        )
    arguments.config, arguments.given.parts = list(map(str, own)), []
    with staged(arguments, choose, workspace=here, force=arguments.force) as copies:
        yield request(copies)


def _layout(
    arguments: argparse.Namespace, files: tuple[Path, ...], framework: str | None, workspace: Path | None
) -> str | None:
    if not arguments.slurm or arguments.layout is not None:
        return str(arguments.layout) if arguments.layout is not None else None
    return cluster_layout(files, framework, workspace=workspace)


_OF_JOBS = ("partition", "time", "nodes", "account", "qos", "dependency", "job_name")


JobOptions = Mapping[str, str | bool | tuple[str, ...]]
"""What SLURM is told of the jobs of a run, as `slurm` of a layout says it."""


def _asked_of_slurm(arguments: argparse.Namespace) -> JobOptions | None:
    """What the options say of its jobs; `None`: it is not to be one.

    Raises:
        UsageError: for an option that has no meaning without a job.
    """
    texts = {name: getattr(arguments, name) for name in _OF_JOBS} | {"gpus_per_node": arguments.gpus}
    if arguments.after_run:
        before = [texts["dependency"]] if texts["dependency"] else []
        texts["dependency"] = ",".join([*before, f"afterok:{newest_job(arguments.after_run)}"])
    words = {"options": arguments.slurm_option, "arguments": arguments.launcher_option}
    asked: dict[str, str | bool | tuple[str, ...]] = {
        **{name: text for name, text in texts.items() if text},
        **{name: tuple(value) for name, value in words.items() if value},
        **({"auto_auth": True} if arguments.auto_auth else {}),
        **({"array": array} if (array := getattr(arguments, "array", "")) else {}),
    }
    if arguments.slurm or (arguments.layout is not None and asked):
        return asked
    if getattr(arguments, "dry_run", False):
        raise UsageError(
            "a dry run shows the script of a job, and this is none",
            hint=f"with --slurm; {hints.CHECK} validates a config",
        )
    if asked:
        raise UsageError("what is said of a job has no meaning here", hint="--slurm submits the run as one")
    return None


def _on_devices(arguments: argparse.Namespace, asked: JobOptions, framework: Framework) -> JobOptions:
    """With `--single-gpu` as the launcher that writes the job's script takes it.

    Raises:
        UsageError: where it takes none, or devices of this machine are named.
    """
    if arguments.devices is None and not arguments.single_gpu:
        return asked
    if arguments.devices is not None or not framework.job_on_one_gpu:
        named = "--single-gpu" if arguments.devices is None else "--devices"
        raise UsageError(
            f"{named} chooses among the GPUs of this machine, and a job gets those of its node",
            hint="--gpus N says how many GPUs of each node it gets; the config, who uses which",
        )
    words = asked.get("arguments", ())
    assert isinstance(words, tuple)  # of words: `_asked_of_slurm`
    return {**asked, "arguments": (*words, *framework.job_on_one_gpu)}


def down(arguments: argparse.Namespace) -> int:
    """Stop everything of an experiment, its supervisor included; with `--all`, of each that lives."""
    name = arguments.experiment or arguments.name
    if arguments.all:
        if name:
            raise UsageError(f"--all ends {name}, too", hint=f"one of them: {hints.DOWN(name=name)}")
        return _down_all(arguments)
    try:
        record = choose_experiment(name, acts=not arguments.plan)
    except launch.AmbiguousNameError as error:
        error.hint += f"; all of them: {hints.DOWN_ALL}"
        raise
    plan = _plan_down(record)
    if arguments.plan:
        sys.stdout.write(f"{plan.model_dump_json()}\n" if arguments.json else _plan_lines(plan))
        return 0
    sys.stderr.write(painted(plan))
    try:
        status, ended = _end(record)
    except KeyboardInterrupt:
        return _interrupted(record)
    print(json.dumps(status) if arguments.json else ended)
    return 0


def _interrupted(record: ExperimentRecord) -> int:
    again = hints.STATUS(name=record.name)
    print(f"interrupted; {record.name} goes on being stopped, see: {again}", file=sys.stderr)
    return int(ExitCode.INTERRUPTED)


def _down_all(arguments: argparse.Namespace) -> int:
    """End what lives, newest first: a run that borrows a server is younger than the one that lends it."""
    records = launch.living(known_experiments(), idle=True)
    plans = {record.name: _plan_down(record) for record in records}
    queue = read_queue()
    waiting = 0 if queue.paused else sum(entry.state == "waiting" for entry in queue.entries)
    shown = "".join(
        f"{paint(name, 'head')}\n{textwrap.indent(_plan_lines(plan), '  ')}" for name, plan in plans.items()
    )
    if waiting:
        shown += f"queue: {waiting} run{'s' if waiting > 1 else ''} would start next; it is paused\n"
    if arguments.plan:
        document = [{"experiment": name, **plan.model_dump(mode="json")} for name, plan in plans.items()]
        sys.stdout.write(f"{json.dumps(document)}\n" if arguments.json else shown or "nothing lives\n")
        return 0
    loss = max((loss_of_plan(plan, Request(action="stop")) for plan in plans.values()), default=Loss.NOTHING)
    sys.stderr.write(shown)
    require_consent("down-all", arguments, "end all of these?", loss=loss)
    if waiting:
        asking.pause()
    statuses, problems = [], []
    for record in records:
        try:
            status, ended = _end(record)
        except KeyboardInterrupt:
            return _interrupted(record)
        except RltuiError as error:
            problems.append(f"{record.name}: {error}")
            continue
        statuses.append(status)
        if not arguments.json:
            print(ended, flush=True)
    problems += [f"{record.name} lives" for record in launch.living(known_experiments())]
    if problems:
        raise RltuiError("not all is down:", details=problems, hint=f"see {hints.LS}")
    if arguments.json:
        print(json.dumps(statuses))
    elif not records:
        print("nothing lives")
    if waiting:
        print(f"the queue is paused; to go on: {hints.QUEUE_RESUME}", file=sys.stderr)
    return 0


def _plan_lines(plan: Plan) -> str:
    return painted(plan) or "nothing runs\n"


def _end(record: ExperimentRecord) -> tuple[dict[str, Any], str]:
    """Take `record` down. Of an observed run, only the observation. Returns its status, and how it ended."""
    with StateChanges() as changes:
        done = take_down(record, changes.show)
    if done.left:
        hint = (
            f"once it is reached again: {hints.DOWN(name=record.name)}; see {hints.ORPHANS(name=record.name)}"
        )
        raise RltuiError(f"{record.name} is down, but cannot be ended:", details=done.left, hint=hint)
    status = read_status(record)
    ended = f"{record.name} is down; no process is left"
    if done.unseen:
        ended += f" on this machine. Whether what ssh ran has ended cannot be seen: {', '.join(done.unseen)}"
        ended += " (of what runs on a [[node]] and has no tty, it can)"
    if record.observed:
        forget(record)
        ended = f"{record.name} is not observed any more; the run in {record.run_dir} was left alone"
    elif aside := _set_aside(record):
        print(aside, file=sys.stderr)
    return status, ended


def _plan_down(record: ExperimentRecord) -> Plan:
    """What stops, what of the run is lost, and who is left without its server. Starts no supervisor."""
    wire = None if record.observed else launch.connect(record)
    if wire is None:
        return Plan(action="stop")
    with wire:
        try:
            answer = wire.call("plan", Request(action="stop").model_dump(mode="json"), timeout_s=_PLAN_S)
            plan = Plan.model_validate(answer)
            evals = Status.model_validate(wire.call("status", timeout_s=_PLAN_S)).evals
        except RltuiError as error:  # whatever is wrong, it can be ended
            return Plan(action="stop", reasons=(f"what is lost cannot be said: {error.title}",))
    reasons = list(plan.reasons)
    if users := users_of(record):
        names = listed([user.name for user in users])
        reasons.append(f"{names} used its inference server, and cannot go on without it")
    if waiting := len(evals):
        reasons.append(f"{waiting} evaluation{'s' if waiting > 1 else ''} will not be made")
    return plan.model_copy(update={"reasons": tuple(reasons)})


_PLAN_S = 10.0
"""A supervisor that takes longer hangs."""


def _set_aside(record: ExperimentRecord) -> str:
    """Say what restarts moved out of the way of the run; empty where they moved nothing."""
    from rltui.services.runs.disk import size_of

    archive = ControlFolder(Path(record.output_dir)).archive
    size_bytes = size_of(archive)
    if not size_bytes:
        return ""
    prune = hints.PRUNE_ASIDE(name=name_if_needed(record.name))
    return f"restarts have set {size_text(size_bytes)} aside in {archive}: `{prune}` deletes that"
