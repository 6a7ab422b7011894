"""Config files on the command line: whose they are, what is wrong with them, whether they can be started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from rltui.core import hints
from rltui.core.config_report import Check, ForeignConfig, KnobTable, Problem
from rltui.core.gpu.report import MemoryVerdict
from rltui.core.interpreter import OWN_PYTHON
from rltui.core.layout import ComponentSpec, Layout
from rltui.core.servers import ServerAddress
from rltui.core.template import GIVEN, Missing, TemplateValue, placeholders, render
from rltui.core.text import did_you_mean
from rltui.errors import ConfigError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFile, ConfigFiles, Framework, RunContext
from rltui.frameworks.generic import CONFIG, GENERIC
from rltui.services import layout_files
from rltui.services.checkout import lacking, traits
from rltui.services.config.diff import text_diff
from rltui.services.config.editor import shared_configs
from rltui.services.config.files import detect, load_files
from rltui.services.config.models import FrameworkModels
from rltui.services.config.origins import original_files
from rltui.services.config.source import parse_file, read_file
from rltui.services.config.store import ConfigStore

_OF_THE_BOX = "gpus."
"""Placeholders of devices: what lacks is told with the memory plan."""
_PROGRAMS = "run"
"""Where the framework's programs are: without them a config can be looked at, and not be started."""


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
        raise UsageError("no config and no layout is named", hint="name a config file, or a layout with -l")
    _refuse_layouts(config_files)
    workspace = workspace or Path.cwd()
    folder = original_files(config_files)[0].parent if config_files else Path.cwd()
    if layout is None:
        chosen = (
            registry.get(framework) if framework is not None else detect(config_files, workspace=workspace)
        )
        roles = load_files(config_files, chosen).sources
        return chosen, layout_files.find(registry.layout_for(chosen, roles), folder)
    layout_file = layout_files.find(layout, folder)
    wanted = layout_files.load(layout_file).framework
    if framework is not None and layout_file.stem in registry.get(framework).layouts.values():
        return registry.get(framework), layout_file
    if wanted and framework is not None and wanted != framework:
        raise ConfigError(
            f"{layout_file} is for {wanted}, not for {framework}", hint="leave --framework out, or --layout"
        )
    if wanted:
        return registry.get(wanted, named_in=str(layout_file)), layout_file
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
    chosen, _ = identify(config_files, None, framework, workspace=workspace)
    return registry.cluster_layout_for(chosen, load_files(config_files, chosen).sources)


