"""`publish`: weights of the run are uploaded to the hub."""

from __future__ import annotations

import sys

from rltui.cli.arguments import JSON, NAME, WAIT, YES
from rltui.cli.choosing import choose_experiment
from rltui.cli.command import Arguments, argument, command, flag, repeatable
from rltui.cli.consent import require_consent
from rltui.cli.output import print_json
from rltui.cli.progress import working
from rltui.cli.waiting import failure, is_component_alive, request_plan, state_changes
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.errors import ConflictError, RltuiError
from rltui.views.checkpoint import publication_text


@command(
    "publish",
    argument("what", "STEP", "whose weights; or a folder of weights", completes="checkpoints"),
    argument("repo", "USER/NAME", "the repository; made where there is none"),
    flag("--private", "one that is made is only for its owner"),
    argument("--revision", "R", "branch (default: main)"),
    argument("--message", "TEXT", "of the commit (default: experiment and step)"),
    repeatable("--include", "GLOB", "only files like this"),
    repeatable("--exclude", "GLOB", "no files like this"),
    flag("--plan", "only say what would be uploaded"),
    YES,
    WAIT,
    NAME,
    JSON,
)
def publish(arguments: Arguments) -> int:
    from rltui.client.manual_components import PUBLISH, publication, publish_request, tokens
    from rltui.services.runs.observed import refuse_observed

    record = choose_experiment(arguments.name, acts=True)
    refuse_observed(record)
    with working("looking at the weights, or making them where the checkpoint has none"):
        upload = publication(
            record,
            arguments.what,
            arguments.repo,
            private=arguments.private,
            revision=arguments.revision,
            message=arguments.message,
            include=arguments.include,
            exclude=arguments.exclude,
        )
    kind = "private" if upload.private else "public"
    text = f"{publication_text(upload)}to         {upload.repo} ({kind}, if it does not exist yet)\n"
    if arguments.plan:
        if arguments.json:
            print_json(upload)
        else:
            sys.stdout.write(text)
        return 0
    sys.stderr.write(text)
    require_consent("publish", arguments, "upload it?")
    with launch.connect_or_start(record) as wire:
        if is_component_alive(wire.call("status"), PUBLISH):
            hint = f"follow it: {hints.LOGS_FOLLOW(component=PUBLISH, name=record.name)}"
            raise ConflictError(f"{record.name} has an upload under way", hint=hint)
        wire.call("tokens", tokens())
        request_plan(wire, "execute", publish_request(upload))
        if not arguments.wait:
            return 0
        url = _follow(wire, record.name)
    if arguments.json:
        print_json(upload.model_copy(update={"url": url}))
    else:
        print(url)
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
                raise RltuiError("the upload was stopped", hint="the same command goes on with it")
            if upload["state"] == "failed":
                raise failure([upload], name)
            if upload["state"] == "exited":
                return upload["reason"] or "uploaded"
    raise RltuiError("the supervisor ended while we waited", hint=f"look with `{hints.STATUS(name=name)}`")
