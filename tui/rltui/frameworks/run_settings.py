"""The settings of a run in a config, such as folder, length and checkpoints: a record of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from rltui.frameworks.answers import unknown
from rltui.frameworks.inputs import ConfigFiles


@dataclass(frozen=True, slots=True)
class WeightsMaker:
    """A command that exports loadable weights from a checkpoint with only the trainer's state."""

    argv: tuple[str, ...]
    """Arguments after the prefix of the framework's programs."""
    needs: str
    """File of the checkpoint without which the export is impossible."""
    folder: str
    """Exists once they are complete."""


_WRITTEN_CONFIGS = ("configs/latest/resolved", "configs/resolved", "configs")


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Locations of a run's files, relative to the output folder."""

    metrics: tuple[str, ...] = ("metrics.jsonl",)
    """Possible locations of the metrics: the first that exists counts. JSONL rows with `step`, which may be
    null, and `time`; several rows a step, the last value of a key wins.
    """
    checkpoints: str = "checkpoints"
    """Folder of `step_<N>` folders; empty: the run's own."""
    checkpoint_prefix: str = "step_"
    """Prefix of the names of those folders, before the step."""
    no_resume: str = ""
    """Reason why no run can be continued from its checkpoints, in words; empty if one can."""
    checkpoint_marker: str = "STABLE"
    """File in a checkpoint's folder that makes it complete; empty: only `checkpoint_parts` count."""
    checkpoint_parts: tuple[str, ...] = ()
    """Paths, relative to the run's folder, that must all exist for a checkpoint to be complete; `{step}` is
    its step."""
    first_step: int = 1
    """Number of the first training step. Counted from 0, checkpoint N comes before step N; counted from 1,
    after it.
    """
    stale_batches: tuple[str, ...] = ()
    """Folders of `step_<N>` folders named for training steps: a resume moves those of the steps to come
    aside.
    """
    stale_always: tuple[str, ...] = ()
    """Folders of `step_<N>` folders of which none may outlive a restart of the run's jobs."""
    artifacts: tuple[str, ...] = ("metrics.jsonl", "checkpoints", "rollouts", "broadcasts", "weights")
    """Any of these marks the folder as one of an earlier run. `*` as in a shell."""
    made_by_rltui: str = ""
    """A folder below an artifact that rltui makes before the first start: ignored while it has no file."""
    beats: Mapping[str, str] = field(default_factory=dict)
    """Component → file that it writes after every step."""
    beside_checkpoint: tuple[str, ...] = ("weights",)
    """Folders of `step_<N>` folders that belong to the checkpoint of that step besides its parts: a run that
    continues from it in another folder needs them there.
    """
    stale_after_resume: tuple[str, ...] = ("checkpoints",)
    """Folders of `step_<N>` folders that must not outlive a resume: those beyond the step are moved aside."""
    written_configs: tuple[str, ...] = _WRITTEN_CONFIGS
    """Folders of the configs that programs write down for a run; the first with files counts."""
    lengths: tuple[str, ...] = (
        *(f"{folder}/{name}.json" for folder in _WRITTEN_CONFIGS for name in ("trainer", "sft")),
        *("configs/trainer.toml", "configs/rl.toml", "configs/sft.toml", "run_default/control/orch.toml"),
    )
    """Files that may have `max_steps`: of current prime-rl, then of spring 2026, which wrote no resolved
    configs.
    """


def _any_files(_: ConfigFiles) -> RunFiles:
    return RunFiles()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The answers about a run. The default is a framework whose configs say nothing."""

    files: Callable[[ConfigFiles], RunFiles] = _any_files
    output_dir: Callable[[ConfigFiles], str | None] = unknown
    """The output folder that the config names, relative to the workspace."""
    max_steps: Callable[[ConfigFiles], int | None] = unknown
    preparation_steps: Callable[[str, ConfigFiles], int | None] = unknown
    """Steps of a component that only prepares the run."""
    checkpoint_interval: Callable[[ConfigFiles], int | None] = unknown
    """Steps between two checkpoints; `None` if the files do not say."""
    weights_maker: Callable[[ConfigFiles, str, int], WeightsMaker | None] = unknown
    """Export of loadable weights from a checkpoint, by the run's folder and the step; `None` if it has
    them.
    """
    resume_keys: tuple[str, ...] = ()
    """Dotted keys, in any file, that name the checkpoint to continue from."""
    resume_elsewhere: tuple[str, ...] = ()
    """Dotted keys that place that checkpoint outside the run's own folder."""
    model_keys: tuple[str, ...] = ("model", "model.name", "*.model.name")
    """Patterns of dotted keys whose value is the model that a run begins with."""

    seed_keys: tuple[str, ...] = ("seed",)
    """Names of knobs for the seed of a run's random numbers; the first that a config can have counts."""
    graders: tuple[str, ...] = ()
    """Absolute paths of files of the framework itself that make examples or rewards."""

    def is_model(self, key: str) -> bool:
        """Whether the value of the dotted key is the model that a run begins with."""
        return any(fnmatchcase(key, pattern) for pattern in self.model_keys)

    @property
    def locations(self) -> RunFiles:
        """Files of a run of which no config is known."""
        return self.files({})
