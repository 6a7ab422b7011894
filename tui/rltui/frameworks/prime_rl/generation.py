"""The differences between the generations of prime-rl in how they are run, as data.

`launch.py` reads it. Keys are those of one merged config; the three files of 2025 are read as one, each below
its role.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rltui.base.template import TemplateValue
from rltui.frameworks.answers import no, no_values, yes
from rltui.frameworks.base import Checkout
from rltui.frameworks.config import ConfigModels
from rltui.frameworks.dashboard import Dashboard
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.prime_rl import configs
from rltui.frameworks.prime_rl.dashboard import DASHBOARD, TRAIT
from rltui.frameworks.run_settings import RunFiles

CHECKOUT = Checkout(
    project="prime-rl",
    variable="RLTUI_PRIME_RL",
    programs=("rl", "inference", "orchestrator", "trainer", "sft", "torchrun"),
    generations=(
        ("packages/prime-rl-configs/src/prime_rl/configs/monitors.py", configs.CURRENT),
        ("packages/prime-rl-configs/src/prime_rl/configs/eval.py", configs.CURRENT),
        ("src/prime_rl/entrypoints/dashboard.py", configs.CURRENT),
        ("src/prime_rl/entrypoints", configs.MERGED),
        ("src/prime_rl/configs", configs.MERGED),
        ("src/prime_rl", configs.SPLIT),
    ),
    merges_tables="src/prime_rl/utils/pydantic_config.py",
    traits=(TRAIT,),
)
"""All three generations call themselves the same; what lies in the tree tells them apart. Today's has
run folders, which came two days before `monitors.py` (2026-08-15, 9975d8868); the other two are of autumn."""
_SFT_CONFIG = "prime_rl.trainer.sft.config:SFTTrainerConfig"
_OF_LAUNCHERS = {
    "rl": ("prime_rl.configs.rl:RLConfig", "prime_rl.rl:RLConfig"),
    "sft": ("prime_rl.configs.sft:SFTConfig", _SFT_CONFIG),
}
_OF_PROGRAMS = {
    "trainer": ("prime_rl.trainer.rl.config:RLTrainerConfig", "prime_rl.configs.trainer:TrainerConfig"),
    "orchestrator": (
        "prime_rl.orchestrator.config:OrchestratorConfig",
        "prime_rl.configs.orchestrator:OrchestratorConfig",
    ),
    "inference": (
        "prime_rl.inference.config:InferenceConfig",
        "prime_rl.configs.inference:InferenceConfig",
    ),
    "sft": (_SFT_CONFIG,),
}
_MODELS = ConfigModels(
    _OF_LAUNCHERS,
    sources=(
        "packages/prime-rl-configs/src/**/*.py",
        "src/prime_rl/configs/**/*.py",
        "src/prime_rl/**/config*.py",
    ),
    packages=("prime-rl", "prime-rl-configs", "verifiers", "vllm"),
    stand_ins=str(Path(__file__).parents[1] / "verifiers" / "stand_ins.py"),
)
"""Config classes of all generations in the tree, and packages whose versions decide about the keys, and their
meaning.
"""


_TRAINER_HALF = "checkpoints/step_{step}/trainer/.metadata"
"""File that torch writes last."""
_ORCHESTRATOR_HALF = "checkpoints/step_{step}/orchestrator/progress.pt"
"""File that SFT runs lack."""

_SPLIT_RL = RunFiles(
    checkpoint_marker="",
    checkpoint_parts=(_TRAINER_HALF, _ORCHESTRATOR_HALF),
    first_step=0,
    artifacts=("checkpoints", "rollouts", "broadcasts", "weights", "evals"),
    stale_batches=("rollouts",),
    beside_checkpoint=("broadcasts", "weights"),
    stale_after_resume=("checkpoints", "broadcasts", "weights"),
)
_MERGED_RL = RunFiles(
    checkpoint_parts=(f"run_default/{_ORCHESTRATOR_HALF}",),
    first_step=0,
    artifacts=("checkpoints", "rollouts", "weights", "run_default"),
    stale_batches=("rollouts", "run_default/rollouts"),
    beside_checkpoint=("weights", "run_default/broadcasts"),
    stale_after_resume=("checkpoints", "weights", "run_default/checkpoints", "run_default/broadcasts"),
)
_MERGED_SFT = RunFiles(
    first_step=0,
    artifacts=("checkpoints", "weights"),
    stale_after_resume=("checkpoints", "weights"),
)
_SPLIT_SFT = replace(_MERGED_SFT, checkpoint_marker="", checkpoint_parts=(_TRAINER_HALF,))
ATTEMPT_LOGS = "logs/rltui"
"""Folder inside the run's for logs that its programs write besides their output, if rltui starts them."""
_CURRENT_RL = RunFiles(
    metrics=("monitors/file/metrics.jsonl", "metrics.jsonl"),
    checkpoint_marker="",
    checkpoint_parts=(_TRAINER_HALF, _ORCHESTRATOR_HALF),
    artifacts=(
        "metrics.jsonl", "monitors", "checkpoints", "rollouts", "batches", "broadcasts", "token_exports",
        "trainer_step", "logs",
    ),
    made_by_rltui=ATTEMPT_LOGS,
    stale_always=("broadcasts",),
    stale_batches=("rollouts", "batches"),
    stale_after_resume=("checkpoints",),
    beats=dict.fromkeys(("trainer", "sft", "rl"), "trainer_step"),
)  # fmt: skip
"""August 2026 and later: with `monitors`, `batches` in place of `rollouts`, and the last finished step in a
file.

With `logs`: the launcher refuses a folder that has any of an earlier run's files. Broadcasts of any step are
stale: a marker of an earlier pair (`STABLE`, `NCCL_READY`, `.sender_ready` …) misleads the next one, and the
trainer broadcasts its weights anew as it starts.
"""
_CURRENT_SFT = replace(_CURRENT_RL, checkpoint_parts=(_TRAINER_HALF,))


