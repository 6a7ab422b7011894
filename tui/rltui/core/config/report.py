"""Reports about config files: knobs, problems, derived values, conflicts, differences.

With `core/experiment/api.py`, these models document every `--json` shape.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal, Self

from msgspec import field
from msgspec.structs import force_setattr

from rltui.base.secrets import MASK, OTHER_MASK, mask_value
from rltui.base.values import Value
from rltui.core.config.knobs import Control, KnobKind
from rltui.core.gpu.report import MemoryVerdict
from rltui.errors import ConfigError

_NEAREST = ": nearest valid "

ProblemSeverity = Literal["error", "warning", "hint"]
BatchUnit = Literal["tokens", "rollouts"]
"""The unit in which a config counts its batch."""


class Problem(Value):
    severity: ProblemSeverity = "error"
    key: str | None = None
    """Dotted key, such as `orchestrator.batch_size`."""
    message: str
    """Names the rule, the knobs with their values, and the nearest valid values."""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    mended_by: str = ""
    """The command that mends it; a screen opens the editor on `key` instead."""
    instead: dict[str, str] = field(default_factory=dict)
    """Further knobs that could be changed instead of `key` → their nearest valid values, in words."""
    standing: bool = False
    """For an edit: the problem existed before, or is not about the edited keys."""
    code: str = "invalid_config"
    """A row of `core/experiment/reason_codes.py`."""

    @property
    def is_error(self) -> bool:
        """True if the config cannot be used with it; a warning may be left."""
        return self.severity == "error"

    def after_edit(self, keys: Collection[str]) -> Problem:
        """The problem for a person who has just edited `keys`: values for these come first."""
        edited_key = next((key for key in keys if self.instead.get(key)), None)
        rule, _, advice = self.message.partition(_NEAREST)
        if edited_key is None or not advice or self.key in keys:
            return self
        first = f"{edited_key.rpartition('.')[2]} is {self.instead[edited_key]}"
        return self.replace(message=f"{rule}{_NEAREST}{first}, or {advice}")

    @property
    def text(self) -> str:
        """`file:line:column: message`, as far as known."""
        location = ":".join(str(field) for field in (self.file, self.line, self.column) if field is not None)
        return f"{location}: {self.message}" if location else self.message


def config_error(errors: Sequence[Problem], hint: str) -> ConfigError:
    """The refusal of a config for its errors: a single one is the title, several are the details."""
    lines, code = [problem.text for problem in errors], errors[0].code
    if len(lines) == 1:
        return ConfigError(lines[0], hint=hint, code=code)
    return ConfigError(f"{len(lines)} errors in the config", details=lines, hint=hint, code=code)


class _SecretMasking(Value):
    """Base of reports about a key: its secret values are masked on construction."""

    _VALUES: ClassVar = ("value", "default", "running", "before", "after", "base", "theirs", "yours")

    key: str

    def __post_init__(self) -> None:
        values = self.part(*(name for name in self._VALUES if name in self.__struct_fields__))
        first_secret = next((value for value in values.values() if isinstance(value, str)), None)
        for name, value in values.items():
            masked_value = OTHER_MASK if value == OTHER_MASK else mask_value(self.key, value)
            if masked_value == MASK and value != first_secret:
                masked_value = OTHER_MASK
            if masked_value is not value:
                force_setattr(self, name, masked_value)

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 - of the fields' types
        """The same with other values as they are: a secret that a person has typed is not masked."""
        copy = super().replace(**changes)
        for name, value in changes.items():
            force_setattr(copy, name, value)
        return copy


class KnobInfo(_SecretMasking):
    key: str
    file: str
    value: Any = None
    """The value in the file, or the default if the file does not set it."""
    default: Any = None
    running: Any = None
    """The value of the living readers, from the file or an override; `None` also if nothing runs: see
    `is_running`.
    """
    overridden: bool = False
    """rltui passed `running` in place of the file's value, and would again: a busy port's replacement, the
    checkpoint to resume from, the run's own folder.
    """
    is_set: bool = False
    """The file sets it (else `value` is the default)."""
    is_running: bool = False
    """A reader is alive, so `running` is meaningful."""
    kind: KnobKind = "str"
    control: Control = ""
    """The best editor control: `fraction` is a share of a GPU's memory, `doubling` a size that goes by
    powers of 2.
    """
    main: bool = True
    """Turned from day to day; the others are shown on the screen for all knobs only, unless the file sets
    them.
    """
    known: bool = True
    """It is in the framework's knob table; otherwise a key of the file of which only the value is known."""
    nullable: bool = False
    choices: tuple[str, ...] = ()
    bounds: tuple[float | None, float | None] = (None, None)
    """Smallest and largest allowed value, inclusive."""
    unit: str = ""
    readers: tuple[str, ...] = ()
    help: str = ""

    @property
    def changed(self) -> bool:
        """The file differs from the running value, and a restart would change that."""
        return self.is_running and self.running != self.value and not self.overridden


