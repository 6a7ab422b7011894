"""`checkpoints upload`: weights of the run are uploaded to the hub."""

from __future__ import annotations

import sys
from pathlib import Path

from rltui.cli.arguments import JSON, PLAN, RUN, WAIT, YES
from rltui.cli.choosing import choose
from rltui.cli.command import Arguments, argument, command, flag, repeatable
from rltui.cli.commands.checkpoints import WEIGHTS, weights_choice
from rltui.cli.consent import require_consent
from rltui.cli.output import print_outcome
from rltui.cli.progress import working
from rltui.cli.waiting import failure, is_component_alive, request_plan, state_changes
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.errors import ConflictError, RltuiError
from rltui.views.checkpoint import publication_text


@command(
    "checkpoints upload",
    RUN,
    WEIGHTS,
    argument("repo", "USER/NAME", "repository on the Hub; created if missing"),
    flag("--private", "create a private repository"),
    argument("--revision", "REVISION", "branch (default: main)"),
    argument("--message", "TEXT", "commit message (default: run and step)"),
    repeatable("--include", "GLOB", "upload only files that match; repeatable"),
    repeatable("--exclude", "GLOB", "skip files that match; repeatable"),
    PLAN,
    YES,
    WAIT,
    JSON,
    examples=("checkpoints upload demo best USER/NAME",),
)
def upload(arguments: Arguments) -> int:
    from rltui.client.manual_components import PUBLISH, publication, publish_request, tokens
    from rltui.client.reader import ExperimentReader
    from rltui.services.runs.observed import refuse_observed

    record = choose(arguments, acts=True).record
    refuse_observed(record)
    choice = weights_choice(arguments.weights)
    if not isinstance(choice, Path):
        choice = ExperimentReader(record).checkpoint_step(choice)
    with working("reading the weights; exporting them if the checkpoint has none"):
        published = publication(
            record,
            choice,
            arguments.repo,
            private=arguments.private,
            revision=arguments.revision,
            message=arguments.message,
            include=arguments.include,
            exclude=arguments.exclude,
        )
    kind = "private" if published.private else "public"
    text = f"{publication_text(published)}to         {published.repo} ({kind}, created if missing)\n"
    if arguments.plan:
        print_outcome(published, text, as_json=arguments.json)
        return 0
    sys.stderr.write(text)
    require_consent("publish", arguments, "upload it?")
    with launch.connect_or_start(record) as wire:
        if is_component_alive(wire.call("status"), PUBLISH):
            hint = f"follow it: {hints.LOGS_FOLLOW(component=PUBLISH, name=record.name)}"
            raise ConflictError(f"{record.name} already has an upload in progress", hint=hint)
        wire.call("tokens", tokens())
        request_plan(wire, "execute", publish_request(published))
        if not arguments.wait:
            return 0
        url = _follow(wire, record.name)
    print_outcome(published.replace(url=url), f"{url}\n", as_json=arguments.json)
    return 0


def _follow(wire: Wire, name: str) -> str:
    """Follow the upload to its end, and return where it is.

    Raises:
        ComponentFailedError: if it failed.
    """
    from rltui.client.manual_components import PUBLISH

    with state_changes({PUBLISH}) as changes:
        for status in wire.events("status"):
            changes.show(status)
            if status.get("transaction"):  # it may still show how the one before ended
                continue
            upload = next(
                (component for component in status["components"] if component["id"] == PUBLISH), None
            )
            if upload is None or upload["state"] == "stopped":
                raise RltuiError("the upload was stopped", hint="run it again to continue")
            if upload["state"] == "failed":
                raise failure([upload], name)
            if upload["state"] == "exited":
                return upload["reason"] or "uploaded"
    raise RltuiError("the supervisor ended meanwhile", hint=f"check `{hints.STATUS(name=name)}`")
