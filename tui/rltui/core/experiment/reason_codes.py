"""Every code that rltui gives for an error, a refusal or a state: what it means, and what to do about it.

A code is for programs and stays; the text with it is for people and may change. `rltui help reasons` prints
this table. Imports little: `rltui status` needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rltui.core import hints
from rltui.core.hints import Hint


class ReasonCode(NamedTuple):
    text: str
    """A sentence without capital and full stop."""
    todo: str = ""
    """What helps; empty: nothing is to be done, or the message itself says it."""
    hint: Hint | None = None
    """The command that helps; of its values only `name`, `component` and `components` are given."""
    from_edit: bool = False
    """A value of the config may cause it."""


_ERRORS: Mapping[str, ReasonCode] = {
    "error": ReasonCode("the operation failed", "read title and details"),
    "usage": ReasonCode("unknown option, name or path; nothing was done", "follow the hint"),
    "needs_confirmation": ReasonCode(
        "the command loses work, deletes, or has a warning", "read the plan; --yes executes it"
    ),
    "declined": ReasonCode("a person answered no"),
    "stale_plan": ReasonCode("what a plan was made from has changed", "plan again"),
    "costs_more": ReasonCode("the plan has come to cost more than was confirmed", "review the new plan"),
    "not_found": ReasonCode("a file, folder or layout does not exist", "check the path"),
    "invalid_config": ReasonCode(
        "the config or layout is malformed or breaks a rule; nothing was written",
        "set the key that the text names",
        from_edit=True,
    ),
    "unknown_knob": ReasonCode("no knob has that name", "list them", hints.KNOBS_ALL),
    "conflict": ReasonCode("something else has what is needed", "follow the hint"),
    "cursor_lost": ReasonCode("the place that --since names is not there", "ask without --since once"),
    "file_changed": ReasonCode("a config file has changed since it was read", "read it again, then repeat"),
    "port_taken": ReasonCode(
        "another process uses the port", "choose another port in the config, then", hints.RESTART_KILLED, True
    ),
    "server_unusable": ReasonCode(
        "a server of another party is missing, down, or not the right one", "read the text", from_edit=True
    ),
    "gpu_memory": ReasonCode("too little GPU memory may be free", "list its holders", hints.GPUS, True),
    "name_taken": ReasonCode("another run has the name or the folder", "choose another with -n and -o"),
    "not_allowed": ReasonCode("an agent may not do that", "do what the hint allows", hints.AGENTS),
    "paused": ReasonCode("a person has paused all agents", "only look, until they are resumed", hints.AGENTS),
    "needs_person": ReasonCode("an agent may only propose that", "wait until a person has accepted it"),
    "over_budget": ReasonCode("an agent has used up its GPU hours or disk", "end trials, or ask a person"),
    "busy": ReasonCode("another request is in progress", "wait, then repeat", hints.STATUS),
    "shut_down": ReasonCode("the run is being, or was, shut down", "start it if wanted", hints.START_RUN),
    "read_only": ReasonCode("a read-only client asked for a change", "repeat without --readonly"),
    "component_failed": ReasonCode("a component failed or never became ready", "ask why", hints.WHY),
    "timeout": ReasonCode("the time of --timeout has passed; nothing was ended", "wait again", hints.STATUS),
    "unreachable": ReasonCode("the other machine cannot be reached", "check the connection; it is retried"),
    "supervisor_gone": ReasonCode(
        "the supervisor of the run had ended; the components went on", "the next command starts it again"
    ),
    "internal": ReasonCode("rltui has a bug, or its disk is full", "check the disk; report the message"),
}
"""Codes of errors, which are also those of refused plans and edits."""

_RUNS: Mapping[str, ReasonCode] = {
    "jobs_run": ReasonCode("its jobs are running"),
    "prepares": ReasonCode("a component makes what the others need"),
    "on_the_way": ReasonCode("a component is starting or waiting", "wait", hints.STATUS),
    "backoff": ReasonCode("a component failed and is started again by itself", "wait", hints.STATUS),
    "no_progress": ReasonCode(
        "a component is alive, but shows no sign of work",
        "read its stacks and log before you restart it",
        hints.EVENTS,
    ),
    "no_answer": ReasonCode("the supervisor does not respond", "look again, then", hints.DOCTOR),
    "down": ReasonCode("it was shut down by the one in the text", "start it if wanted", hints.START_RUN),
    "steps_done": ReasonCode("all its steps are done"),
    "still_up": ReasonCode("the run has ended, and services are still up", "end them", hints.DOWN),
    "handed_on": ReasonCode("a job ended well and left its work to another program", "read the text"),
    "end_unseen": ReasonCode(
        "its end was not recorded: a reboot, or its shim was killed, too", "start again", hints.START_RUN
    ),
    "never_started": ReasonCode("it has never been started", "start it", hints.START_RUN),
    "stop_requested": ReasonCode("it was stopped on request", "start it if wanted", hints.START_RUN),
    "queue": ReasonCode("it waits in the queue; the text says what for", "look there", hints.QUEUE),
    "observed": ReasonCode("another program runs it, and its logs grow"),
    "quiet": ReasonCode("another program ran it, and its logs do not grow", "look into that program"),
    "folder_gone": ReasonCode("the folder of the run is gone", "where it was moved", hints.ADD),
    "folder_damaged": ReasonCode("a file in the folder of the run is damaged", "the text names the file"),
}
"""Codes of the states of runs. A failed or restarting one has the code of its first failed component."""

_LOG = "read the end of its log"
_COMPONENTS: Mapping[str, ReasonCode] = {
    "waits_for_component": ReasonCode("its start waits for another component", "wait", hints.STATUS),
    "waits_for_output": ReasonCode("another experiment is making its output", "wait", hints.STATUS),
    "leftovers": ReasonCode(
        "processes of an earlier attempt are still alive", "end them", hints.FREE_LEFTOVERS
    ),
    "finished": ReasonCode("it ended well"),
    "not_needed": ReasonCode("another experiment has made its output meanwhile"),
    "dependency_failed": ReasonCode("a component that it needs has failed", "look at that one", hints.STATUS),
    "start_failed": ReasonCode("it could not be run at all", "read the text", from_edit=True),
    "not_ready": ReasonCode("it was not ready in the time that its layout allows", _LOG, hints.LOGS, True),
    "cannot_be_ended": ReasonCode("a process of it survives even SIGKILL", "it hangs in a driver: reboot"),
    "service_exited": ReasonCode("a service ended, with exit code 0", _LOG, hints.LOGS, True),
    "exited": ReasonCode(
        "it ended with an error code that its output does not explain", _LOG, hints.LOGS, True
    ),
    "killed_by_signal": ReasonCode("a crash such as SIGSEGV ended it", _LOG, hints.LOGS),
    "killed_outside": ReasonCode(
        "it was killed from outside; neither rltui nor an edit caused that",
        "restart it",
        hints.RESTART_KILLED,
    ),
    "oom_cuda": ReasonCode(
        "GPU memory did not suffice", "set a knob that the text names", hints.GPUS, from_edit=True
    ),
    "oom_host": ReasonCode(
        "the memory of the machine did not suffice", "use a smaller batch or model", from_edit=True
    ),
    "config_rejected": ReasonCode(
        "the program rejects the config", "set the key that the text names", hints.LOGS, True
    ),
    "folder_used": ReasonCode(
        "the folder has results of an earlier run", "resume, or name another folder", from_edit=True
    ),
    "model_missing": ReasonCode(
        "the model is neither there nor downloadable", "check its name and the login", from_edit=True
    ),
    "no_login": ReasonCode("a service wants a login", "log in, or turn the service off", from_edit=True),
    "environment": ReasonCode("a package or its environment is missing", "install it", hints.LOGS),
    "disk_full": ReasonCode("the disk is full", "free some space", hints.PRUNE),
    "gpu_missing": ReasonCode("there are no or too few GPUs for it", "check them", hints.GPUS, True),
    "gpu_error": ReasonCode("a GPU or its driver failed", "check dmesg, then", hints.RESTART_KILLED),
    "gpu_index": ReasonCode(
        "an index was out of range on the GPU", "compare tokenizer and model", None, True
    ),
    "gpu_communication": ReasonCode(
        "communication between GPUs failed", "look at the other ranks", None, True
    ),
    "worker_killed": ReasonCode("a worker process of it was killed", "check the memory of the machine"),
    "engine_died": ReasonCode("the inference engine did not start, or died", _LOG, hints.LOGS, True),
    "program_timeout": ReasonCode("the program gave up waiting", "raise the limit in the text", None, True),
    "program_error": ReasonCode("the program ended with an error of its own", _LOG, hints.LOGS, True),
}
"""Codes of the states of components, and of ends that their output explains."""

_WAITS: Mapping[str, ReasonCode] = {
    "reached": ReasonCode("the condition of --until is met; the text has its figures"),
    "run_ended": ReasonCode(
        "the run ended before the condition was met", "the text says how and at which step"
    ),
    "run_failed": ReasonCode("the run failed before the condition was met", "ask why", hints.WHY),
}
"""Codes of the end of a `rltui wait`, beside `timeout` and `supervisor_gone`."""
_HEALTH: Mapping[str, ReasonCode] = {
    "non-finite": ReasonCode("the loss or the gradient is NaN or infinite"),
    "reward-collapse": ReasonCode("little is left of the best reward"),
    "entropy-collapse": ReasonCode("the policy explores less without learning more"),
    "kl": ReasonCode("the policies of trainer and sampler differ, by their KL"),
    "importance-ratio": ReasonCode("the policies of trainer and sampler differ, by the importance ratio"),
    "no-signal": ReasonCode("all rollouts of a group get the same reward"),
    "distillation": ReasonCode("the run goes away from its teacher, or never comes nearer"),
    "grad-norm": ReasonCode("the gradient norm has spikes"),
    "eval-falls": ReasonCode("evaluations get worse while the reward rises"),
    "flat": ReasonCode("the reward has not risen in many steps"),
    "weights-lag": ReasonCode("the engine samples with old weights"),
    "resume-mismatch": ReasonCode("the policies differ since the run resumed"),
    "discarded": ReasonCode("most rollouts are thrown away"),
    "truncation": ReasonCode("many answers are cut off at their longest length"),
    "staleness": ReasonCode("rollouts are sampled with old weights"),
    "evals-cancelled": ReasonCode("each evaluation is cancelled by the next checkpoint"),
    "throughput": ReasonCode("the run has been much slower than before"),
    "empty-batches": ReasonCode("batches in a row had nothing to train on"),
    "no-step": ReasonCode("there has been no step for much longer than usual"),
}
"""Ids of health rules; the text of the finding has numbers and advice."""

GROUPS: Mapping[str, Mapping[str, ReasonCode]] = {
    "errors and refusals": _ERRORS,
    "states of runs": _RUNS,
    "ends of a wait": _WAITS,
    "components": _COMPONENTS,
    "health of a run": _HEALTH,
}
REASON_CODES: Mapping[str, ReasonCode] = {
    code: row for group in GROUPS.values() for code, row in group.items()
}
