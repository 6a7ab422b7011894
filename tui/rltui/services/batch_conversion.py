"""The token-batch converter on an experiment: its knobs, and what its run has measured."""

from __future__ import annotations

from rltui.core.batch import Way, convert, other_way
from rltui.core.config_report import Conversion, KnobTable
from rltui.core.metrics import MetricSeries
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFiles, Framework


def conversion(
    framework: Framework,
    files: ConfigFiles,
    table: KnobTable,
    series: MetricSeries,
    *,
    to: Way | None = None,
    mean_tokens: float | None = None,
) -> Conversion:
    """The batch of `files`, with this knob table, counted the other way; with `to`, only if it is that way.

    Without `mean_tokens`, the tokens of a mean accepted rollout, those of the recent steps in `series` count;
    where they say nothing, the result has no edits.

    Raises:
        ConfigError: if the batch cannot be counted otherwise, or a knob of it has a wrong value.
    """
    names = framework.batch_knobs(files)
    rows = {knob.key: knob for knob in table.knobs}
    way = other_way(names, rows)
    if names is None or way is None:
        raise ConfigError(
            f"{framework.title} counts a batch in one way only, at least in these files",
            hint="there is nothing to convert",
        )
    if to is not None and to != way:
        raise ConfigError(
            f"the batch is counted in {to} already",
            hint=f"rltui convert {way} does the opposite",
        )
    measured = series.mean(names.token_metric)
    mean = mean_tokens if mean_tokens is not None else measured.value if measured is not None else None
    if mean is None:
        return Conversion(to=way)
    origin = str(measured) if mean_tokens is None else None
    try:
        return convert(names, rows, mean_tokens=mean, measured=origin)
    except ValueError as error:
        raise ConfigError(str(error), hint="nothing was converted") from error
