"""Decides what an agent may do: its rights by settings, run and pause, and the one decision on an act. Pure.

A person is never restricted. Hard limits (verbs, runs, keys, bounds, counts) hold at every level: what breaks
one cannot be proposed either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeGuard, get_args

from pydantic import Field, field_validator

from rltui.base.tables import TomlTable, list_of_texts
from rltui.base.text import join_words
from rltui.base.toml.values import TomlValue
from rltui.core.config.knobs import display
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.consent import Verb

Level = Literal["look", "propose", "act"]
LEVELS: Mapping[Level, str] = {
    "look": "agents look, and change nothing",
    "propose": "agents propose, and a person accepts or declines",
    "act": "agents act, within the limits of the settings",
}
"""Level → its meaning, in words."""
_PERSONAL: Mapping[str, str] = {
    "agents": "what agents may do", "settings": "the settings", "trust": "the programs that are trusted",
}  # fmt: skip
"""Verb → what it decides about: for persons alone, whatever the settings."""
_HARMLESS: frozenset[Verb] = frozenset({"note", "label"})
"""Carried out where other acts are only proposed: they add words to a run."""
_STARTING: frozenset[Verb] = frozenset({"start", "restart", "up", "rerun", "eval", "queue"})
_Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], list_of_texts()]
_Bound = Annotated[float, Field(allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


class Rights(TomlTable):
    """Rights of agents: the table `[agents]` of the settings. Each name of an agent is counted by itself."""

    rights: Level = "propose"
    """Level on runs that have none of their own."""
    verbs: _Words = ("*",)
    """Patterns of acts that are allowed."""
    keys: _Words = ("*",)
    """Patterns of config keys that may be changed."""
    runs: _Words = ("*",)
    """Patterns of names of runs that may be changed."""
    bounds: Mapping[str, tuple[_Bound, _Bound]] = Field(default_factory=dict)
    """Pattern of keys → lowest and highest value that an agent may give them."""
    max_runs: _Count | None = None
    """Living runs that an agent has created or started."""
    max_trials: _Count | None = None
    """Runs of an agent in the queue, waiting or running."""
    restarts_per_hour: _Count | None = None
    gpu_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    disk_gb: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None

    @field_validator("verbs")
    @classmethod
    def _are_verbs(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            if not any(fnmatchcase(verb, pattern) for verb in get_args(Verb)):
                raise ValueError(f"{pattern} is none of {', '.join(get_args(Verb))}")
        return patterns

    @field_validator("bounds", mode="before")
    @classmethod
    def _are_keys(cls, value: object) -> object:
        return dict(_by_key(value)) if isinstance(value, dict) else value

    @field_validator("bounds")
    @classmethod
    def _are_ranges(cls, bounds: Mapping[str, tuple[float, float]]) -> Mapping[str, tuple[float, float]]:
        for key, (low, high) in bounds.items():
            if low > high:
                raise ValueError(f"bounds of {key}: write [lowest, highest]")
        return bounds


def _by_key(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Flattens tables: `bounds.optim.lr = …` without quotes is a table in a table for TOML."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _by_key(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Granted:
    """The rights on one run, or on new ones."""

    rights: Rights
    level: Level
    source: str = "[agents] rights"
    """The source of the level, in words: a pause, the run itself, settings that cannot be read."""
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    verb: Verb
    run: str = ""
    """Name of the run; empty where it is about no run in particular."""
    changes: Mapping[str, TomlValue] = field(default_factory=dict)
    """Key → new value, `None` where it is removed."""
    config: Mapping[str, TomlValue] = field(default_factory=dict)
    """Key → value of a config that an agent made: within the bounds, whoever may change its keys."""
    restarts: bool = False
    """Components of a run that is there are started."""
    creates: bool = False
    """It becomes another living run of the agent."""
    queues: int = 0
    """Entries that it adds to the queue."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The use of this machine by one agent now, without the act in question."""

    runs: int = 0
    trials: int = 0
    restarts: int = 0
    """Number of its restarts in the last hour."""
    gpu_hours: float = 0.0
    disk_bytes: int = 0


