"""Runs prime-rl: by parts from configs that its launcher writes, or by the launcher; any generation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rltui.base.template import Missing, TemplateValue
from rltui.core import hints
from rltui.core.config.data import value_at
from rltui.core.config.knobs import KnobValue
from rltui.core.experiment.plan import RestartRule
from rltui.core.experiment.servers import ServerAddress
from rltui.core.gpu.budget import EngineMemory
from rltui.core.runs.evals import SERVER
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import LaunchSide, PortKnob, Resolution, ServiceCall, common_values
from rltui.frameworks.prime_rl import ports
from rltui.frameworks.prime_rl.endpoints import TEACHER
from rltui.frameworks.prime_rl.generation import SINGLE, Generation
from rltui.frameworks.prime_rl.gpu_needs import device_counts, split_devices
from rltui.frameworks.prime_rl.run_config import RunConfigReader
from rltui.frameworks.prime_rl.run_settings import WRITERS
from rltui.frameworks.prime_rl.servers import TRAINED
from rltui.frameworks.prime_rl.values import (
    SPLITS,
    count,
    instances,
    is_table,
    numbers,
    sources,
    text,
    texts,
)

_ENV_SERVERS = "env-"
"""Prefix of the ids of env servers."""
_INFERENCE = frozenset({"inference"})

_STEPS = "each counts steps on its own, and the counters must agree"
_HANDSHAKE = (
    "the trainer announces itself once, and a new peer would wait for that forever; their step counters"
    " must agree too"
)
_ACKNOWLEDGED = (
    "the trainer waits at each broadcast for online-eval to receive it, and both start from one checkpoint"
)
_BASE_WEIGHTS = "a new server has the base weights until {} sends newer ones"
_GROUP = "a new server must join the weight broadcast group, which those two set up at start"
_ADDRESS = "it listens on a new port, written to a file that {} reads only at start"
_PROGRAM_OF_EVALS = ("python", "-m", "prime_rl.eval.online")

_OUT = "{scratch}/out"
_FIRST_ATTEMPT = {
    "configs/attempt_1/resolved": ports.attempt_configs,
    "configs/resolved": ports.attempt_configs,
    "logs/attempt_1": ports.attempt_logs,
}
"""Folders of the first attempt in an empty folder, and of those before there were several."""
_BROADCAST_NOTE = "inference and trainer share one GPU: weights go through files, since NCCL needs two GPUs"
_MADE_AT_START = Missing("created when the component starts")
_NO_INFERENCE = Missing(
    "the config has no [inference] table, so no server is started",
    hint="add [inference]; or shut the experiment down and resume it to use the server at base_url",
)
_NO_EVALS = Missing(
    "the config has no [eval] table, so only the trainer runs", hint="--layout prime-rl-sft runs it"
)
_ON_CLUSTER = Missing(
    "the config has [slurm] for a cluster, but would run on this machine",
    hint="to submit it: --slurm; to run it here, remove [slurm]",
)


@dataclass(frozen=True, slots=True)
class PrimeRlLaunch:
    """Launching of one generation, and of the one that its files may show."""

    run: RunConfigReader
    engine: Callable[[ConfigFiles], EngineMemory | None]
    further: Callable[[ConfigFiles], tuple[ServerAddress, ...]]
    """Same as in `ServersSide`."""

    @property
    def side(self) -> LaunchSide:
        return LaunchSide(
            template_values=self._template_values,
            resolutions=self._resolutions,
            instances=self._instances,
            environment=self._environment,
            ports=self._ports,
            service_calls=self._service_calls,
            restart_rules=self._restart_rules,
            fresh_rules=self._fresh_rules,
            asks_for_cluster=_asks_for_cluster,
        )

    def _template_values(self, files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        """`config.<part>`, `config.launcher`, `run`, `gpus.<id>`, `port.inference`, `port.engine` …"""
        g, data = self.run.generation_of(files), self.run(files)
        split, memory = split_devices(g, data, context.devices), self.engine(files)
        launcher_split = split_devices(g, data, context.devices, by_launcher=True)
        both = ",".join(dict.fromkeys((*launcher_split.inference, *launcher_split.trainer)))
        for_sft = ",".join(context.devices[: max(1, count(data, "deployment.num_gpus", 1))])
        values = {
            **common_values(files, context),
            **{
                f"config.{name}": fault or _MADE_AT_START
                for name, fault in _make_faults(g, files, data, context).items()
            },
            **{f"config.{name}": path for name, path in context.resolved.items()},
            **ports.values(g, data, context, sources=sources(files), moving=self._ports(files)),
            **({"port.weights": ""} if split.is_shared else {}),
            "gpus.inference": split.value("inference"),
            "gpus.trainer": split.value("trainer"),
            "gpus.launcher": both,
            "gpus.sft": both if g.run_folders else for_sft,
            "gpus.all": ",".join(context.devices),
            "gpu_count.all": str(max(1, len(context.devices))),
            "gpu_count.trainer": str(len(split.trainer) or device_counts(g, data)[1]),
            "gpu_memory.inference": str(memory.utilization) if memory and split.inference else "",
            "ranks.trainer": ",".join(map(str, _ranks(data) or (0,))),
            "program.online-eval": ("evals",) if _runs_evals(g, context) else _PROGRAM_OF_EVALS,
        }
        return {**values, **g.further_values(files, context, values)}

    def _resolutions(self, files: ConfigFiles, context: RunContext) -> Sequence[Resolution]:
        """`launcher`: the file for the launcher; `trainer`, `env.train.<source>` …: outputs of its dry run.

        The dry run may delete things in the run's folder, so it gets an empty one. If each program has a
        file of its own: copies with the run's folder, the checkpoint, and the chosen port.
        """
        g, data = self.run.generation_of(files), self.run(files)
        if _inherits(files) is not None:
            return ()
        addresses = {**self.run.address_edits(files), **ports.edits(g, data, context.overrides)}
        if not g.has_launchers:
            return tuple(_copy(g, role, context, addresses) for role in files)
        role = "rl" if "rl" in files else "sft"
        common: dict[str, KnobValue] = {**dict.fromkeys(g.dropped), **_resume(g, data, context)}
        folder = PurePath(context.run_folder)
        location: dict[str, KnobValue] = {"output_dir": str(folder)}
        if g.run_folders:
            common["run.name"] = _run_name(files, context)
            location = {"output_dir": str(folder.parent), "run.dir": folder.name}
        if self.run.has_parts(files):
            common |= addresses
        if context.submits:
            location |= _slurm(data, context)
        launcher = Resolution(edits={role: {**common, **location}}, outputs={"launcher": (f"{role}.toml",)})
        if _on_cluster(data, context) is not None:
            return ()
        if not self.run.has_parts(files) or _not_by_parts(data) is not None:
            return (launcher,)
        return (launcher, _parts(g, files, data, context, common))

    def _instances(self, files: ConfigFiles) -> Mapping[str, tuple[str, ...]]:
        """Env servers, and frozen models that this machine can serve: the one for all sources has no name."""
        ids = [server.component for server in self.further(files) if server.component]
        teachers = tuple(id_.removeprefix(TEACHER).removeprefix("-") for id_ in ids)
        return {**instances(files), "teachers": teachers}

    def _ports(self, files: ConfigFiles) -> tuple[PortKnob, ...]:
        if not self.run.has_parts(files):
            return ()
        knobs = ports.knobs(self.run.generation_of(files), self.run(files), sources(files))
        return tuple(knob for knob in knobs if not self.run.servers or knob.component != "inference")

    def _environment(self, component: str, files: ConfigFiles, context: RunContext) -> Mapping[str, str]:
        """Variables that its launcher sets for its children; other models' servers get those of the run's."""
        if component == SERVER or component.split("-")[0] == TEACHER:
            variables = self._environment("inference", files, context)
            return {name: value for name, value in variables.items() if name != "CUDA_VISIBLE_DEVICES"}
        g = self.run.generation_of(files)
        split = split_devices(g, self.run.of_parts(files), context.devices)
        # the generation's own, then what the config says, then what cannot be chosen; little for a launcher
        part = "env" if component.startswith(_ENV_SERVERS) else component
        logging = (g.partner, "trainer")
        parts = ("env", "inference", *logging) if g.has_launchers else ("inference", *logging, "sft")
        if part not in parts or (g.has_launchers and g.role not in files):
            return {"PYTHONUNBUFFERED": "1"}
        data = files[g.role].data if g.role in files else {}
        variables = {**g.environment[""], **g.environment.get(part, {})}
        if part in (*logging, "sft"):
            variables |= {"LOGURU_FORCE_COLORS": "1", **_wandb_command(part, files)}
        if g.run_folders:
            of_part = f"{g.partner if part == 'env' else part}.env_vars"
            variables |= texts(value_at(data, "env_vars")) | texts(value_at(data, of_part))
            variables |= {
                "PRL_RUN_ID": context.run_id or context.name,
                "PRL_RUN_NAME": _run_name(files, context),
            }
            variables["PRL_ATTEMPT_CONFIG_DIR"] = ports.attempt_configs(context)
            variables["PRL_ATTEMPT_LOG_DIR"] = ports.attempt_logs(context)
        if part in logging and g.shared_wandb and _shares(g, data):
            variables |= {"WANDB_SHARED_MODE": "1", "WANDB_SHARED_LABEL": part}
            if g.role == "sft":
                variables |= {
                    "PRL_LOG_DIR": ports.attempt_logs(context),
                    "WANDB_SHARED_PRIMARY": "trainer",
                    "WANDB_SHARED_FINISHER": g.partner,
                }
            variables[g.shared_wandb] = context.run_id or context.name
        devices = {"inference": split.inference, "trainer": split.trainer}.get(part)
        return {**variables, "CUDA_VISIBLE_DEVICES": ",".join(devices)} if devices else variables

    def _restart_rules(self, files: ConfigFiles) -> Sequence[RestartRule]:
        """Rules by the transports. A pair stays a pair even if both go through files: they have two
        counters.
        """
        g, data = self.run.generation_of(files), self.run.of_parts(files)
        in_memory = ports.transport(g, data, ports.WEIGHTS) != "filesystem"
        through_files = not in_memory and ports.transport(g, data, ports.BATCHES) == "filesystem"
        servers = [source.component for source in sources(files) if source.component]
        moving = [] if g.env_port else servers
        pair, partner = _pair(g), g.partner if g.role == "sft" else f"the {g.partner}"
        steps = _HANDSHAKE if g.batches == "zmq" and not through_files else _STEPS
        return (
            (pair, pair, _ACKNOWLEDGED if g.role == "sft" else steps),
            (_INFERENCE, pair, _GROUP if in_memory else _BASE_WEIGHTS.format(partner)),
            *((frozenset({server}), frozenset({g.partner}), _ADDRESS.format(partner)) for server in moving),
        )

    def _fresh_rules(self, files: ConfigFiles) -> Sequence[RestartRule]:
        """Rules for a run that begins again: in 2025 the orchestrator posts `/reload_weights`, from August
        2026 on the trainer broadcasts its first weights; in between nothing replaced the former.
        """
        g = self.run.generation_of(files)
        return () if g.resends_weights else ((_pair(g), _INFERENCE, TRAINED),)

    def _service_calls(self, files: ConfigFiles, context: RunContext) -> tuple[ServiceCall, ...]:
        """An orchestrator that died while it updated weights has left the engine paused: no router knows of
        that, so the engine itself is called.
        """
        g = self.run.generation_of(files)
        if g.role not in files:
            return ()
        port_values = ports.values(g, self.run.of_parts(files), context)
        url = f"http://{port_values['host.inference']}:{port_values['port.engine']}/resume"
        return (ServiceCall("inference", url, "resume a paused engine"),)


def _pair(g: Generation) -> frozenset[str]:
    return frozenset({g.partner, "trainer"})


def _ranks(data: Mapping[str, Any]) -> tuple[int, ...] | None:
    return numbers(data, "trainer.log.ranks_filter") or numbers(data, "log.ranks_filter")


def _runs_evals(g: Generation, context: RunContext) -> bool:
    """The program is `evals`, as in August: by the config that was made for it, else by the generation's
    default.
    """
    made = context.made.get("online-eval")
    return bool(g.env_port) if made is None else is_table(made, "eval")


def _make_faults(
    g: Generation, files: ConfigFiles, data: Mapping[str, Any], context: RunContext
) -> Mapping[str, Missing | None]:
    """Name of each output of the resolutions → reason why it cannot be made, if there is one."""
    inherits = _inherits(files)
    if not g.has_launchers:
        return dict.fromkeys(map(_name, files), inherits)
    fault = inherits or _not_by_parts(data) or (_NO_EVALS if g.role not in files else None)
    return {
        "launcher": inherits or _on_cluster(data, context),
        "inference": fault or (None if is_table(data, "inference") else _NO_INFERENCE),
        **dict.fromkeys((g.partner, "trainer"), fault),
        **{f"env.{source.split}.{source.name}": fault for source in sources(files) if source.component},
    }


def _asks_for_cluster(files: ConfigFiles) -> bool:
    """It has the table [slurm], with which `rl` and `sft` submit."""
    return any(is_table(file.data, "slurm") for file in files.values())


def _inherits(files: ConfigFiles) -> Missing | None:
    """The fault of a file that names others: from the copies that programs get, relative paths lead nowhere,
    and its own values count only in part (`facts/prime-rl.md`, med-lm-train).
    """
    file = next((file for file in files.values() if file.data.get("toml_files")), None)
    if file is None:
        return None
    return Missing(
        f"{file.path} lists other files in toml_files, whose tables replace its own",
        hint=f"remove toml_files, and pass the files in order: {hints.UP_OVERLAYS}",
    )


def _name(role: str) -> str:
    """Name of a role's file in layouts: `sft` has that of the launcher that it became later."""
    return "launcher" if role == "sft" else role


