"""Every code that rltui gives for an error, a refusal or a state: what it means, and what to do about it.

A code is for programs and stays; the text beside it is for people and may change. `rltui help reasons` prints
this table. A code of a health finding is the id of its rule (`core/metrics/health`). Imports nothing:
`rltui status` needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ReasonCode(NamedTuple):
    text: str
    """A sentence without capital and full stop."""
    todo: str = ""
    """What helps; empty: nothing is to be done, or the message itself says it."""


_ERRORS: Mapping[str, ReasonCode] = {
    "error": ReasonCode("the operation failed", "read the title and details"),
    "usage": ReasonCode("unknown option, name or path", "follow the hint; nothing was done"),
    "needs_confirmation": ReasonCode(
        "the command loses work, deletes, or has a warning", "read the plan; add --yes to do it"
    ),
    "declined": ReasonCode("a person answered no"),
    "stale_plan": ReasonCode("what a plan was made from has changed", "plan again"),
    "costs_more": ReasonCode("the plan has come to cost more than was confirmed", "review the new plan"),
    "not_found": ReasonCode("a file, folder or layout does not exist", "check the path"),
    "invalid_config": ReasonCode(
        "the config or layout is malformed or breaks a rule", "follow the hint; nothing was written"
    ),
    "unknown_knob": ReasonCode("no knob has that name", "list them: rltui knobs --all"),
    "conflict": ReasonCode("something else holds what is needed", "follow the hint"),
    "file_changed": ReasonCode("a config file has changed since it was read", "read it again, then repeat"),
    "port_taken": ReasonCode("another process uses the port", "end that process, or change the port"),
    "server_unusable": ReasonCode(
        "a server of another party is missing, down, or not the right one", "read the message"
    ),
    "gpu_memory": ReasonCode("GPU memory may not suffice", "list the memory in use: rltui gpus"),
    "name_taken": ReasonCode("another run has the name or the folder", "choose another with -n and -o"),
    "busy": ReasonCode("another request is in progress", "wait, then repeat"),
    "shut_down": ReasonCode("the run is being, or was, shut down", "start it again if that is wanted"),
    "read_only": ReasonCode("a read-only client asked for a change", "repeat without --readonly"),
    "component_failed": ReasonCode("a component failed or never became ready", "rltui why RUN/COMPONENT"),
    "timeout": ReasonCode("the time given with --timeout is over", "look with rltui status, then wait again"),
    "unreachable": ReasonCode("the other machine cannot be reached", "check the connection; it is retried"),
    "supervisor_gone": ReasonCode("the supervisor of the run ended meanwhile", "rltui status, then repeat"),
    "internal": ReasonCode("rltui has a bug, or its disk is full", "check the disk; report the message"),
}
"""Codes of errors, which are also those of refused plans and edits."""

_RUNS: Mapping[str, ReasonCode] = {
    "jobs_run": ReasonCode("its jobs are running"),
    "prepares": ReasonCode("a component makes what the others need"),
    "on_the_way": ReasonCode("a component is starting or waiting", "wait"),
    "backoff": ReasonCode("a component failed and is started again by itself", "wait, or rltui why RUN"),
    "no_progress": ReasonCode("a component is alive, but gives no sign of work", "rltui why RUN"),
    "no_answer": ReasonCode("the supervisor does not respond", "rltui status, again; then rltui doctor"),
    "stop_requested": ReasonCode("it was stopped on request"),
    "down": ReasonCode("somebody shut it down; the text says who", "start it again if that is wanted"),
    "steps_done": ReasonCode("all its steps are done"),
    "still_up": ReasonCode("the run has ended, and services are still up", "rltui down RUN ends them"),
    "handed_on": ReasonCode("a job ended well and left its work to another program", "read the text"),
    "end_unseen": ReasonCode("its end was not recorded: a reboot, or its shim was killed", "start it again"),
    "never_started": ReasonCode("it has never been started", "rltui start RUN"),
    "queue": ReasonCode("it waits in the queue; the text says what for", "rltui queue"),
    "observed": ReasonCode("another program runs it, and its logs grow"),
    "quiet": ReasonCode("another program ran it, and its logs do not grow", "look into that program"),
    "folder_gone": ReasonCode("the folder of the run is gone", "rltui runs add FOLDER, where it was moved"),
    "folder_damaged": ReasonCode("a file in the folder of the run is damaged", "the text names the file"),
}
"""Codes of the states of a run. A failed one has the code of its first failed component."""

_WAITS: Mapping[str, ReasonCode] = {
    "reached": ReasonCode("the condition of --until is met; the text has its figures"),
    "run_ended": ReasonCode(
        "the run ended before the condition was met", "the text says how and at which step"
    ),
    "run_failed": ReasonCode("the run failed before the condition was met", "rltui why RUN"),
}
"""Codes of the end of a `rltui wait`, beside `timeout` and `supervisor_gone`."""

GROUPS: Mapping[str, Mapping[str, ReasonCode]] = {
    "errors and refusals": _ERRORS,
    "states of runs": _RUNS,
    "ends of a wait": _WAITS,
}
"""Heading of the help page → its codes."""
REASON_CODES: Mapping[str, ReasonCode] = {
    code: row for group in GROUPS.values() for code, row in group.items()
}