class Permission(StrEnum):
    ALLOW = "allow"
    PROPOSE = "propose"
    """A person must accept it."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Judgement:
    permission: Permission
    code: str = ""
    """Reason code: `not_allowed`, `paused`, `over_budget`, `needs_person`."""
    text: str = ""
    """The rule that it breaks, in words."""
    allowed: str = ""
    """The acts or values that would be allowed, in words."""


_ALLOWED = Judgement(Permission.ALLOW)


def decide(granted: Granted, actor: Actor, act: Act, counts: Counts = Counts()) -> Judgement:
    """Decide whether `actor` may do `act` at once, must propose it, or may not."""
    if not actor.is_agent:
        return _ALLOWED
    rights = granted.rights
    if act.verb in _PERSONAL:
        text = f"to decide about {_PERSONAL[act.verb]} is for persons, not for agents"
        return _refused(text, "to ask the person who runs this machine")
    if granted.level == "look":
        text, allowed = f"agents may only look ({granted.source})", "status, logs, metrics, events, why, wait"
        return _refused(text, allowed, "paused" if granted.is_paused else "not_allowed")
    if not _fits(act.verb, rights.verbs):
        return _refused(f"agents may not {act.verb} ([agents] verbs)", _listed(rights.verbs))
    if act.run and not _fits(act.run, rights.runs):
        return _refused(f"agents may not change {act.run} ([agents] runs)", _listed(rights.runs))
    for key in act.changes:
        if not any(_is_key(key, pattern) for pattern in rights.keys):
            return _refused(f"agents may not change {key} ([agents] keys)", _listed(rights.keys))
    for key, value in (*act.changes.items(), *act.config.items()):
        if text := _outside(key, value, rights.bounds):
            return _refused(text, "choose a value within the bounds")
    if judgement := _over(rights, act, counts, actor.name):
        return judgement
    if granted.level == "act" or act.verb in _HARMLESS:
        return _ALLOWED
    return Judgement(Permission.PROPOSE, "needs_person", f"{act.verb} needs a person ({granted.source})")


def _refused(text: str, allowed: str, code: str = "not_allowed") -> Judgement:
    return Judgement(Permission.REFUSE, code, text, allowed)


def _listed(names: Iterable[str]) -> str:
    return join_words(list(names)) or "none"


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_key(key: str, pattern: str) -> bool:
    """`optim.lr` is also `trainer.optim.lr`: other generations have other tables around the same knob."""
    return fnmatchcase(key, pattern) or fnmatchcase(key, f"*.{pattern}")


def _outside(key: str, value: TomlValue, bounds: Mapping[str, tuple[float, float]]) -> str:
    """Say why a value is outside the bounds; empty if it is not. A list is outside if one item is."""
    for pattern, (low, high) in bounds.items():
        if not _is_key(key, pattern):
            continue
        rule = f"{low:g} to {high:g} ([agents] bounds)"
        if value is None:
            return f"without a value {key} may be outside {rule}"
        for item in value if isinstance(value, list | tuple) else (value,):
            if not (_is_number(item) and low <= item <= high):
                return f"{key}={display(item, key=key)} is outside {rule}"
    return ""


def _over(rights: Rights, act: Act, counts: Counts, name: str) -> Judgement | None:
    """The first limit that the act would exceed; an act that starts nothing exceeds none."""
    checks = (
        ("max_runs", counts.runs, int(act.creates), "living runs", "end one first"),
        ("max_trials", counts.trials, act.queues, "runs in the queue", "wait for one, or cancel one"),
        ("restarts_per_hour", counts.restarts, int(act.restarts), "restarts in this hour", "wait"),
    )
    for rule, now, more, words, advice in checks:
        most = getattr(rights, rule)
        if more and most is not None and now + more > most:
            return _refused(f"{name} has {now} of at most {most} {words} ([agents] {rule})", advice)
    if act.verb not in _STARTING and not act.restarts:
        return None
    if rights.gpu_hours is not None and counts.gpu_hours >= rights.gpu_hours:
        text = (
            f"{name} has used {counts.gpu_hours:.1f} of {rights.gpu_hours:g} GPU hours ([agents] gpu_hours)"
        )
        return _refused(text, "nothing that starts a component", "over_budget")
    gigabytes = counts.disk_bytes / 1e9
    if rights.disk_gb is not None and gigabytes >= rights.disk_gb:
        text = f"the runs of {name} hold {gigabytes:.1f} of {rights.disk_gb:g} GB ([agents] disk_gb)"
        return _refused(text, "prune checkpoints first", "over_budget")
    return None