def _not_by_parts(data: Mapping[str, Any]) -> Missing | None:
    """Reason why rltui cannot start the processes of a merged config itself, or should not."""
    deployment = data.get("deployment")
    if is_table(data, "slurm"):
        return _ON_CLUSTER
    if isinstance(deployment, Mapping) and deployment.get("type", "single_node") != "single_node":
        return Missing(
            "the config is for several nodes, whose processes are started by SLURM",
            hint="to submit it: --slurm; without SLURM, copy the layout prime-rl-nodes or torchrun-nodes",
        )
    if is_table(data, "teacher_inference") or (
        isinstance(deployment, Mapping) and deployment.get("num_teacher_gpus")
    ):
        return Missing(
            "the config asks for a teacher's server, which this layout does not start", hint=SINGLE
        )
    return None


def _on_cluster(data: Mapping[str, Any], context: RunContext) -> Missing | None:
    """The fault if its launcher would submit, and exit, although the layout runs it here."""
    return _ON_CLUSTER if is_table(data, "slurm") and not context.submits else None


def _slurm(data: Mapping[str, Any], context: RunContext) -> Mapping[str, KnobValue]:
    """Values for a job script that the config lacks: in the table [slurm], and the location of the
    checkout.
    """
    run = context.run if isinstance(context.run, tuple) else ()
    folder = run[run.index("--project") + 1] if "--project" in run else context.workspace
    defaults: Mapping[str, KnobValue] = {"slurm.job_name": context.name, "slurm.project_dir": folder}
    return {key: value for key, value in defaults.items() if value_at(data, key) is None}