class DerivedValue(Value):
    """A value computed from a config, such as prompts per step."""

    name: str
    value: float | int | str | None
    unit: str = ""
    text: str = ""
    """The arithmetic in words: `128 rollouts / 16 per example = 8 prompts per step`."""


class KnobTable(Value):
    """`rltui knobs --json`."""

    files: tuple[str, ...] = ()
    knobs: tuple[KnobInfo, ...] = ()
    others: tuple[KnobInfo, ...] = ()
    """Every further key that the files set, in their order, then those that only running components were
    started with: `known` is false.
    """
    derived: tuple[DerivedValue, ...] = ()
    problems: tuple[Problem, ...] = ()
    undo: str | None = None
    """The edit that `undo` would take back, in words; `None` if there is none."""
    redo: str | None = None
    converts_to: BatchUnit | None = None
    """The other way of batching that this config could be converted to; `None` if the framework has one."""
    since_origin: str = ""
    """Unified diff from the originals of the run's own copies to their present text; empty if the files are
    the user's.
    """

    def learning_rate(self, reader: str) -> tuple[str, float] | None:
        for knob in self.knobs:
            is_rate = knob.key.rpartition(".")[2] in ("lr", "learning_rate") and reader in knob.readers
            if is_rate and isinstance(knob.value, float) and knob.value > 0:
                return knob.key, knob.value
        return None


class KeyConflict(_SecretMasking):
    """A key that somebody else changed since the person looked, and that the edit changes too."""

    key: str
    base: Any = None
    """The value that the person saw."""
    theirs: Any = None
    """The value in the file now."""
    yours: Any = None


class FileConflict(Value):
    """A config file that changed since the person looked: the three sides."""

    file: str
    theirs: str = ""
    """Unified diff from the text that the person saw to the present file; empty if the former was not
    stored.
    """
    yours: str = ""
    """Unified diff from the text that the person saw to their own version."""
    keys: tuple[KeyConflict, ...] = ()
    """Keys that both sides changed, to different values. Empty: the edit fits onto the new file."""


class KeyDifference(_SecretMasking):
    key: str
    file: str
    before: Any = None
    """`None` if it is not set."""
    after: Any = None
    readers: tuple[str, ...] = ()
    overridden: bool = False
    """rltui passed the first value in place of the file's, and would again."""


class ConfigDiff(Value):
    """`rltui diff --json`."""

    before: str
    """Name of the first side: `running`, `original`, or an attempt such as `trainer#3`."""
    after: str
    """Name of the second side: `files`, or an attempt."""
    keys: tuple[KeyDifference, ...] = ()
    text: str = ""
    """Unified diff of the files."""


class PendingKnob(_SecretMasking):
    """A knob whose value in the file is not the running one."""

    key: str
    running: Any = None
    value: Any = None
    readers: tuple[str, ...] = ()
    """Living components that were started with another value."""


class Blocker(Value):
    """A reason why a valid config cannot be started here."""

    reason: str
    hint: str = ""

    @property
    def text(self) -> str:
        return f"{self.reason}; {self.hint}" if self.hint else self.reason