_COMMON = {"PYTHONUNBUFFERED": "1"}
_EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
SINGLE = "--layout prime-rl-single runs it with prime-rl's own launcher"


@dataclass(frozen=True, slots=True)
class _Resolving:
    """The way to make a generation's launcher write out the config of each process."""

    commands: tuple[tuple[str, ...], ...]
    """Same as in `launch.Resolution`."""
    folders: tuple[str, ...]
    """Possible locations of the configs then, below the folder of the run, newest first."""
    suffix: str
    run: str = ""
    """Folder of the run below the output folder of the scratch folder."""
    dropped: tuple[str, ...] = ()
    """Keys that would make it start, submit or delete something, or that it computes by itself."""
    unsupported: str = ""


FurtherValues = Callable[[ConfigFiles, RunContext, Mapping[str, TemplateValue]], Mapping[str, TemplateValue]]
"""Takes the values of all generations."""


def _merges_since_march(data: Mapping[str, Any]) -> bool:
    shallow_schemas = configs.snapshots(configs.MERGED, "rl", until="2026-03-02")
    return configs.best(configs.MERGED, "rl", data)[0] not in shallow_schemas


@dataclass(frozen=True, slots=True)
class Generation:
    """Releases whose programs are run in the same way."""

    id: str
    title: str
    roles: Mapping[str, str] = field(default_factory=lambda: {"rl": "", "sft": "sft"}, kw_only=True)
    """Role of a file → prefix of the names of its keys: of those of launchers, or of a program each."""
    schemas: str
    """Id of the generation whose schemas its files have, …"""
    schemas_until: str = field(default=configs.NEVER, kw_only=True)
    """… from before this day."""
    is_contained: bool = field(default=False, kw_only=True)
    """A project that contains a release: recognized by its own checkout alone."""
    checkout: Checkout = field(default=CHECKOUT, kw_only=True)
    models: ConfigModels = field(default=_MODELS, kw_only=True)
    job_on_one_gpu: tuple[str, ...] = field(default=(), kw_only=True)
    """Same as in `base.Framework`."""
    further_values: FurtherValues = field(default=no_values, kw_only=True)
    """Values for layouts besides those of all generations."""
    merges_deeply: Callable[[Mapping[str, Any]], bool] = field(default=no, kw_only=True)
    """Same as in `config.ConfigSide`."""
    dashboard: Dashboard | None = field(default=None, kw_only=True)
    layouts: Mapping[str, str]
    cluster_layouts: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    signs: tuple[str, ...]
    """Names in the output folder that identify it."""
    rl_files: RunFiles
    sft_files: RunFiles
    vllm: tuple[int, int]
    """Version of vLLM that it pins."""
    base_urls: tuple[str, ...]
    """Possible keys of the orchestrator's half of the server's address: the present spelling comes last."""
    infer_gpus: tuple[str, ...] = ("deployment.num_infer_gpus",)
    """Keys whose product is the number of the engine's devices."""
    train_gpus: tuple[str, ...] = ("deployment.num_train_gpus",)
    has_router: bool = False
    """A router answers at the server's port, the engine behind it has one of its own."""
    broadcasts: Literal["filesystem", "nccl since summer", "nccl"] = "nccl"
    """Default transport of weights, if nothing forbids NCCL."""
    batches: Literal["filesystem", "zmq with sources", "zmq"] = "zmq"
    """Default transport of batches."""
    resends_weights: bool = True
    """A run that begins again sends a living server the weights of the model again."""
    env_port: str = ""
    """Key of the first port for env servers; empty: they take free ones, and write them into files."""
    run_folders: bool = False
    """Each run has a name, a folder named for it below the output folder, and environment variables in
    tables `env_vars`. No devices are reserved for a server that the config does not have.
    """
    resume_step: str = "ckpt.resume_step"
    resume_dir: str = ""
    resume_cleared: tuple[str, ...] = ()
    """All keys that name the checkpoint to continue from, including tables."""
    dropped: tuple[str, ...] = ()
    """Keys that are removed from the launcher's copy of the config."""
    resolving: _Resolving = _Resolving((), (), "")
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Component → variables; `""` for all, `env` for env servers."""
    shared_wandb: str = ""
    """Variable for the id of the W&B run that orchestrator and trainer share."""
    wandb_table: str = ""
    """The table that turns this on; empty: always on."""
    role: str = "rl"
    """The role of the file whose launcher writes out the config of each process."""
    partner: str = "orchestrator"
    """Component beside the trainer that moves its weights to the engine."""
    lora: str = "trainer.model.lora"
    """Table that switches LoRA on."""
    evaluated_sft: Generation | None = None
    """How it runs SFT with [eval] as separate processes; `None`: only its launcher does."""
    successor: Generation | None = None
    """The next generation with the same id."""

    @property
    def has_launchers(self) -> bool:
        """`rl` and `sft` are launchers; otherwise each program has a file of its own, and `sft` is a
        trainer.
        """
        return "rl" in self.roles

    @property
    def resume_keys(self) -> tuple[str, ...]:
        """The keys that name it, without tables."""
        return (
            tuple(f"{table}.step" for table in self.resume_cleared)
            if self.run_folders
            else self.resume_cleared
        )

    def of(self, data: Mapping[str, Any], role: str) -> Generation:
        """The generation whose schema the merged config `data` fits, itself or its successor, as it runs a
        file of that role.
        """
        g = self
        if self.successor is not None:
            newest = configs.snapshots(configs.CURRENT, role)[0]
            g = self.successor if configs.best(configs.CURRENT, role, data)[0] is newest else self
        is_evaluated = role == "sft" and isinstance(data.get("eval"), Mapping)
        return g.evaluated_sft if is_evaluated and g.evaluated_sft is not None else g


_ON_CLUSTERS = {"rl": "prime-rl-slurm", "sft": "prime-rl-sft-slurm"}
_DRY_RUN = ("rl", "@", "{input.rl}", "--dry-run")
_DRY_RUN_OF_SFT = ("sft", "@", "{input.sft}", "--dry-run")

SPLIT = Generation(
    id=configs.SPLIT,
    title="prime-rl, three files (2025)",
    schemas=configs.SPLIT,
    models=replace(_MODELS, models=_OF_PROGRAMS),
    layouts={**dict.fromkeys(configs.PARTS, "prime-rl-split"), "sft": "prime-rl-sft"},
    signs=("logs/*.stdout", "logs/rl.log", "logs/orchestrator.log", "logs/trainer/rank_*.log"),
    rl_files=_SPLIT_RL,
    sft_files=_SPLIT_SFT,
    vllm=(0, 10),
    base_urls=("orchestrator.client.base_url",),
    infer_gpus=("inference.parallel.tp", "inference.parallel.dp"),
    train_gpus=("orchestrator.num_train_workers",),
    roles={role: role for role in (*configs.PARTS, "sft")},
    broadcasts="filesystem",
    batches="filesystem",
    resume_cleared=("ckpt.resume_step",),
    environment={"": _COMMON},
)
"""Three config files, 2025."""
MERGED = Generation(
    id=configs.MERGED,
    title="prime-rl, one file (until August 2026)",
    schemas=configs.MERGED,
    merges_deeply=_merges_since_march,
    layouts={"rl": "prime-rl-merged", "sft": "prime-rl-sft"},
    cluster_layouts=_ON_CLUSTERS,
    signs=("run_default", "configs/*.toml", "logs/envs", "logs/trainer.log", "logs/inference.log"),
    rl_files=_MERGED_RL,
    sft_files=_MERGED_SFT,
    vllm=(0, 16),
    base_urls=(
        "orchestrator.client.base_url",
        "orchestrator.student.client.base_url",
        "orchestrator.model.client.base_url",
    ),
    broadcasts="nccl since summer",
    batches="zmq with sources",
    resends_weights=False,
    env_port="orchestrator.env_server_base_port",
    resume_cleared=("ckpt.resume_step", "trainer.ckpt.resume_step", "orchestrator.ckpt.resume_step"),
    dropped=("clean_output_dir",),
    resolving=_Resolving(
        commands=(_DRY_RUN, ("rl", "@", "{input.rl}", "--dump-config", "{scratch}/out/configs")),
        folders=("configs",),
        suffix=".toml",
        dropped=("slurm", "dry_run"),
        unsupported="checkouts from before 2026-02-12 have neither --dry-run nor --dump-config; " + SINGLE,
    ),
    environment={"": _COMMON, "trainer": _EXPANDABLE},
    shared_wandb="WANDB_SHARED_RUN_ID",
    wandb_table="wandb",
)
"""One file, from February to August 2026."""
_CURRENT = Generation(
    id=configs.CURRENT,
    title="prime-rl (August 2026 on)",
    schemas=configs.CURRENT,
    merges_deeply=yes,
    layouts={"rl": "prime-rl", "sft.eval": "prime-rl-sft-evals", "sft": "prime-rl-sft"},
    cluster_layouts=_ON_CLUSTERS,
    dashboard=DASHBOARD,
    signs=(
        *("logs/latest", "logs/attempt_*", "configs/*.json"),
        *("configs/latest", "configs/attempt_*", "configs/resolved", "monitors/file"),  # since September
    ),
    rl_files=_CURRENT_RL,
    sft_files=_CURRENT_SFT,
    vllm=(0, 26),
    base_urls=("orchestrator.model.client.base_url",),
    has_router=True,
    env_port="orchestrator.env_server_base_port",
    run_folders=True,
    resume_step="resume.step",
    resume_dir="resume.dir",
    resume_cleared=("resume", "trainer.resume", "orchestrator.resume"),
    dropped=("clean", "dry_run", "trainer.output_dir", "orchestrator.output_dir", "run.dir"),
    resolving=_Resolving(
        commands=(_DRY_RUN,),
        folders=("configs/attempt_*/resolved", "configs/resolved", "configs"),
        suffix=".json",
        run="run",
        dropped=("slurm", "inference.slurm"),
        unsupported=f"this checkout may be older or newer than rltui supports. {SINGLE}",
    ),
    environment={
        "": {
            **_COMMON,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "OMP_NUM_THREADS": "1",
            "GIT_LFS_SKIP_SMUDGE": "1",
        },
        "inference": {
            "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False",
            "VLLM_ENGINE_READY_TIMEOUT_S": "4200",
            "UCX_TLS": "all",
        },
        "trainer": _EXPANDABLE,
    },
    shared_wandb="WANDB_RUN_ID",
)
_CURRENT_SFT_EVALS = replace(
    _CURRENT,
    role="sft",
    partner="online-eval",
    lora="model.lora",
    base_urls=("eval.client.base_url",),
    infer_gpus=("deployment.num_infer_gpus", "deployment.num_eval_gpus"),
    env_port="eval.env_server_base_port",
    batches="filesystem",
    resends_weights=False,
    resolving=replace(
        _CURRENT.resolving,
        commands=(_DRY_RUN_OF_SFT,),
        unsupported="--layout prime-rl-sft runs it with prime-rl's own launcher",
    ),
)
"""SFT with [eval]. In August its trainer sends no weights as it starts."""
_LATEST = replace(
    _CURRENT,
    env_port="",
    evaluated_sft=replace(_CURRENT_SFT_EVALS, env_port="", resends_weights=True),
)
"""From September 2026 on: run folders with attempts, env servers that write their addresses into files."""
CURRENT = replace(_CURRENT, evaluated_sft=_CURRENT_SFT_EVALS, successor=_LATEST)
"""August 2026. A file that shows neither is run as of August, and by the output of its dry run."""