def _refuse_layouts(config_files: Iterable[Path]) -> None:
    for path in config_files:
        tables = read_file(path).data.get("component")
        if isinstance(tables, list) and all(isinstance(each, dict) and "command" in each for each in tables):
            raise ConfigError(
                f"{path} is a layout, which says what to run, and no config",
                hint=f"use it with -l {path}, and name a config beside it where its commands need one",
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

    `with_memory` also reads the GPUs, and says what will fit, on `devices` where those are given.
    `ask_models` asks the framework's own models, where its checkout is found, which takes seconds; what they
    take, no rule of ours refuses.
    `starting`: what would stand in the way of a start is an error too. `inference`: addresses of servers that
    the run is sent to, in place of one of its own; `is_lent` as in `Framework.sent_to`.
    """
    chosen, layout_file = identify(config_files, layout, framework, workspace=workspace)
    chosen = chosen.fitted(runnable_layout(layout_file))
    chosen = chosen.sent_to(inference, is_lent=is_lent) if inference else chosen
    with closing(FrameworkModels(chosen, workspace or Path.cwd())) as models:
        chosen = models.informed(config_files, ask=ask_models)
        store = ConfigStore(list(config_files), chosen)
        sources = store.load_sources()
        is_accepted = ask_models and models.accepts(sources)
        own = "accepted by its own classes" if is_accepted else ""
        if is_accepted:
            store.accept(sources)
        elif ask_models and models.reason and chosen.config_models is not None:
            own = f"its own classes were not asked: {models.reason}"
        problems = store.problems()
        problems += models.problems(sources, problems) if ask_models else ()
    files = sources.files
    loaded = layout_files.with_instances(
        runnable_layout(layout_file), chosen.instances(files), layout_file, without=chosen.external(files)
    )
    problems += shared_configs(store.base())
    problems += tuple(map(_uses, chosen.inference_servers(files)))
    in_the_way = (
        *_programs_lacking(chosen, config_files, workspace or Path.cwd()),
        *_start_problems(layout_file, loaded, chosen, files, workspace or Path.cwd()),
    )
    problems += (
        tuple(each.model_copy(update={"severity": "error"}) for each in in_the_way)
        if starting
        else in_the_way
    )
    memory: tuple[MemoryVerdict, ...] = ()
    if with_memory and not in_the_way:
        memory, here = _memory(config_files, layout_file, loaded, chosen, files, devices)
        problems += here
    return Check(
        valid=not any(problem.severity == "error" for problem in problems),
        startable=not in_the_way,
        own=own,
        framework=chosen.id,
        layout=str(layout_file),
        problems=problems,
        derived=chosen.derive(files),
        memory=memory,
    )


def knobs(config_files: tuple[Path, ...], layout: str | None, framework: str | None = None) -> KnobTable:
    """Every knob of a config that need never have run, by its files and the checkout that will read them; no
    side effects.
    """
    chosen, layout_file = identify(config_files, layout, framework)
    chosen = chosen.fitted(runnable_layout(layout_file))
    with closing(FrameworkModels(chosen, Path.cwd())) as models:
        chosen = models.informed(config_files)
    store = ConfigStore(list(config_files), chosen)
    instances = chosen.instances(store.load())
    loaded = layout_files.with_instances(
        runnable_layout(layout_file), instances, layout_file, without=chosen.external(store.files)
    )
    components = [spec.id for spec in loaded.component]
    store = ConfigStore(list(config_files), chosen, components=components, launched=loaded.launched)
    return store.knob_table({})


def _uses(server: ServerAddress) -> Problem:
    """So that nobody wonders where the server is."""
    key = f", with the key in {server.key_variable}" if server.key_variable else ""
    return Problem(
        severity="hint", message=f"no inference server is started: the run uses the one at {server.url}{key}"
    )


def converted(path: Path, framework: str, new: Path | None) -> ForeignConfig:
    """The config file `path` written for another framework, into `new` or beside it; nothing is written.

    Where a checkout of that framework is near, its own schemas count.

    Raises:
        ConfigError: if the file is not valid, or there is no way from its framework to the other.
    """
    chosen, to = detect([path], workspace=Path.cwd()), registry.get(framework)
    new = (new or path.with_name(f"{path.stem}.{framework}.toml")).absolute()
    loaded = load_files([path], chosen)
    with closing(FrameworkModels(to, Path.cwd())) as models:
        to = models.informed([path])
    made = chosen.converted(loaded.files, to)
    if made is None:
        faults = [each.text for each in ConfigStore([path], chosen).problems() if each.severity == "error"]
        raise ConfigError(
            f"{path} ({chosen.title}) cannot be written for {to.title}",
            details=faults,
            hint="mend the file first" if faults else "there is a way from vf-rl's files to prime-rl",
        )
    source = parse_file(new, made.text.encode())
    problems = to.check({"rl": ConfigFile("rl", str(new), source.data)})
    return ForeignConfig(
        framework=to.id,
        path=str(new),
        text=made.text,
        diff=text_diff(loaded.sources["rl"].text, made.text, new.name),
        notes=made.notes,
        problems=problems,
        valid=not any(each.severity == "error" for each in problems),
    )


def runnable_layout(layout_file: Path) -> Layout:
    """The layout to run a config with.

    Raises:
        ConfigError: if it is malformed, or runs nothing.
    """
    layout = layout_files.load(layout_file)
    if not layout.component:
        raise ConfigError(
            f"{layout_file} follows the logs of a run that somebody else started, and starts none itself",
            hint=hints.WATCH(layout=layout_file),
        )
    return layout


def _memory(
    config_files: tuple[Path, ...],
    layout_file: Path,
    layout: Layout,
    framework: Framework,
    files: ConfigFiles,
    devices: str | None,
) -> tuple[tuple[MemoryVerdict, ...], tuple[Problem, ...]]:
    """What will fit on the devices of this box; or why it cannot be said, such as too few of them."""
    from rltui.client.memory import verdicts  # reads the GPUs, which only `rltui check` does

    try:
        return verdicts(config_files, layout_file, layout, framework, files, devices), ()
    except ConfigError as error:
        text = f"on this box: {error.title}" + (f"; {error.hint}" if error.hint else "")
        return (), (Problem(severity="warning", message=text),)


def _programs_lacking(
    framework: Framework, config_files: Sequence[Path], workspace: Path
) -> tuple[Problem, ...]:
    """That what is installed has no such programs any more."""
    if framework.checkout is None:
        return ()
    try:
        found = lacking(framework.checkout, workspace=workspace, config_files=config_files)
    except ConfigError:  # told where the programs are looked for
        return ()
    return () if found is None else (Problem(severity="warning", message=f"{found.reason}; {found.hint}"),)


def _start_problems(
    layout_file: Path, layout: Layout, framework: Framework, files: ConfigFiles, workspace: Path
) -> tuple[Problem, ...]:
    """What stands in the way, each reason once: placeholders that nobody knows, or that have no value.

    The latter are warnings: the config may be sound and ask for something that this layout does not do.
    """
    found: dict[str, Problem] = {}
    checkout, paths = framework.checkout, [Path(file.path) for file in files.values()]
    context = RunContext(
        submits=layout.submits,
        workspace=str(workspace),
        output_dir=str(workspace),
        python=OWN_PYTHON,
        traits=traits(checkout, workspace=workspace, config_files=paths) if checkout else None,
    )
    common = framework.template_values(files, context)
    for spec in layout.component:
        values = {**common, **layout.node_values(spec.id)}
        if _is_there(spec, values, workspace):
            continue
        for name in sorted(placeholders(spec.templates)):
            if spec.is_manual and (name.startswith(GIVEN) or name in values):
                continue  # it may never be started
            value = values.get(name)
            if name.startswith(CONFIG) and _is_made(name.removeprefix(CONFIG), framework, files, context):
                continue
            if name not in values:
                known = f"known here: {', '.join('{' + one + '}' for one in sorted(values))}"
                hint = did_you_mean(name, values) or known
                message = f"component {spec.id!r}: unknown placeholder {{{name}}}; {hint}"
                found.setdefault(name, Problem(message=message, file=str(layout_file)))
            elif isinstance(value, Missing) and not name.startswith(_OF_THE_BOX) and name != _PROGRAMS:
                message = f"{spec.id} cannot be started: {value.reason}; {value.hint}".rstrip("; ")
                found.setdefault(value.reason, Problem(severity="warning", message=message))
    return tuple(found.values())


def _is_there(spec: ComponentSpec, values: Mapping[str, TemplateValue], workspace: Path) -> bool:
    """What this job makes exists: it is not run."""
    try:
        return bool(spec.creates) and (workspace / render(spec.creates, values, where=spec.id)).exists()
    except ConfigError:
        return False


def _is_made(name: str, framework: Framework, files: ConfigFiles, context: RunContext) -> bool:
    """Whether the framework makes this file as a component starts."""
    found = framework.resolutions(files, context)
    return any(each.makes([name]) and name not in each.optional for each in found)
