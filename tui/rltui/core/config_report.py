"""What is told about config files: knobs, problems, figures that follow, conflicts, differences.

With `core/api.py`, these models document every `--json` shape.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from rltui.core.gpu.report import MemoryVerdict
from rltui.core.knobs import Control
from rltui.core.secrets import MASK, OTHER_MASK, masked
from rltui.core.values import Value

_NEAREST = ": nearest valid "


class Problem(Value):
    severity: Literal["error", "warning", "hint"] = "error"
    key: str | None = None
    """Dotted path, such as `orchestrator.batch_size`."""
    message: str
    """Names the rule, the knobs with their values, and the nearest valid values."""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    instead: dict[str, str] = Field(default_factory=dict)
    """Further knobs that could be changed instead of `key` → their nearest valid values, in words."""
    standing: bool = False
    """Of an edit: it was so before, or is not about what is edited."""

    def after_edit(self, keys: Collection[str]) -> Problem:
        """For who has just edited `keys`: values for these come first."""
        edited = next((key for key in keys if self.instead.get(key)), None)
        what, _, advice = self.message.partition(_NEAREST)
        if edited is None or not advice or self.key in keys:
            return self
        first = f"{edited.rpartition('.')[2]} is {self.instead[edited]}"
        return self.model_copy(update={"message": f"{what}{_NEAREST}{first}, or {advice}"})

    @property
    def text(self) -> str:
        """`file:line:column: message`, as far as known."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return f"{place}: {self.message}" if place else self.message


class _Told(Value):
    """Of a key: its secret values are masked, whoever makes this."""

    _VALUES: ClassVar = ("value", "default", "running", "before", "after", "base", "theirs", "yours")

    @model_validator(mode="before")
    @classmethod
    def _mask(cls, data: Any) -> Any:  # noqa: ANN401  (as pydantic has it)
        if not isinstance(data, dict) or not isinstance(data.get("key"), str):
            return data
        key, told = data["key"], dict(data)
        first = next((data[name] for name in cls._VALUES if isinstance(data.get(name), str)), None)
        for name in cls._VALUES:
            if name in data and data[name] != OTHER_MASK:
                told[name] = masked(key, data[name])
                if told[name] == MASK and data[name] != first:
                    told[name] = OTHER_MASK
        return told


class KnobInfo(_Told):
    key: str
    file: str
    value: Any = None
    """What the file holds, or the default where the file does not set it."""
    default: Any = None
    running: Any = None
    """What the living readers got, from the file or in place of it; `None` also when nothing runs: see
    `is_running`."""
    overridden: bool = False
    """rltui passed `running` in place of what the file says, and would again: a busy port's stand-in, the
    checkpoint to resume from, the run's own folder."""
    is_set: bool = False
    """The file sets it (else `value` is the default)."""
    is_running: bool = False
    """A reader is alive, so `running` is meaningful."""
    kind: Literal["int", "float", "bool", "str", "enum", "list"] = "str"
    control: Control = ""
    """How it is best moved: `fraction` is a share of a GPU's memory, `doubling` a size that goes by powers
    of 2."""
    main: bool = True
    """Turned from day to day; the others are for the screen that has them all, unless the file sets them."""
    known: bool = True
    """It is in the framework's knob table; else a key of the file of which no more is known than its
    value."""
    nullable: bool = False
    choices: tuple[str, ...] = ()
    bounds: tuple[float | None, float | None] = (None, None)
    """Smallest and largest allowed value, inclusive."""
    unit: str = ""
    readers: tuple[str, ...] = ()
    help: str = ""

    @property
    def changed(self) -> bool:
        """The file differs from what runs, and a restart would change that."""
        return self.is_running and self.running != self.value and not self.overridden


class DerivedValue(Value):
    """A figure that follows from a config, such as prompts per step."""

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
    """Every further key that the files set, in their order, then those that only what runs was started with:
    `known` is false."""
    derived: tuple[DerivedValue, ...] = ()
    problems: tuple[Problem, ...] = ()
    undo: str | None = None
    """The edit that `undo` would take back, in words; `None` where there is none."""
    redo: str | None = None
    converts_to: Literal["tokens", "rollouts"] | None = None
    """The other way of batching that this config could be converted to; `None` where the framework has
    one."""
    since_origin: str = ""
    """Unified diff from what the run's own copies were made from to what they are; empty where the files are
    the user's."""

    def learning_rate(self, reader: str) -> tuple[str, float] | None:
        for knob in self.knobs:
            is_rate = knob.key.rpartition(".")[2] in ("lr", "learning_rate") and reader in knob.readers
            if is_rate and isinstance(knob.value, float) and knob.value > 0:
                return knob.key, knob.value
        return None


class KeyConflict(_Told):
    """A key that somebody else changed since the person looked, and that the edit changes too."""

    key: str
    base: Any = None
    """What the person saw."""
    theirs: Any = None
    """What the file holds now."""
    yours: Any = None


class FileConflict(Value):
    """A config file that changed since the person looked: the three sides."""

    file: str
    theirs: str = ""
    """Unified diff from what the person saw to what the file holds now; empty where that was not kept."""
    yours: str = ""
    """Unified diff from what the person saw to what they want."""
    keys: tuple[KeyConflict, ...] = ()
    """Keys that both sides changed, to different values. Empty: the edit fits onto the new file."""


class KeyDifference(_Told):
    key: str
    file: str
    before: Any = None
    """`None` where it is not set."""
    after: Any = None
    readers: tuple[str, ...] = ()
    overridden: bool = False
    """rltui passed the first in place of what the file says, and would again."""


class ConfigDiff(Value):
    """`rltui diff --json`."""

    before: str
    """What the first side is: `running`, `original`, or an attempt such as `trainer#3`."""
    after: str
    """`files`, or an attempt."""
    keys: tuple[KeyDifference, ...] = ()
    text: str = ""
    """Unified diff of the files."""


class PendingKnob(_Told):
    """A knob whose value in the file is not the one that runs."""

    key: str
    running: Any = None
    value: Any = None
    readers: tuple[str, ...] = ()
    """Living components that were started with another value."""


class Check(Value):
    """`rltui check --json`."""

    valid: bool
    startable: bool = True
    """With this layout; the problems say what stands in the way."""
    own: str = ""
    """What the framework's own classes have to do with the verdict, in words."""
    framework: str
    layout: str = ""
    problems: tuple[Problem, ...] = ()
    derived: tuple[DerivedValue, ...] = ()
    memory: tuple[MemoryVerdict, ...] = ()
    """Of each component with devices, its worst, by what is free now; empty where no GPU can be read."""


class Conversion(Value):
    """The same batch, counted the other way: `rltui convert --json`."""

    to: Literal["tokens", "rollouts"]
    edits: dict[str, Any] = Field(default_factory=dict)
    """Dotted key to new value, as `Request.edits` takes them; empty where `mean_tokens` is not known."""
    mean_tokens: float | None = None
    """Tokens of a mean accepted rollout that it was reckoned with; `None`: nothing was measured, ask."""
    measured: str | None = None
    """Where that figure comes from, in words: `mean of steps 3 to 12`; `None` where a person gave it."""
    arithmetic: tuple[str, ...] = ()
    """How each new value comes about, a line each."""


class ForeignConfig(Value):
    """A config written for another framework: `rltui convert --to FRAMEWORK FILE --json`."""

    framework: str
    path: str
    text: str
    diff: str = ""
    """Unified diff from the old file."""
    notes: tuple[str, ...] = ()
    """What has no counterpart there, or means something else."""
    problems: tuple[Problem, ...] = ()
    valid: bool = True