class Check(Value):
    """`rltui check --json`."""

    valid: bool
    validator: str = ""
    """The schema or models that the config was checked against, in words; empty: rltui's own rules alone."""
    not_asked: str = ""
    """The reason why the framework's own validators were not asked; empty if they were, or there are none."""
    startable: bool = False
    """Whether it can be started here, as far as can be told: it is valid, and there are no blockers."""
    blockers: tuple[Blocker, ...] = ()
    framework: str
    layout: str = ""
    problems: tuple[Problem, ...] = ()
    derived: tuple[DerivedValue, ...] = ()
    memory: tuple[MemoryVerdict, ...] = ()
    """The worst verdict of each component with devices, by the memory that is free now; empty if no GPU can
    be read.
    """


class Conversion(Value):
    """The same batch, counted the other way: `rltui convert --json`."""

    to: BatchUnit
    edits: dict[str, Any] = field(default_factory=dict)
    """Dotted key → new value, as in `Request.edits`; empty if `mean_tokens` is unknown."""
    mean_tokens: float | None = None
    """Tokens of a mean accepted rollout, used for the conversion; `None`: nothing was measured, ask."""
    measured: str | None = None
    """Origin of that mean, in words: `mean of steps 3 to 12`; `None` if a person gave it."""
    arithmetic: tuple[str, ...] = ()
    """Derivation of each new value, a line each."""


class KeyChange(Value):
    """The change of one key of a config that is written for another release."""

    kind: Literal["moved", "merged", "changed", "dropped", "set", "default"]
    """It has another name; another key says the same; it has another value; it is gone; it was missing; its
    default is another one."""
    key: str | None = None
    """Its dotted name before; `None` if it was not there."""
    to: str | None = None
    """Its name now; `None` if it is gone."""
    value: str = ""
    """In words, without secrets: the one that is gone, set, or `before → after`."""
    why: str = ""
    todo: str = ""
    """What a person has to do; empty: nothing."""
    date: str = ""
    commit: str = ""
    """Of the framework, when that changed."""
    file: str = ""


class ConvertedFile(Value):
    path: str
    text: str
    sources: tuple[str, ...] = ()
    """The files that it was made of; its own path, if it is to be written in place."""


class ValueDifference(Value):
    """A value that is another one afterwards, or that nothing there stands for. Texts without secrets."""

    key: str
    """Its dotted name before."""
    to: str | None = None
    """Its name afterwards; `None`: there is none."""
    before: str = ""
    after: str = ""
    is_set: bool = False
    """The files say it; otherwise it is a default, or follows from others."""


class Equivalence(Value):
    """A comparison of a config with what it was converted from, value by value."""

    before: str
    """Who said what the values were, in words."""
    after: str
    is_proven: bool = False
    """Both releases' own models said it; otherwise a shipped schema, as far as it knows."""
    equal: int = 0
    """Number of values that are the same."""
    different: tuple[ValueDifference, ...] = ()
    gone: tuple[ValueDifference, ...] = ()
    """Those that are set, and that nothing stands for afterwards."""
    unproven: tuple[str, ...] = ()
    """Keys afterwards of which the later release's schema says nothing."""


class ForeignConfig(Value):
    """A config written for another framework, or a later release of its own: `rltui convert --to` as JSON."""

    framework: str
    source: str = ""
    """Release that the files were for, in words."""
    target: str = ""
    """Release that they are for now."""
    path: str
    text: str
    """Of the first file."""
    files: tuple[ConvertedFile, ...] = ()
    diff: str = ""
    """Unified diff from the old files."""
    changes: tuple[KeyChange, ...] = ()
    """What has become of each key; empty for another framework, whose keys `notes` has."""
    notes: tuple[str, ...] = ()
    """Keys that have no counterpart there, or mean something else."""
    problems: tuple[Problem, ...] = ()
    valid: bool = True
    validator: str = ""
    """Who says so, in words."""
    compared: Equivalence | None = None
    """Whether old and new files mean the same; `None` for another framework."""
