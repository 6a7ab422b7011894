"""Which config a command line means, also in the words of launchers: `rl @ base.toml --max-steps 5`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.command import Options
from rltui.core import hints
from rltui.errors import UsageError

if TYPE_CHECKING:
    from rltui.services.config.run_config import Choose, RunConfig

_LAUNCHERS = frozenset({"uv", "run", "rl", "sft", "prime-rl", "tinyrl", "vf-rl"})
"""Words before the first `@` that say nothing which the config does not."""
_PROGRAMS = ("inference", "orchestrator", "trainer")
"""Of prime-rl, each with a file of its own: a line that begins with one starts that component alone."""
_SCRIPT = re.compile(r"prime_rl[./]trainer[./](rl|sft)[./]train(\.py)?$")
"""What torchrun is given: the trainer of RL, or that of SFT."""
_RANKS = re.compile(r"--nproc[-_]per[-_]node")
_OF_NODES = re.compile(r"--(nnodes|node[-_]rank|rdzv[-_]\w+|master[-_]\w+)")
_NUMBER = re.compile(r"-[\d.]")
_KEY = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")
_OTHERS = {
    "dry_run": f"{hints.CHECK} validates, and changes nothing",
    "dump_config": f"{hints.CHECK} validates",
    "api_key": "export VLLM_API_KEY, from which vLLM takes it too, and which `ps` does not show",
}
"""Options of launchers that are no keys to be set."""


_SET = "--set"
"""Of the commands that take it, the option for a knob's value."""
_MEDARC, _MEDARC_SLURM = "medarc_train", "medarc_slurm"
_COUNTS = {
    "--gpus": "--deployment.num_gpus",
    "--train-gpus": "--deployment.num_train_gpus",
    "--infer-gpus": "--deployment.num_infer_gpus",
}
"""Its options for numbers of devices, and the keys that say the same."""
_SWITCHES = ("--single-gpu", "--resume", "--no-resume")
"""Its options without a value."""
_OF_SLURM = frozenset(
    {"--cpus-per-gpu", "--job-name", "--project-dir", "--hf-cache-dir", "--train-gpus", "--infer-gpus"}
    | {"--teacher-gpus", "--priority", "--nice", "--mail", "--mail-user", "--source-dir"}
)
"""Options of `medarc_slurm` with a value that it is given as they are, in whatever release."""
_SLURM_SWITCHES = frozenset(
    {"--single-gpu", "--hf-hub-offline", "--no-hf-hub-offline", "--test-only", "--slurm-resume"}
)
"""Likewise, without a value."""


def is_launcher(word: str) -> bool:
    """With it begins a command line of medarc's that somebody pasted."""
    return word in (_MEDARC, _MEDARC_SLURM)


def is_pasted(argv: list[str]) -> bool:
    """Somebody pasted the command line of a launcher, or of one program, in place of a command."""
    keys = (word.partition("=")[0] for word in argv[1:] if word.startswith("--"))
    is_program = argv[0] in _PROGRAMS and any("." in key for key in keys)
    return is_program or is_launcher(argv[0]) or any(_is_at(word) for word in argv)


def _of_one_program(words: list[str]) -> tuple[str, int, list[str]]:
    """The program that a pasted line starts alone (empty: none), on so many GPUs (0: as its config says), and
    the words behind it.

    Raises:
        UsageError: for torchrun with another program, or over several nodes.
    """
    first = next((at for at, word in enumerate(words) if word not in ("uv", "run")), len(words))
    program, behind = words[first] if first < len(words) else "", words[first + 1 :]
    if program in _PROGRAMS and (first or not Path(program).exists()):
        return program, 0, behind
    if program != "torchrun":
        return "", 0, words
    at = next((at for at, word in enumerate(behind) if _SCRIPT.search(word)), None)
    if at is None:
        raise UsageError("torchrun is understood with prime-rl's trainers", hint="… sft/train.py @ sft.toml")
    if any(_OF_NODES.match(word) for word in behind[:at]):
        hint = "copy the layout torchrun-nodes: examples/several-machines says how"
        raise UsageError("a trainer over several nodes has a layout", hint=hint)
    options = " ".join(behind[:at]).replace("=", " ").split()
    ranks = next((value for name, value in pairwise(options) if _RANKS.fullmatch(name)), "1")
    program = "trainer" if "rl" in _SCRIPT.findall(behind[at])[0] else "sft"
    return program, int(ranks) if ranks.isdigit() else 1, behind[at + 1 :]


