"""Config files on the command line: whose they are, what is wrong with them, whether they can be started."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.base.interpreter import OWN_PYTHON
from rltui.base.template import GIVEN, Missing, TemplateValue, placeholders, render
from rltui.base.text import count_text, did_you_mean, join_words
from rltui.core import hints
from rltui.core.config.report import Blocker, Check, KnobTable, Problem, ProblemSeverity
from rltui.core.experiment.layout import ComponentSpec, Layout
from rltui.core.experiment.servers import ServerAddress, server_fault
from rltui.core.gpu.report import MemoryVerdict
from rltui.errors import ConfigError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.frameworks.generic import GENERIC
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import CONFIG
from rltui.services.config.config_file import read_file
from rltui.services.config.document import ConfigDocument
from rltui.services.config.files import detect, load_files, located
from rltui.services.config.models import FrameworkModels, informed
from rltui.services.config.origins import original_files
from rltui.services.config.readers import shared_configs
from rltui.services.experiment import layout_files
from rltui.services.experiment.checkout import NearbyCheckout
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.probes import judged_servers
from rltui.services.experiment.registry import default_output_dir, known_experiments

_OF_THE_BOX = "gpus."
"""Placeholders of devices: what lacks is told with the memory plan."""
_PROGRAMS = "run"
"""Directories of the framework's programs: without them a config can be checked, but not started."""


def identify(
    config_files: tuple[Path, ...],
    layout: str | None,
    framework: str | None = None,
    *,
    workspace: Path | None = None,
) -> tuple[Framework, Path]:
    """The framework and the layout file that suit these config files.

    `workspace`: where the components will run, by default here; what is installed there helps to tell.

    Raises:
        AmbiguousConfigError: if the files suit several frameworks, and `framework` does not say which.
        ConfigError: if a file is missing or malformed, or the framework or layout is unknown.
    """
    if not config_files and layout is None:
        raise UsageError("no config and no layout given", hint="name a config file, or a layout with -l")
    _refuse_layouts(config_files)
    workspace = workspace or Path.cwd()
    folder = original_files(config_files)[0].parent if config_files else Path.cwd()
    if layout is None:
        framework_choice = (
            registry.get(framework) if framework is not None else detect(config_files, workspace=workspace)
        )
        files = load_files(config_files, framework_choice)
        return framework_choice, layout_files.find(registry.layout_for(framework_choice, files), folder)
    layout_file = layout_files.find(layout, folder)
    expected_name = layout_files.load(layout_file).framework
    if framework is not None and layout_file.stem in registry.get(framework).layouts.values():
        return registry.get(framework), layout_file
    if expected_name and framework is not None and expected_name != framework:
        raise ConfigError(
            f"{layout_file} is for {expected_name}, not for {framework}",
            hint="leave out --framework or --layout",
        )
    if expected_name:
        return registry.get(expected_name, named_in=str(layout_file)), layout_file
    if framework is not None:
        return registry.get(framework), layout_file
    if not config_files:
        return GENERIC, layout_file
    try:
        return detect(config_files, workspace=workspace), layout_file
    except registry.UnknownConfigError:
        return registry.get("generic"), layout_file


def cluster_layout(config_files: tuple[Path, ...], framework: str | None, *, workspace: Path | None) -> str:
    """Name of the shipped layout that runs these files as SLURM jobs.

    Raises:
        ConfigError: as `identify`, or if there is none.
    """
    identified, _ = identify(config_files, None, framework, workspace=workspace)
    return registry.cluster_layout_for(identified, load_files(config_files, identified))


def _refuse_layouts(config_files: Iterable[Path]) -> None:
    for path in config_files:
        tables = read_file(path).data.get("component")
        if isinstance(tables, list) and all(
            isinstance(table, dict) and "command" in table for table in tables
        ):
            raise ConfigError(
                f"{path} is a layout, not a config",
                hint=f"use it with -l {path}, and add a config if its commands need one",
            )


