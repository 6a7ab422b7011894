"""The knob table: each knob's value in the files beside the one its readers were started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltui.core.config_data import value_at
from rltui.core.config_report import KnobInfo, PendingKnob
from rltui.core.knobs import Knob
from rltui.core.toml.values import TomlValue
from rltui.frameworks.base import ConfigFiles, Framework, as_passed, values_of

Running = Mapping[str, ConfigFiles]
"""Living component → the files it was started with."""


def knob_rows(
    knobs: Sequence[Knob], files: ConfigFiles, running: Running, framework: Framework, *, known: bool = True
) -> tuple[KnobInfo, ...]:
    """A row per knob, in the order given. `known`: they are of the framework's knob table."""
    defaults = framework.defaults(files)
    values = values_of(knobs, files, framework)
    in_copies = _living(knobs, running, framework)
    got = _living(knobs, {name: as_passed(each) for name, each in running.items()}, framework)
    rows = []
    for knob in knobs:
        held = [got[reader][knob.name] for reader in knob.readers if reader in got]
        started_with = [in_copies[reader][knob.name] for reader in knob.readers if reader in in_copies]
        rows.append(
            KnobInfo(
                key=knob.name,
                file=files[knob.file].path,
                value=values[knob.name],
                default=defaults.get(knob.name, knob.default),
                running=_most_telling(held, values[knob.name]),
                is_set=value_at(files[knob.file].data, knob.key) is not None,
                overridden=any(each != values[knob.name] for each in held)
                and all(each == values[knob.name] for each in started_with),
                is_running=bool(held),
                kind=knob.kind,
                control=knob.control,
                main=knob.main,
                known=known,
                nullable=knob.nullable,
                choices=knob.choices,
                bounds=_bounds(knob),
                unit=knob.unit,
                readers=knob.readers,
                help=knob.help,
            )
        )
    return tuple(rows)


def pending_knobs(
    knobs: Sequence[Knob], files: ConfigFiles, running: Running, framework: Framework
) -> tuple[PendingKnob, ...]:
    """Knobs that `files` set to something else than in the copy that a living reader was started with."""
    values = values_of(knobs, files, framework)
    living = _living(knobs, running, framework)
    got = _living(knobs, {name: as_passed(each) for name, each in running.items()}, framework)
    pending = []
    for knob in knobs:
        value = values[knob.name]
        readers = [name for name in knob.readers if name in living and living[name][knob.name] != value]
        if readers:
            started_with = got[readers[0]][knob.name]
            pending.append(
                PendingKnob(key=knob.name, running=started_with, value=value, readers=tuple(readers))
            )
    return tuple(pending)


def _living(knobs: Sequence[Knob], running: Running, framework: Framework) -> dict[str, dict[str, TomlValue]]:
    return {name: values_of(knobs, each, framework) for name, each in running.items()}


def _bounds(knob: Knob) -> tuple[float | None, float | None]:
    low = knob.above if knob.minimum is None else knob.minimum
    return low, knob.below if knob.maximum is None else knob.maximum


def _most_telling(held: Sequence[TomlValue], value: TomlValue) -> TomlValue:
    """What the first living reader holds, but rather one that differs from the file."""
    return next((other for other in held if other != value), held[0] if held else None)
