"""`attach`; `shell`, `publish`: what starts only when somebody asks for it."""

from __future__ import annotations

import argparse
import os
import sys

from rltui.cli.choosing import choose_experiment
from rltui.cli.progress import working
from rltui.cli.terminal import confirm
from rltui.cli.waiting import StateChanges, failure, plan_of, wait_until_settled
from rltui.client import launch
from rltui.client.by_hand import PUBLISH, SHELL, publication, publish_request, shell_request, tokens
from rltui.client.wire import Wire
from rltui.core import hints
from rltui.core.api import ALIVE_STATES
from rltui.errors import ConflictError, ExitCode, RltuiError, UsageError
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.observed import refuse_observed
from rltui.wording import publication_text


def attach(arguments: argparse.Namespace) -> int:
    """Become tmux, showing the component's pane."""
    return _show(choose_experiment(arguments.name), arguments.component, readonly=arguments.readonly)


def shell(arguments: argparse.Namespace) -> int:
    """Start one, unless it lives, and become tmux that shows it."""
    record = choose_experiment(arguments.name)
    refuse_observed(record)
    request = shell_request(record, like=arguments.like, command=arguments.command)
    with launch.reach(record) as wire:
        if not _lives(wire, SHELL):
            wire.call("tokens", tokens())
            plan_of(wire, "execute", request)
            wait_until_settled(wire, {SHELL}, timeout_s=None)
        elif arguments.like or arguments.command:
            raise ConflictError(
                f"{record.name} has a shell already",
                hint=f"`{hints.SHELL(name=record.name)}` shows it; for another, leave that one with `exit`, "
                f"or `{hints.STOP(components='shell', name=record.name)}`",
            )
    if arguments.detach or not sys.stdin.isatty():
        print(f"to type into it: {hints.ATTACH(component='shell', name=record.name)}", file=sys.stderr)
        return 0
    return _show(record, SHELL)


def publish(arguments: argparse.Namespace) -> int:
    """Say what would be uploaded, ask, upload it and say where it is."""
    record = choose_experiment(arguments.name, acts=True)
    refuse_observed(record)
    with working("looking at the weights, or making them where the checkpoint has none"):
        published = publication(
            record,
            arguments.what,
            arguments.repo,
            private=arguments.private,
            revision=arguments.revision,
            message=arguments.message,
            include=arguments.include,
            exclude=arguments.exclude,
        )
    kind = "private" if published.private else "public"
    text = f"{publication_text(published)}to         {published.repo} ({kind}, if it does not exist yet)\n"
    if arguments.plan:
        sys.stdout.write(f"{published.model_dump_json()}\n" if arguments.json else text)
        return 0
    sys.stderr.write(text)
    if not arguments.yes and not confirm("upload it?"):
        print("nothing was uploaded", file=sys.stderr)
        return 1
    with launch.reach(record) as wire:
        if _lives(wire, PUBLISH):
            hint = f"follow it: {hints.LOGS_FOLLOW(component=PUBLISH, name=record.name)}"
            raise ConflictError(f"{record.name} has an upload under way", hint=hint)
        wire.call("tokens", tokens())
        plan_of(wire, "execute", publish_request(published))
        if not arguments.wait:
            return 0
        url = _outcome(wire)
    print(published.model_copy(update={"url": url}).model_dump_json() if arguments.json else url)
    return 0


def _outcome(wire: Wire) -> str:
    """Follow the upload to its end, and return where it is.

    Raises:
        ComponentFailedError: if it failed.
    """
    with StateChanges({PUBLISH}) as changes:
        for kind, status in wire.events():
            if kind != "status":
                continue
            changes.show(status)
            if status.get("transaction"):  # it may still show how the one before ended
                continue
            found = next((each for each in status["components"] if each["id"] == PUBLISH), None)
            if found is None or found["state"] == "stopped":
                raise RltuiError("the upload was stopped", hint="the same command goes on with it")
            if found["state"] == "failed":
                raise failure([found])
            if found["state"] == "exited":
                return found["reason"] or "uploaded"
    raise RltuiError("the supervisor ended while we waited", hint=f"look with `{hints.STATUS}`")


def _show(record: ExperimentRecord, component: str, *, readonly: bool = False) -> int:
    argv = launch.attach_command(record, component, readonly=readonly)
    if not sys.stdin.isatty():
        raise UsageError(
            "attach needs a terminal",
            hint=f"read the log instead: {hints.LOGS(component=component, name=record.name)}",
        )
    os.execvp(argv[0], argv)  # noqa: S606  (argument list, no shell)
    return int(ExitCode.FAILED)


def _lives(wire: Wire, component: str) -> bool:
    states = {each["id"]: each["state"] for each in wire.call("status")["components"]}
    return states.get(component) in {*ALIVE_STATES, "waiting"}
