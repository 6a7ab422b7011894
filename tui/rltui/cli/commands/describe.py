"""`describe`: command, environment, folder, config and attempts of a run or its components."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rltui.base.text import unknown_name
from rltui.cli.arguments import COMPONENT, JSON, RUN
from rltui.cli.choosing import Target, show_runs
from rltui.cli.colour import style, style_line
from rltui.cli.command import Arguments, command
from rltui.cli.output import print_json
from rltui.client.statuses import row_of
from rltui.views.component import server_text
from rltui.views.experiment import status_cell

if TYPE_CHECKING:
    from rltui.core.experiment.description import ComponentDescription, RunDescription
    from rltui.views.description import Fact


@command(
    "describe",
    RUN,
    COMPONENT,
    JSON,
    examples=("describe demo", "describe demo/trainer", "describe demo/trainer --json"),
)
def describe(arguments: Arguments) -> int:
    """Print all about a run; with components all about these, and the values that they run with."""
    return show_runs(arguments, partial(_show, arguments))


def _show(arguments: Arguments, target: Target) -> int:
    from rltui.client.reader import ExperimentReader

    run = ExperimentReader(target.record).describe()
    components = _named(run, target.components)
    status = row_of(target.record)
    if arguments.json:
        document = run.replace(components=tuple(components)).to_plain()
        live = {"state": status["state"], "reason": status["reason"], "servers": status.get("servers", [])}
        print_json({"name": run.name, **live, **document})
        return 0
    state = status_cell(status)
    heading = f"{style(run.name, 'head')} · {style(state.text, state.role)}"
    servers = () if target.components else status.get("servers", ())
    lines = _lines(run, components, heading=None if target.components else heading)
    print("\n".join([*lines, *map(style_line, map(server_text, servers))]))
    return 0


def _named(run: RunDescription, names: Sequence[str]) -> list[ComponentDescription]:
    if not names:
        return [*run.components]
    by_id = {component.id: component for component in run.components}
    for name in names:
        if name not in by_id:
            raise unknown_name("component", name, by_id)
    return [by_id[name] for name in names]


def _lines(
    run: RunDescription, components: Sequence[ComponentDescription], *, heading: str | None
) -> Iterator[str]:
    """Lines of the whole run below its heading, or of these components with their values."""
    from rltui.views.description import component_facts, run_facts, value_facts

    now = time.time()
    if heading is not None:
        yield heading
        yield from _fact_lines(run_facts(run))
    for number, component in enumerate(components):
        if heading is not None or number:
            yield ""
        yield style(f"{run.name}/{component.id}", "head")
        yield from _fact_lines(component_facts(run, component, now))
        if heading is None:
            yield from (f"  {fact.text}" for fact in value_facts(component))


def _fact_lines(facts: Sequence[Fact]) -> Iterator[str]:
    """Lines with aligned texts, which are never cut: they are there to be copied."""
    width = max((len(fact.label) for fact in facts), default=0)
    previous = ""
    for fact in facts:
        label = "" if fact.label == previous else fact.label
        yield f"  {style(f'{label:<{width}}', 'faint')}  {fact.text}"
        previous = fact.label