def check(
    config_files: tuple[Path, ...],
    layout: str | None,
    framework: str | None = None,
    *,
    workspace: Path | None = None,
    devices: str | None = None,
    with_memory: bool = False,
    ask_models: bool = False,
    starting: bool = False,
    inference: Sequence[str] = (),
    is_lent: bool = False,
) -> Check:
    """Validate; no side effects. `workspace` as for `identify`.

    `with_memory` also reads the GPUs, and says what will fit, on `devices` where those are given; and asks
    the servers of others, without which the run would hang. These are sent no key.
    `ask_models` asks the framework's own models, where its checkout is found, which takes seconds; what they
    take, no rule of ours refuses.
    `starting`: what would stand in the way of a start is an error too. `inference`: addresses of servers that
    the run is sent to, in place of one of its own; `is_lent` as in `Framework.sent_to`.
    """
    framework_of_files, layout_file = identify(config_files, layout, framework, workspace=workspace)
    framework_of_files = framework_of_files.fitted(runnable_layout(layout_file))
    framework_of_files = (
        framework_of_files.sent_to(inference, is_lent=is_lent) if inference else framework_of_files
    )
    with closing(FrameworkModels(framework_of_files, workspace or Path.cwd())) as models:
        framework_of_files = models.informed(config_files, ask=ask_models)
        document = ConfigDocument(config_files, framework_of_files)
        files = document.load()
        is_accepted = ask_models and models.accepts(files)
        if is_accepted:
            document.accept(files)
        has_models = framework_of_files.config.models is not None
        not_asked = (models.reason or "" if ask_models else "--no-own") if has_models else ""
        problems = document.problems()
        problems += models.problems(files, problems) if ask_models else ()
    layout_of_files = _with_instances(layout_file, framework_of_files, files)
    problems += shared_configs(document.base())
    problems += tuple(map(_uses, framework_of_files.servers.addresses(files)))
    run = _Run(layout_file, layout_of_files, framework_of_files, files, workspace or Path.cwd())
    unknown_placeholders, blockers = _start_problems(run)
    problems += unknown_placeholders
    if starting:  # what programs it lacks is told where they are looked for
        problems += tuple(Problem(message=blocker.text) for blocker in blockers)
    memory: tuple[MemoryVerdict, ...] = ()
    blockers = tuple({blocker.reason: blocker for blocker in (*blockers, *_missing_programs(run))}.values())
    if with_memory:
        memory, few_devices = _memory(config_files, run, devices)
        warnings, dead_servers = _dead_servers(run)
        problems += warnings
        blockers += (*few_devices, *dead_servers)
    is_valid = not any(problem.is_error for problem in problems)
    problems += _of_earlier_release(framework_of_files, files, config_files) if problems else ()
    return Check(
        valid=is_valid,
        validator=_validator(framework_of_files, files, is_accepted=is_accepted),
        not_asked=not_asked,
        startable=is_valid and not blockers,
        blockers=blockers,
        framework=framework_of_files.id,
        layout=str(layout_file),
        problems=problems,
        derived=framework_of_files.config.derive(files),
        memory=memory,
    )


def knobs(config_files: tuple[Path, ...], layout: str | None, framework: str | None = None) -> KnobTable:
    """Every knob of a config that need never have run, by its files and the checkout that will read them; no
    side effects.
    """
    framework_of_files, layout_file = identify(config_files, layout, framework)
    framework_of_files = framework_of_files.fitted(runnable_layout(layout_file))
    framework_of_files = informed(framework_of_files, Path.cwd(), config_files, ask=True)
    files = load_files(config_files, framework_of_files)
    layout_of_files = _with_instances(layout_file, framework_of_files, files)
    components = [spec.id for spec in layout_of_files.component]
    document = ConfigDocument(
        config_files, framework_of_files, components=components, launched=layout_of_files.launched
    )
    return document.knob_table({})


def _of_earlier_release(
    framework: Framework, files: ConfigFiles, config_files: Sequence[Path]
) -> tuple[Problem, ...]:
    """A hint that converts the files, if they are for an earlier release than the one that will read them."""
    if (migration := framework.migration) is None or not files:
        return ()
    source, reader = migration.source([*files.values()]), migration.of_schemas(framework.given.schemas)
    if reader is None and framework.config.fit([(file.path, file.data) for file in files.values()]) == 0:
        return ()
    reader = reader or [known for known in migration.releases if known.framework == framework.id][-1]
    if source.day >= reader.day:
        return ()
    to = f"{registry.family_of(framework.id)}@{reader.name}"
    command = hints.CONVERT_RELEASE(to=to, files=list(original_files(config_files)))
    return (Problem(severity="hint", message=f"the config is for {source.label}", mended_by=command),)


