"""The knob table: each knob's value in the files beside the one its readers were started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltui.core.api import KnobInfo
from rltui.core.knobs import Knob, TomlValue
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.frameworks.config_data import effective, value_at


def knob_rows(
    knobs: Sequence[Knob], files: ConfigFiles, running: Mapping[str, ConfigFiles], framework: Framework
) -> tuple[KnobInfo, ...]:
    """A row per knob, in the order given. `running`: living component → files it was started with."""
    defaults = framework.defaults(files)
    values = effective(knobs, files, defaults)
    living = {name: effective(knobs, each, framework.defaults(each)) for name, each in running.items()}
    rows = []
    for knob in knobs:
        held = [living[reader][knob.name] for reader in knob.readers if reader in living]
        rows.append(
            KnobInfo(
                key=knob.name,
                file=files[knob.file].path,
                value=values[knob.name],
                default=defaults.get(knob.name, knob.default),
                running=_most_telling(held, values[knob.name]),
                is_set=value_at(files[knob.file].data, knob.key) is not None,
                is_running=bool(held),
                kind=knob.kind,
                nullable=knob.nullable,
                choices=knob.choices,
                bounds=_bounds(knob),
                unit=knob.unit,
                readers=knob.readers,
                help=knob.help,
            )
        )
    return tuple(rows)


def _bounds(knob: Knob) -> tuple[float | None, float | None]:
    low = knob.above if knob.minimum is None else knob.minimum
    return low, knob.below if knob.maximum is None else knob.maximum


def _most_telling(held: Sequence[TomlValue], value: TomlValue) -> TomlValue:
    """What the first living reader holds, but rather one that differs from the file."""
    return next((other for other in held if other != value), held[0] if held else None)
