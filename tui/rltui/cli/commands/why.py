"""`why`: the cause of a state, its evidence, and one command that helps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from rltui.cli.arguments import COMPONENT, JSON, RUN
from rltui.cli.choosing import Target, show_runs
from rltui.cli.colour import style
from rltui.cli.command import Arguments, command
from rltui.cli.output import print_outcome
from rltui.errors import UsageError

if TYPE_CHECKING:
    from rltui.core.experiment.why import Why


@command("why", RUN, COMPONENT, JSON, examples=("why", "why demo/trainer", "why demo --json"))
def why(arguments: Arguments) -> int:
    """Print why a run, its components, or an entry of the queue are in their state."""
    try:
        return show_runs(arguments, partial(_show, arguments))
    except UsageError as error:
        if arguments.run is None:
            raise
        from rltui.client.why import explain_entry

        try:
            _print(arguments, explain_entry(arguments.run))
        except UsageError:
            raise error from None
        return 0


def _show(arguments: Arguments, target: Target) -> None:
    from rltui.client.why import explain

    for component in target.components or (None,):
        _print(arguments, explain(target.record, component))


def _print(arguments: Arguments, answer: Why) -> None:
    print_outcome(answer, "".join(f"{line}\n" for line in why_lines(answer)), as_json=arguments.json)


def why_lines(answer: Why) -> Iterator[str]:
    subject = answer.experiment if answer.component is None else f"{answer.experiment}/{answer.component}"
    yield f"{style(subject, 'head')} · {answer.state} · {answer.reason.code}"
    yield f"  {answer.reason.text}"
    for evidence in answer.reason.evidence:
        place = evidence.file if evidence.line is None else f"{evidence.file}:{evidence.line}"
        yield f"  {style(place, 'faint')}"
        yield f"    {evidence.text}"
    yield from (f"  {text}" for text in answer.looked_at)
    if answer.edit is not None:
        yield f"  fits: edit {answer.edit.number}: {answer.edit.text}"
    yield from (f"  {text}" for text in answer.against)
    if answer.todo or answer.command:
        yield f"→ {': '.join(filter(None, (answer.todo, answer.command)))}"