def _with_instances(layout_file: Path, framework: Framework, files: ConfigFiles) -> Layout:
    """The layout with a component for each instance that the config says, without what somebody else runs."""
    return layout_files.with_instances(
        runnable_layout(layout_file),
        framework.launch.instances(files),
        layout_file,
        without=framework.servers.external(files),
    )


def _uses(server: ServerAddress) -> Problem:
    """A hint that names the external server, as no inference component starts."""
    key = f", with the key in {server.key_variable}" if server.key_variable else ""
    return Problem(
        severity="hint", message=f"no inference server will be started; the run uses {server.url}{key}"
    )


def runnable_layout(layout_file: Path) -> Layout:
    """The layout to run a config with.

    Raises:
        ConfigError: if it is malformed, or runs nothing.
    """
    layout = layout_files.load(layout_file)
    if not layout.component:
        raise ConfigError(
            f"{layout_file} follows the logs of a run started elsewhere; it starts nothing itself",
            hint=hints.WATCH(layout=layout_file),
        )
    return layout


@dataclass(frozen=True, slots=True)
class _Run:
    """A run as it would be started."""

    layout_file: Path
    layout: Layout
    framework: Framework
    files: ConfigFiles
    workspace: Path

    @property
    def checkout(self) -> NearbyCheckout | None:
        project, paths = self.framework.checkout, [Path(file.path) for file in self.files.values()]
        return NearbyCheckout(project, workspace=self.workspace, config_files=paths) if project else None


def _validator(framework: Framework, files: ConfigFiles, *, is_accepted: bool) -> str:
    if is_accepted:
        return f"{framework.title}'s own validators"
    dates = framework.config.schema_dates(files)
    return f"the shipped schema of {join_words(dates)}" if dates else ""


def _memory(
    config_files: tuple[Path, ...], run: _Run, devices: str | None
) -> tuple[tuple[MemoryVerdict, ...], tuple[Blocker, ...]]:
    """The forecast for the devices of this machine; and a blocker if there are too few of them."""
    from rltui.client.gpu import PlannedStart  # reads the GPUs, which only `rltui check` does
    from rltui.services.gpu.account import read_once

    is_here = run.layout.run_here == run.layout.automatic and not run.layout.submits
    count = run.framework.gpu_needs.count(run.files) if is_here else None
    try:
        record = _present_record(config_files, run)
        report = read_once(record.name)
        if count and not report.available:
            reason = f"{count_text(count, 'GPU')} needed, 0 found"
            return (), (Blocker(reason=reason, hint=report.reason or ""),)
        record = record if devices is None else replace(record, devices=devices)
        return PlannedStart(record, run.layout, run.framework, run.files, report).verdicts(), ()
    except ConfigError as error:
        return (), (Blocker(reason=error.title, hint=error.hint),)


def _dead_servers(run: _Run) -> tuple[tuple[Problem, ...], tuple[Blocker, ...]]:
    """A warning at the key of each server of others that cannot be used, and a blocker with what helps; a
    hint where a check cannot tell.
    """
    is_here = run.layout.run_here == run.layout.automatic
    servers = [server for server in run.framework.servers.further(run.files) if is_here or not server.is_here]
    problems, blockers = [], []
    for server, state, reason in judged_servers(servers):
        if state == "ready":
            continue
        file = run.files.get(server.key.partition(".")[0]) or next(iter(run.files.values()))
        message, is_unknown = server_fault(server, state, reason), state == "unknown"
        severity: ProblemSeverity = "hint" if is_unknown else "warning"
        problems.append(Problem(severity=severity, key=server.key, message=message, file=file.path))
        is_servable = state == "down" and server.component
        hint = f"to serve it here: {hints.UP_ONLY(component=server.component)}" if is_servable else ""
        condition = "does not answer" if state == "down" else "cannot be used"
        if is_here and not is_unknown:  # another machine may reach it
            blockers.append(Blocker(reason=f"{server.id} {condition}", hint=hint))
    return located(problems, run.files), tuple(blockers)


