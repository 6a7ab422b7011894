"""`medarc_train sft|rl`, and `medarc_slurm sft|rl`, which submits it: med-lm-train of MedARC."""

from __future__ import annotations

from rltui.core import hints
from rltui.errors import UsageError
from rltui.frameworks.launchers.line import LauncherLine, Options, is_option

_TRAIN, _SLURM = "medarc_train", "medarc_slurm"
SUBMITTING = frozenset({_SLURM})
"""Launchers that submit a run to a cluster."""
_COUNTS = {
    "--gpus": "--deployment.num_gpus",
    "--train-gpus": "--deployment.num_train_gpus",
    "--infer-gpus": "--deployment.num_infer_gpus",
}
"""Options of the launcher for numbers of devices → keys of the config that say the same."""
_SWITCHES = frozenset({"--single-gpu", "--resume", "--no-resume"})
"""Options of the launcher that take no value."""
_SLURM_OPTIONS = frozenset(
    {"--cpus-per-gpu", "--job-name", "--project-dir", "--hf-cache-dir", "--train-gpus", "--infer-gpus"}
    | {"--teacher-gpus", "--priority", "--nice", "--mail", "--mail-user", "--source-dir"}
)
"""Options of `medarc_slurm` with a value that it is given as they are, in whatever release."""
_SLURM_SWITCHES = frozenset(
    {"--single-gpu", "--hf-hub-offline", "--no-hf-hub-offline", "--test-only", "--slurm-resume"}
)
"""Options of the launcher of jobs that take no value."""


def begins_line(argv: list[str]) -> bool:
    return argv[0] in (_TRAIN, _SLURM)


def read(argv: list[str], options: Options) -> LauncherLine | None:
    """Read the line of one of medarc's launchers; `None` for any other line. Options of a job that are no
    keys of the config stay with the job's launcher.

    Raises:
        UsageError: for a command that submits nothing.
    """
    first = next((index for index, arg in enumerate(argv) if arg in (_TRAIN, _SLURM)), None)
    if first is None:
        return None
    is_job = argv[first] == _SLURM
    if is_job and "--slurm" not in options:
        raise UsageError("medarc_slurm submits to a cluster", hint=str(hints.UP_MEDARC))
    is_sft = argv[first + 1 :][:1] == ["sft"]
    reading = _Reading(options, is_job=is_job, is_sft=is_sft)
    reading.read([*argv[:first], *argv[first + 1 :]])
    return LauncherLine(reading.argv)


class _Reading:
    """Sorts its arguments into options of ours, files of the config, and keys."""

    def __init__(self, options: Options, *, is_job: bool, is_sft: bool) -> None:
        self._options = options
        self._is_job = is_job
        self._has_counts = is_sft or not is_job
        """Numbers of devices are keys; else the launcher of the job takes them."""
        self._ours = ["--slurm", "--framework", "medarc"] if is_job else []
        self._files: list[str] = []
        self._keys: list[str] = []

    @property
    def argv(self) -> list[str]:
        """All that was read, in the grammar of `rltui up`."""
        layers = [part for file in self._files for part in ("@", file)]
        return [*self._ours, *(self._files if len(self._files) == 1 else layers), "--", *self._keys]

    def read(self, argv: list[str]) -> None:
        while argv:
            arg = argv.pop(0)
            name, equals, value = arg.partition("=")
            takes_next = self._takes_value(name) and bool(argv) and not is_option(argv[0])
            values = [value] if equals else [argv.pop(0)] if takes_next else []
            self._sort(arg, name, values, is_one_word=bool(equals))

    def _takes_value(self, name: str) -> bool:
        is_switch = (
            name == "--dry-run"
            or name in _SWITCHES
            or name in _SLURM_SWITCHES
            or not self._options.get(name, True)
        )
        return name.startswith("-") and not is_switch

    def _sort(self, arg: str, name: str, values: list[str], *, is_one_word: bool) -> None:
        if name in ("--config", "--config-toml"):
            self._files += values
        elif self._is_job and (name in _SLURM_OPTIONS or name in _SLURM_SWITCHES):
            self._ours += [f"--launcher-option={part}" for part in (name, *values)]
        elif self._is_job and name == "--no-auto-auth":
            return  # as it is without --auto-auth
        elif name == "--dry-run":
            self._ours.append("--plan")
        elif self._has_counts and name in _COUNTS:
            self._keys += [_COUNTS[name], *values]
        elif name in self._options:
            self._ours += [arg] if is_one_word else [arg, *values]
        elif arg.startswith("--") and name not in ("--", "--output-dir", *_SWITCHES):
            self._keys += [name, *values]
        elif arg.endswith(".toml"):
            self._files.append(arg)