def _without_medarc(words: list[str], options: Options) -> list[str]:
    """What `medarc_train sft|rl` or `medarc_slurm sft|rl` is told, in the words of ours; other words as they
    are. What of the latter is no key is kept for it.

    Raises:
        UsageError: for a command that submits nothing.
    """
    program = next((word for word in words if is_launcher(word)), None)
    if program is None:
        return words
    is_job = program == _MEDARC_SLURM
    if is_job and "--slurm" not in options:
        raise UsageError("medarc_slurm submits to a cluster", hint=str(hints.UP_MEDARC))
    is_sft = words[words.index(program) + 1 :][:1] == ["sft"]
    words = [*words[: words.index(program)], *words[words.index(program) + 1 :]]
    ours = ["--slurm", "--framework", "medarc"] if is_job else []
    keys: list[str] = []
    files: list[str] = []
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        is_switch = name in _SWITCHES or name in _SLURM_SWITCHES or not options.get(name, True)
        takes_one = word.startswith("-") and not is_switch and bool(words) and not _is_option(words[0])
        values = [value] if equals else [words.pop(0)] if takes_one else []
        if name in ("--config", "--config-toml"):
            files += values
        elif is_job and (name in _OF_SLURM or name in _SLURM_SWITCHES):
            ours += [f"--launcher-option={part}" for part in (name, *values)]
        elif is_job and name == "--no-auto-auth":
            continue
        elif name in _COUNTS and (is_sft or not is_job):
            keys += [_COUNTS[name], *values]
        elif name in options:
            ours += [word] if equals else [word, *values]
        elif word.startswith("--") and name not in ("--", "--output-dir", *_SWITCHES):
            keys += [name, *values]
        elif word.endswith(".toml"):
            files.append(word)
    layers = files if len(files) == 1 else [part for file in files for part in ("@", file)]
    return [*ours, *layers, "--", *keys]


def read_config_line(words: list[str], options: Options) -> tuple[list[str], Mapping[str, object]]:
    """The grammar of commands that take a config; `given` of the namespace is what argparse does not read."""
    given = ManualArguments(words, options)
    return given.rest, {"given": given}