def _present_record(config_files: tuple[Path, ...], run: _Run) -> ExperimentRecord:
    """The newest experiment with these files, or copies of them, else the one that would be made here."""
    files = original_files(path.absolute() for path in config_files)
    for record in known_experiments():
        is_same = set(original_files(record.config_paths)) == set(files)
        if is_same and record.framework == run.framework.id:
            return record
    workspace = run.workspace.absolute()
    output_dir = workspace / (
        run.framework.run.output_dir(run.files) or default_output_dir(config_files or [run.layout_file])
    )
    return ExperimentRecord(
        name=output_dir.name,
        output_dir=str(output_dir),
        workspace=str(workspace),
        config_files=tuple(map(str, config_files)),
        layout_file=str(run.layout_file),
        framework=run.framework.id,
        created_at=0.0,
        run_dir=str(output_dir / run.layout.run_dir),
        instances=run.framework.launch.instances(run.files),
    )


def _missing_programs(run: _Run) -> Iterator[Blocker]:
    """Blockers for programs that are not installed: of the framework, or commands of the layout."""
    components = run.layout.automatic
    if run.checkout is not None and any(_PROGRAMS in placeholders(spec.templates) for spec in components):
        prefix = run.checkout.run_prefix()
        if isinstance(prefix, Missing):
            yield Blocker(reason=prefix.reason, hint=prefix.hint)
    if packages := [name for name in run.framework.own_packages if importlib.util.find_spec(name) is None]:
        yield Blocker(reason=f"{join_words(packages)} not installed", hint="pip install 'rltui[local]'")
    for spec in run.layout.run_here:
        program = spec.command[0]
        is_looked_up = not (placeholders([program]) or "/" in program or "PATH" in spec.env)
        if is_looked_up and shutil.which(program) is None:
            yield Blocker(reason=f"program of {spec.id} not found: {program}")


def _start_problems(run: _Run) -> tuple[tuple[Problem, ...], tuple[Blocker, ...]]:
    """Errors of unknown placeholders, and blockers for those without a value, one for each reason.

    A missing value is no error: the config may be sound and ask for something that this layout does not do.
    """
    problems: dict[str, Problem] = {}
    blockers: dict[str, Blocker] = {}
    context = RunContext(
        submits=run.layout.submits,
        workspace=str(run.workspace),
        output_dir=str(run.workspace),
        python=OWN_PYTHON,
        traits=run.checkout.traits() if run.checkout else None,
    )
    common = run.framework.launch.template_values(run.files, context)
    resolutions = run.framework.launch.resolutions(run.files, context)
    for spec in run.layout.component:
        values = {**common, **run.layout.node_values(spec.id)}
        if _is_there(spec, values, run.workspace):
            continue
        for name in sorted(placeholders(spec.templates)):
            if spec.is_manual and (name.startswith(GIVEN) or name in values):
                continue  # it may never be started
            value = values.get(name)
            file = name.removeprefix(CONFIG)
            if file != name and any(
                resolution.makes([file]) and file not in resolution.optional for resolution in resolutions
            ):
                continue  # the framework makes it as the component starts
            if name not in values:
                known_names = f"known: {', '.join('{' + placeholder + '}' for placeholder in sorted(values))}"
                hint = did_you_mean(name, values) or known_names
                message = f"component {spec.id!r}: unknown placeholder {{{name}}}; {hint}"
                problems.setdefault(name, Problem(message=message, file=str(run.layout_file)))
            elif isinstance(value, Missing) and not name.startswith(_OF_THE_BOX) and name != _PROGRAMS:
                blockers.setdefault(value.reason, Blocker(reason=value.reason, hint=value.hint))
    return tuple(problems.values()), tuple(blockers.values())


def _is_there(spec: ComponentSpec, values: Mapping[str, TemplateValue], workspace: Path) -> bool:
    """True if the output of this job exists already: it is not run."""
    try:
        return bool(spec.creates) and (workspace / render(spec.creates, values, where=spec.id)).exists()
    except ConfigError:
        return False