def _copy(g: Generation, role: str, context: RunContext, addresses: Mapping[str, KnobValue]) -> Resolution:
    """A copy of the file of one program, for it. `addresses`: edits of the merged config."""
    edits: dict[str, KnobValue] = {}
    if role in WRITERS:
        edits |= {"output_dir": context.run_folder, g.resume_step: context.resume_step}
    edits |= {
        key.removeprefix(f"{role}."): value for key, value in addresses.items() if key.startswith(f"{role}.")
    }
    return Resolution(edits={role: edits}, outputs={_name(role): (f"{role}.toml",)})


def _parts(
    g: Generation,
    files: ConfigFiles,
    data: Mapping[str, Any],
    context: RunContext,
    common: Mapping[str, KnobValue],
) -> Resolution:
    resolving = g.resolving
    is_shared = split_devices(g, data, context.devices).is_shared
    through_files = is_shared and ports.transport(g, data, ports.WEIGHTS) == "nccl"
    is_sft, location = g.role == "sft", PurePath(context.run_folder)
    run_name = location.name if is_sft else resolving.run  # its trainer joins the two itself
    edits = {**common, "output_dir": _OUT, **dict.fromkeys(resolving.dropped)}
    if run_name:
        edits["run.dir"] = run_name
    if through_files:
        other_edits = {key: value for key, value in edits.items() if f"{ports.WEIGHTS}." not in key}
        edits = {**other_edits, **ports.FILE_BROADCAST}
    run = PurePath("out") / run_name
    stems = {"trainer": ("sft",), "online-eval": ("eval", "evals")} if is_sft else {}
    names = {
        part: tuple(f"{stem}{resolving.suffix}" for stem in stems.get(part, (part,)))
        for part in ("inference", g.partner, "trainer")
    }
    names |= {f"env.{split}": (f"envs/{split}/*{resolving.suffix}",) for split in SPLITS}
    servers = instances(files)
    optional_names = [] if is_table(data, "inference") else ["inference"]
    optional_names += [f"env.{split}" for split in SPLITS if not servers[f"env_servers.{split}"]]
    if is_sft:
        replaced = {_OUT: str(location.parent)}
    else:
        replaced = {_OUT: context.output_dir if resolving.run else context.run_folder}
    if g.run_folders:
        folders = {f"{_OUT}/{run_name}/{path}": folder(context) for path, folder in _FIRST_ATTEMPT.items()}
        replaced |= {f"{_OUT}/{run_name}": context.run_folder, **folders}
    configs = ports.attempt_configs(context)
    return Resolution(
        edits={g.role: edits},
        outputs={
            name: tuple(f"{run}/{folder}/{path}" for folder in resolving.folders for path in paths)
            for name, paths in names.items()
        },
        commands=resolving.commands,
        optional=frozenset(optional_names),
        unless_unknown=frozenset({g.env_port} & edits.keys()),
        replaced=replaced,
        moves="" if is_sft else g.resume_step,  # online-eval has the step under another name
        shared={name: f"{configs}/{paths[0]}" for name, paths in names.items()} if g.run_folders else {},
        folders=(ports.attempt_logs(context),) if g.run_folders else (),
        notes=(_BROADCAST_NOTE,) if through_files else (),
        unsupported=resolving.unsupported,
    )