class ManualArguments:
    """Files and overrides on a command line, and what is left of it for argparse."""

    def __init__(self, words: list[str], options: Options) -> None:
        """Reads what follows the name of a command that has these `options`.

        Raises:
            UsageError: if it is neither its grammar nor that of a launcher.
        """
        words = _without_medarc(words, options)
        self.program, ranks, words = _of_one_program(words)
        """The component that the line starts alone; empty: all."""
        self.rest: list[str] = []
        self.overlays: list[tuple[str, str]] = []
        """File and table of each `@`."""
        self.overrides: dict[str, tuple[str, ...]] = {}
        self._assignments: list[str] = []
        end = words.index("--") if "--" in words else len(words)
        self._options = options
        self._words = words[:end]
        self._is_pasted = bool(self.program) or any(_is_at(word) for word in self._words)
        self._read()
        self._options, self._words, self._is_pasted = {}, words[end + 1 :], True
        self._read()
        if self.program:
            self._start_alone(ranks, options)
        self.edits: dict[str, str] = {}
        """Value of each knob behind `--set`."""
        if self._assignments:
            from rltui.core.knobs import split_assignments  # only where there are some

            self.edits = split_assignments(self._assignments)

    @property
    def is_plain(self) -> bool:
        return not (self.overlays or self.overrides or self.edits or self.program)

    def _start_alone(self, ranks: int, options: Container[str]) -> None:
        """Keys are those of the program's own file; what torchrun starts gets so many GPUs."""
        if self.program in _PROGRAMS:
            self.overrides = {f"{self.program}.{key}": values for key, values in self.overrides.items()}
            self.rest += ["--only", self.program] if "--only" in options else []
        if self.program == "trainer" and ranks > 1:
            self.overrides["orchestrator.num_train_workers"] = (str(ranks),)
        elif self.program == "sft" and "--layout" in options:
            devices = ",".join(map(str, range(ranks)))
            self.rest += ["--layout", "torchrun-sft", *(["--devices", devices] if ranks > 1 else [])]

    def _read(self) -> None:
        while self._words:
            word = self._words.pop(0)
            name, equals, value = word.partition("=")
            if _is_at(word):
                self.overlays.append((self._file(word), ""))
            elif word.startswith("--") and not equals and self._takes_file(name):
                self.overlays.append((self._file(self._words.pop(0)), _key(name)))
            elif name == _SET and name in self._options:
                self._edit(value if equals else None)
            elif name in self._options:
                self._own_option(word, takes_value=self._options[name] and not equals)
            elif word.startswith("--"):
                self._override(word, name, [value] if equals else None)
            elif self._is_pasted and not word.startswith("-") and not word.endswith(".toml"):
                self._program(word)
            elif not self._options:
                raise UsageError(f"{word!r} is no option of a config", hint="behind --: --KEY VALUE, @ FILE")
            else:
                self.rest.append(word)

    def _takes_file(self, name: str) -> bool:
        """An `@` follows, and the option is none that stands by itself, as in `--no-wait @ rl.toml`."""
        return bool(self._words) and _is_at(self._words[0]) and self._options.get(name, True)

    def _file(self, word: str) -> str:
        """What follows an `@`, with or without a space."""
        if word != "@":
            return word[1:]
        if not self._words or self._words[0].startswith("-"):
            raise UsageError("@ needs a file behind it", hint="@ rl.toml")
        return self._words.pop(0)

    def _edit(self, assignment: str | None) -> None:
        if assignment is None:
            if not self._words:
                raise UsageError(f"{_SET} needs KEY=VALUE behind it", hint=f"{_SET} lr=1e-5")
            assignment = self._words.pop(0)
        self._assignments.append(assignment)

    def _own_option(self, word: str, *, takes_value: bool) -> None:
        self.rest.append(word)
        if takes_value and self._words:
            self.rest.append(self._words.pop(0))

    def _override(self, word: str, name: str, values: list[str] | None) -> None:
        if not self._is_pasted:
            if any(option.startswith(name) for option in self._options):  # argparse takes beginnings, too
                self.rest.append(word)
                return
            raise UsageError(
                f"{name} is no option of this command",
                hint=f"what sets a key of the config stands behind --: rl.toml -- {name} …",
            )
        if values is None:
            values = []
            while self._words and not _is_option(self._words[0]):
                values.append(self._words.pop(0))
        self.overrides[_key(name)] = tuple(values)

    def _program(self, word: str) -> None:
        if self.overlays or word == "env-server":
            raise UsageError(
                f"{word!r} cannot be understood here", hint="write it like: rl @ FILE --KEY VALUE"
            )
        if Path(word).exists():
            self.rest.append(word)
        elif word not in _LAUNCHERS:
            raise UsageError(f"{word!r} before @ cannot be understood", hint="write it like: rl @ rl.toml")


def _is_at(word: str) -> bool:
    return word.startswith("@")


def _is_option(word: str) -> bool:
    return _is_at(word) or (word.startswith("-") and len(word) > 1 and not _NUMBER.match(word))


def _key(name: str) -> str:
    key = name.removeprefix("--")
    if not _KEY.fullmatch(key):
        raise UsageError(f"{name!r} names no key", hint="write it like --model.name X")
    key = key.replace("-", "_")
    if key in _OTHERS:
        raise UsageError(f"{name} is no key of the config", hint=_OTHERS[key])
    return key


@contextmanager
def staged(
    arguments: argparse.Namespace, choose: Choose, *, workspace: Path, force: bool = False
) -> Iterator[RunConfig]:
    """The config files that were named; copies of them where options or several `@` change what they say."""
    from rltui.services.config.files import named, with_companion_files  # only where a config is looked into
    from rltui.services.config.run_config import ConfigLine, ConfigOverlay, Override, RunConfigBuilder

    given: ManualArguments = arguments.given
    files = named([Path(name) for name in arguments.config])
    overlays = tuple(ConfigOverlay(Path(name).absolute(), table) for name, table in given.overlays)
    if given.program and len(overlays) == 1:
        files, overlays = with_companion_files(overlays[0].path), ()
    line = ConfigLine(
        files=files,
        overlays=overlays,
        program="" if files or overlays else given.program,
        overrides=tuple(Override(key, values) for key, values in given.overrides.items()),
        edits=given.edits,
    )
    with RunConfigBuilder(line, choose, workspace=workspace, force=force).build() as found:
        yield found
