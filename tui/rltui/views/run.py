"""Runs: the columns of a list of them, one at a glance, all that is known of it, what a fork comes to.

A column serves for display, sort, filter and comparison: a field of the run, a metric, or a config key.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from rltui.base.text import (
    count_text,
    did_you_mean,
    duration,
    format_number,
    size_text,
    sparkline,
    steps_text,
    truncate,
    value_text,
)
from rltui.base.times import date_text
from rltui.core.config.data import config_value, matching_keys, short_names
from rltui.core.experiment.states import RUN_STATES
from rltui.core.metrics.learning import TARGETS
from rltui.core.metrics.levels import LEVEL_STEPS
from rltui.core.metrics.names import CONCEPTS, MetricConcept, concept_of
from rltui.core.runs.row import RunRow
from rltui.core.runs.state import state_text
from rltui.errors import UsageError
from rltui.frameworks import packages
from rltui.views.experiment import state_cell, step_text

if TYPE_CHECKING:
    from rltui.core.runs.forks import ForkPlan

Details = list[tuple[str, Sequence[str]]]
"""Labels, and the texts behind each; a text may be empty."""
ColumnKind = Literal["text", "words", "number", "steps", "time", "age", "seconds", "bytes", "flag", "config"]
"""Kind of a column's values. `words`: several texts; `steps`, `seconds` and `bytes` are numbers of those;
`age`: a time that is displayed as how long ago it was; `config`: any TOML value.
"""

_LEFT: frozenset[ColumnKind] = frozenset({"text", "words", "config"})
_NAME = re.compile(r"[A-Za-z_][\w.\-/]*")
_TREND_WIDTH = 12
_COMMIT_LETTERS = 9
_MOST_CHANGED = 60
"""Characters of the text of one changed value."""
_NO_CONFIG: Mapping[str, Any] = {}


RowPath = tuple[str | int, ...]
"""Names of a field, of keys in it, of elements: `("metrics", "reward", 0)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunColumn:
    id: str
    """Name that people type: `reward`, `reward.best`, `optim.lr`."""
    heading: str
    kind: ColumnKind
    paths: Sequence[RowPath] = ()
    """The places of its value in a row: the first that has one counts. An empty text is none."""
    computed: Callable[[RunRow], Any] | None = None
    """Computes its value, where that is not in the row."""
    is_zero_none: bool = False
    about: str = ""
    widest: int = 24
    """Characters that are worth showing where there is room."""
    unit: str = ""
    smallest_first: bool = False
    """Sorted by it, the best figures come first, and these are the small ones: a loss."""
    level_of: str = ""
    """Id of the metric whose level it is."""
    of_config: bool = False
    """True if it needs the run's config; all others need only the row."""

    def value(self, row: RunRow, config: Mapping[str, Any] = _NO_CONFIG) -> Any:  # noqa: ANN401
        """Value of a run and its config, for comparison and scripts; `None` where it has none."""
        if self.of_config and (value := config_value(config, self.id)) is not None:
            return value
        if self.computed is not None:
            return self.computed(row)
        values = (_value_at(row, path) for path in self.paths)
        value = next((value for value in values if value is not None), None)
        has_empty = self.is_zero_none or self.kind in ("text", "words", "flag")
        return None if has_empty and not value else value

    @property
    def is_right(self) -> bool:
        return self.kind not in _LEFT

    def text(
        self,
        row: RunRow,
        config: Mapping[str, Any] = _NO_CONFIG,
        *,
        now: float,
        names: Mapping[str, str] = _NO_CONFIG,
    ) -> str:
        """The value for people, on one line, neither cut nor sanitized; empty where there is none.

        `names`: of other runs, by id.
        """
        if (special := _SPECIAL.get(self.id)) is not None:
            return special(row, names)
        if self.level_of == "reward" and row.target:
            return goal_text(row)
        if (level := row.levels.get(self.level_of)) is not None:
            return level.text(self.unit).replace(" ", "")
        value = self.value(row, config)
        return "" if value is None else self._plain(value, now)

    def _plain(self, value: Any, now: float) -> str:  # noqa: ANN401 - whatever the column holds
        match self.kind:
            case "number":
                return format_number(value, self.unit)
            case "steps":
                return str(value)
            case "seconds":
                return duration(value)
            case "bytes":
                return size_text(value)
            case "age":
                return duration(now - value)
            case "time":
                return date_text(value)
            case "flag":
                return "yes" if value else ""
            case "words":
                return " ".join(value)
            case "config":
                return config_value_text(self.id, value)
            case _:
                return str(value)


def _value_at(row: RunRow, path: RowPath) -> Any:  # noqa: ANN401 - whatever stands there
    value: Any = row
    for part in path:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif value is not None:
            value = value[part] if isinstance(part, int) else getattr(value, part)
    return value


def _field(
    id_: str,
    kind: ColumnKind,
    about: str,
    *paths: RowPath,
    widest: int = 24,
    computed: Callable[[RunRow], Any] | None = None,
    is_zero_none: bool = False,
) -> RunColumn:
    """`paths`: by default the field with the name of the column."""
    return RunColumn(
        id=id_,
        heading=id_.replace("_", " "),
        kind=kind,
        paths=() if computed else paths or ((id_,),),
        computed=computed,
        is_zero_none=is_zero_none,
        about=about,
        widest=widest if kind in _LEFT else 16,
    )


def _version(name: str) -> RunColumn:
    return _field(name, "text", f"version of {name} it ran with", ("versions", name), widest=16)


_REWARD: Sequence[RowPath] = (("levels", "reward", "mean"), ("metrics", "reward", 0))
_FIELDS: Mapping[str, RunColumn] = {
    column.id: column
    for column in (
        _field("name", "text", "name", widest=48),
        _field("state", "text", ", ".join(RUN_STATES), widest=24),
        _field("step", "steps", "completed steps and their total"),
        _field("max_steps", "steps", "total steps"),
        _field("trend", "number", "reward over all steps", *_REWARD),
        _field("changed", "text", "config keys that differ from its parent or the defaults",
            computed=lambda row: changed_text(row) or None, widest=44),
        _field("age", "age", "time since its start", ("started_at",), ("created_at",)),
        _field("started", "time", "start time", ("started_at",)),
        _field("ended", "time", "end time", ("ended_at",)),
        _field("created", "time", "creation time of its folder", ("created_at",)),
        _field("duration", "seconds", "total running time", ("seconds",), is_zero_none=True),
        _field("gpu_hours", "number", "GPU hours",
            computed=lambda row: row.gpu_seconds / 3600 or None),
        _field("attempts", "steps", "attempts of its most restarted component", is_zero_none=True),
        _field("gpus", "words", "its GPUs"),
        _field("tags", "words", "tags (`runs tag`)"),
        _field("note", "text", "note (`runs note`)", widest=48),
        _field("best", "flag", "starred (`runs star`)", ("is_best",)),
        _field("group", "text", "its sweep"),
        _field("parent", "text", "the run it was forked from"),
        _field("again", "text", "the run it repeats"),
        _field("checkpoints", "steps", "complete checkpoints",
            computed=lambda row: len(row.checkpoints) or None),
        _field("framework", "text", "its user"),
        _field("generation", "text", "generation of the framework"),
        _field("commit", "text", "commit of the workspace; * with uncommitted changes"),
        _field("host", "text", "its machine"),
        _field("disk", "bytes", "size of its folder", ("disk_bytes",)),
        _field("folder", "text", "its folder", widest=60),
        _field("kind", "text", "run or evaluation"),
        _field("reason", "text", "the reason for its state", ("reason", "text"), widest=60),
        _field("archived", "time", "when it was archived", ("archived_at",)),
        _field("trashed", "time", "when it was moved to the trash", ("trashed_at",)),
        _field("id", "text", "its unique id", widest=10),
        *map(_version, (*packages.LISTED, "driver")),
    )
}  # fmt: skip
_ALIASES = {
    "tag": "tags",
    "steps": "step",
    "size": "disk",
    "time": "duration",
    "gpu": "gpus",
    "sweep": "group",
}
_SETTINGS_TOO = frozenset({"lr", "seq_len"})
"""Metrics that are config keys as well: those are meant where a run has them; the metric is `lr.last`,
`seq_len.level`."""
DEFAULT_COLUMNS = ("name", "state", "step", "trend", "reward", "age", "duration", "changed", "tags", "gpus")
FIRST_TO_GO = ("gpus", "duration", "trend", "tags", "age")
"""Columns that leave a narrow table in this order, before a name or the changed keys are cut."""


def known_columns() -> tuple[RunColumn, ...]:
    """Columns that every list has, fields first, then the last values of the metrics with a chart."""
    metrics = tuple(_metric(concept) for concept in CONCEPTS if concept.curated)
    return (*_FIELDS.values(), *metrics)


def column_of(name: str) -> RunColumn:
    """The column of that name: a field, a metric (`reward.best`), else a config key by its last parts.

    Raises:
        UsageError: if that cannot be the name of any.
    """
    full_name = _ALIASES.get(name, name)
    if (field := _FIELDS.get(full_name)) is not None:
        return field
    id_, _, which = full_name.rpartition(".")
    if which in ("level", "last", "best") and (concept := concept_of(id_)) is not None:
        return _metric(concept, which)
    if (concept := concept_of(full_name)) is not None and full_name not in _SETTINGS_TOO:
        return _metric(concept)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"unknown column: {name}", hint=f"columns: {', '.join(_FIELDS)}, metrics, config keys"
        )
    return RunColumn(
        id=name,
        heading=name.rpartition(".")[2],
        kind="config",
        paths=(("metrics", name, 0),) if name in _SETTINGS_TOO else (),
        about="a config key",
        of_config=True,
    )


def columns_of(names: Iterable[str]) -> tuple[RunColumn, ...]:
    """Columns of these names, without duplicates.

    Raises:
        UsageError: as `column_of`.
    """
    return tuple({column.id: column for column in map(column_of, names)}.values())


def check_names(columns: Iterable[RunColumn], configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Say so where a column is a config key of none of these runs.

    Raises:
        UsageError: names what comes nearest; or the keys of one run among which it is not clear.
    """
    for column in columns:
        if column.of_config:
            _check_key(column.id, configs.values())


def _check_key(name: str, configs: Iterable[Mapping[str, Any]]) -> None:
    shapes = {tuple(config): config for config in configs if config}
    is_known = name in _SETTINGS_TOO
    for keys, config in shapes.items():
        matches = matching_keys(keys, name)
        is_known = is_known or bool(matches)
        if len(matches) > 1 and any(config[key] != config[matches[0]] for key in matches):
            raise UsageError(
                f"{name!r} is ambiguous: {' or '.join(matches)}",
                hint=f"use {matches[0]}, for example",
            )
    if not is_known:
        metrics = [concept.id for concept in CONCEPTS]
        endings = {
            key.split(".", depth)[-1]
            for keys in shapes
            for key in keys
            for depth in range(key.count(".") + 1)
        }
        raise UsageError(
            f"unknown field, metric or config key: {name}",
            hint=did_you_mean(name, [*_FIELDS, *metrics, *sorted(endings)])
            or f"known: {', '.join(DEFAULT_COLUMNS)}, …; any metric or config key",
        )


def _metric(concept: MetricConcept, which: str = "") -> RunColumn:
    """`which`: `last` or `best`; by default its level, or the last value of a metric that is not batched."""
    id_ = concept.id
    default = "level" if concept.by_batch else "last"
    which = default if which in ("", "level") else which
    is_plain = which == default and not (id_ in _SETTINGS_TOO or id_ in _FIELDS)

    number: RowPath = ("metrics", id_, int(which == "best"))
    about, heading = _VALUES[which] if concept.by_batch else _MEASURED[which]
    return RunColumn(
        id=id_ if is_plain else f"{id_}.{which}",
        heading=f"{id_.replace('_', ' ')}{heading}",
        kind="number",
        paths=(("levels", id_, "mean"), number) if which == "level" else (number,),
        about=f"{concept.title}, {about}",
        widest=20,
        unit=concept.unit,
        smallest_first=concept.better == "lower",
        level_of=id_ if which == "level" else "",
    )


_VALUES = {
    "level": (
        f"mean ± std of its last {LEVEL_STEPS} steps, sorted by the mean",
        f"({LEVEL_STEPS})",
    ),
    "last": ("of the last step only", ", last"),
    "best": (f"the best mean of {LEVEL_STEPS} consecutive steps", ", best"),
}
"""Statistic of a batched metric → its text and the heading behind the metric's name."""
_MEASURED = {"last": ("the last value", ""), "best": ("the best value", ", best")}


def changed_text(row: RunRow) -> str:
    """Differences such as `lr=1e-5 seed=2`, by the shortest names that are clear."""
    names = short_names(tuple(row.changed))
    return " ".join(f"{names[key]}={change_value_text(key, new)}" for key, (_, new) in row.changed.items())


def change_value_text(key: str, value: object) -> str:
    return truncate(config_value_text(key, value), _MOST_CHANGED)


def _thinned(values: tuple[float, ...]) -> tuple[float, ...]:
    """Values of a run averaged down to the width of the trend."""
    count = len(values)
    if count <= _TREND_WIDTH:
        return values
    ends = [round(index * count / _TREND_WIDTH) for index in range(_TREND_WIDTH + 1)]
    return tuple(sum(values[start:end]) / (end - start) for start, end in pairwise(ends))


_SPECIAL: Mapping[str, Callable[[RunRow, Mapping[str, str]], str]] = {
    "state": lambda row, _: state_text(row.state, row.reason),
    "step": lambda row, _: step_text(row.step, row.max_steps),
    "trend": lambda row, _: sparkline(_thinned(row.sparkline), _TREND_WIDTH),
    "gpus": lambda row, _: gpus_text(row.gpus),
    "best": lambda row, _: "★" if row.is_best else "",
    "parent": lambda row, names: names.get(row.parent, row.parent),
    "again": lambda row, names: names.get(row.again, row.again),
    "commit": lambda row, _: f"{row.commit[:_COMMIT_LETTERS]}{'*' if row.is_dirty else ''}",
}
"""Columns whose text is more than their value."""


def gpus_text(gpus: Sequence[str]) -> str:
    """Devices such as `2× NVIDIA H200`, with a comma between several models."""
    counts = {name: gpus.count(name) for name in gpus}
    return ", ".join(f"{count}× {name}" if count > 1 else name for name, count in counts.items())


def config_value_text(key: str, value: object) -> str:
    """A value of the config for people, masked where it is a secret."""
    if not isinstance(value, str):
        return value_text(value)
    from rltui.base.secrets import mask_value  # 4 ms, which a list without texts need not pay

    text: str = mask_value(key, value)
    return text


# --- one run ----------------------------------------------------------------------------------------------


def run_summary(row: RunRow) -> str:
    """`● running · step 83/200 · reward 0.62 · baseline`, as far as it is known."""
    step = f"step {step_text(row.step, row.max_steps)}" if row.step is not None else ""
    texts = (
        state_cell(row.state, row.reason).text,
        step,
        goal_text(row),
        *row.tags,
        "archived" if row.archived_at else "",
    )
    return " · ".join(filter(None, texts))


def goal_text(row: RunRow) -> str:
    """Say `reward 0.62`, or what it learns by without one: `teacher KL 0.031`; empty: unknown."""
    if not (target := row.target):
        return "" if row.reward is None else f"reward {row.reward:.2f}"
    _, title, sign = TARGETS[target]
    value = row.levels[target].mean if target in row.levels else row.metrics[target][0]
    return "" if value is None else f"{title} {format_number(sign * value)}"


def run_details(row: RunRow, names: Mapping[str, str]) -> Details:
    """All that is known of one, the most important first. `names`: of all runs, by id."""
    return [
        ("reason", [row.reason.text]),
        ("note", [row.note]),
        ("tags", row.tags),
        ("from", _origin(row, names)),
        ("changed", _changes(row)),
        ("metrics", _metrics(row)),
        ("took", _efforts(row)),
        ("code", _code(row)),
        ("when", _when(row)),
        ("folder", [row.folder]),
    ]


def sweep_details(name: str, runs: Sequence[RunRow]) -> Details:
    return [("sweep", [name]), ("runs", sweep_texts(runs)), ("named", sorted(row.name for row in runs))]


def sweep_texts(runs: Sequence[RunRow]) -> list[str]:
    """`6 runs`, `2 running`, `3 done`, `highest reward 0.83 ± 0.02: NAME`."""
    counts = Counter(row.state for row in runs)
    facts = [count_text(len(runs), "run")]
    facts += [f"{counts[state]} {badge.word}" for state, badge in RUN_STATES.items() if counts[state]]
    levels = {row.name: row.levels["reward"] for row in runs if "reward" in row.levels}
    if levels:
        highest = max(levels, key=lambda name: levels[name].mean)
        facts.append(f"highest reward {levels[highest].text()}: {highest}")
    return facts


def _origin(row: RunRow, names: Mapping[str, str]) -> list[str]:
    facts = []
    if row.parent:
        step_text = "" if row.parent_step is None else f" at step {row.parent_step}"
        facts.append(f"forked from {names.get(row.parent, row.parent)}{step_text}")
    if row.again:
        facts.append(f"repeats {names.get(row.again, row.again)}")
    if row.group:
        facts.append(f"sweep {row.group}")
    return facts


def _changes(row: RunRow) -> list[str]:
    """The form is `optim.lr 1e-5 → 1e-6`."""
    return [
        f"{key} {f'{config_value_text(key, old)} → ' if old is not None else ''}{config_value_text(key, new)}"
        for key, (old, new) in row.changed.items()
    ]


def _metrics(row: RunRow) -> list[str]:
    texts = []
    for name, (last, _) in row.metrics.items():
        level = row.levels.get(name)
        if level is not None and level.steps > 1:
            texts.append(f"{name} {level.text()} (last {level.steps})")
        elif last is not None:
            texts.append(f"{name} {format_number(last)}")
    return texts


def _efforts(row: RunRow) -> list[str]:
    texts = [duration(row.seconds)] if row.seconds else []
    texts += [count_text(row.attempts, "attempt")] if row.attempts else []
    texts += [f"{row.gpu_seconds / 3600:.1f} GPU hours"] if row.gpu_seconds else []
    texts += [size_text(row.disk_bytes)] if row.disk_bytes is not None else []
    if row.checkpoints:
        plural = "" if len(row.checkpoints) == 1 else "s"
        texts.append(f"checkpoint{plural} {steps_text(row.checkpoints)}")
    return texts


def _code(row: RunRow) -> list[str]:
    texts = [f"{row.framework} {row.generation}".strip()]
    if row.commit:
        texts.append(f"commit {row.commit[:_COMMIT_LETTERS]}{' with changes' if row.is_dirty else ''}")
    texts += [f"{name} {version}" for name, version in row.versions.items()]
    return [*texts, gpus_text(row.gpus), f"on {row.host}" if row.host else ""]


def _when(row: RunRow) -> list[str]:
    texts = [f"started {date_text(row.started_at or row.created_at)}"]
    texts += [f"ended {date_text(row.ended_at)}"] if row.ended_at is not None else []
    texts += [f"archived {date_text(row.archived_at)}"] if row.archived_at is not None else []
    return [*texts, f"id {row.id}"]


def fork_lines(plan: ForkPlan) -> list[str]:
    """The effects of a fork, a line for every one, then the diff of its config."""
    lines = [f"{plan.name}, a fork of {plan.parent}, in {plan.folder}"]
    if plan.step is None:
        lines.append("  starts at step 0")
    else:
        lines.append(f"  starts from checkpoint {plan.step}, a copy of {size_text(plan.copied_bytes)}")
        lines += [f"    {name}" for name in plan.copied]
    lines += [f"  {note}" for note in plan.notes]
    return [*lines, *(plan.diff.splitlines() or ["  config unchanged"])]