def _resume(g: Generation, data: Mapping[str, Any], context: RunContext) -> dict[str, KnobValue]:
    """The step that rltui chose. The person's own value counts if checkpoints lie in another folder, and for
    a run that begins with the checkpoint of another.
    """
    if value_at(data, "ckpt.output_dir") is not None:
        return {}
    if context.resume_step is not None:
        return {**dict.fromkeys(g.resume_cleared), g.resume_step: context.resume_step}
    return {} if g.resume_dir and text(data, g.resume_dir) is not None else dict.fromkeys(g.resume_cleared)


def _run_name(files: ConfigFiles, context: RunContext) -> str:
    """The run's name in the config, else the name of the experiment."""
    names = (text(file.data, "run.name") for file in files.values())
    return next((name for name in names if name is not None), context.name)


def _wandb_command(part: str, files: ConfigFiles) -> Mapping[str, str]:
    """Variables for W&B's display of the run's command: the one that a person would have typed."""
    role = next((role for role in (part, "rl", "sft", "orchestrator") if role in files), None)
    program = "sft" if role == "sft" else "rl"
    argv = [program, "@", files[role].path if role is not None else ""]
    return {"WANDB_PROGRAM": f"uv run {program}", "WANDB_ARGS": json.dumps(argv)}


def _shares(g: Generation, data: Mapping[str, Any]) -> bool:
    """Orchestrator and trainer log to one W&B run."""
    if not g.wandb_table:
        return True
    return is_table(data, g.wandb_table) and value_at(data, f"{g.wandb_table}.shared") is not False
