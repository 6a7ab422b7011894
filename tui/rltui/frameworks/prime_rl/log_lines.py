"""Reads metrics from prime-rl's log lines, the only source of them that all generations share.

The lines are those of its orchestrator and its RL and SFT trainers, as commits of December 2025 to autumn
2026 print them. Only the latest also write `metrics.jsonl`; the keys here are those of that file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core import hints
from rltui.core.experiment.stalls import StartPhases
from rltui.core.logs.failure_cause import FailurePattern, Groups
from rltui.core.logs.lines import LINE_BREAK, plain_text
from rltui.frameworks.failures import COMMON
from rltui.frameworks.prime_rl.values import ROUTER_METRICS_ABOVE
from rltui.frameworks.progress import TitleFact

TOKENS_PER_ROLLOUT = "train/agg/effective/agent/num_total_tokens/mean"
"""Mean tokens of a rollout in the batch of a step: of one trace, as `batch_size` counts them."""

_AGENT = "train/agg/effective/agent"
_N = r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)"
_COUNT = r"\d{1,12}"
_TIME = r"(?:\d+(?:\.\d+)?(?:ms|[dhms]) ?){1,2}"
"""A duration for people: `850ms`, `12.3s`, `2m 5s`, `1h 3m`, `2d 4h`."""

MARKS = (" | ", "Evaluated ", "empty train batch", "Discarded ", "policy in-flight to v")
"""Marks of lines about a step; about evaluations, which had no other in 2025; about a batch without
samples; about rollouts that were thrown away; about new weights in the engine.
"""

_JSON = re.compile(r"(?:\[[A-Za-z_]+\d+\]:\s?)?(?=\{)")
"""The beginning of a JSON line; torchrun puts the rank before it."""
_HEAD = re.compile(r"\d{2}:\d{2}:\d{2} +(?:[A-Z]+|\[[A-Z]+\]) +(?:\[[^\]]*\] )?")
"""Time, level (in brackets in hosted copies), and the tag that some loggers have. A rank, or an unfinished
progress bar, may come before."""
_SOURCE = re.compile(r" \[[^\[\]\s]+\.py::\d+\]$")
"""Source location of the line; present if the process logs at DEBUG."""
_STEP = re.compile(rf"Step ({_COUNT}) \|\s+")
_FIELD = re.compile(rf"(?P<name>[A-Za-z][A-Za-z. -]*?):? (?P<value>{_N}).*")
_FIRST_TIME = re.compile(rf"(?:Time: (?P<s>{_N})s|(?P<words>{_TIME}))\s*\|")
_VALIDATION = re.compile(rf"Validation \| Step ({_COUNT}) \| Loss:? ({_N})$")
_EVALUATION = re.compile(
    rf"Evaluated (\S+) (?:\(Step ({_COUNT})\) )?\| (?:Policy v({_COUNT}) \| )?\s*{_TIME} \| Reward ({_N})"
)
_CANCELLED_EVALUATION = re.compile(
    rf"Partially evaluated (\S+) \(Step ({_COUNT})\) \|.* \| Cancelled ({_COUNT})/({_COUNT})$"
)
_EVALUATION_OF_2025 = re.compile(rf"Evaluated (\S+) in {_N}s \(Avg@({_COUNT})=({_N})")
_EMPTY_BATCH = re.compile(
    rf"Step ({_COUNT}): empty train batch .*\(consecutive empty batches: ({_COUNT})/{_COUNT}\)"
)
_DISCARDED = re.compile(
    rf"Discarded {_COUNT}/(?P<all>{_COUNT}) episodes .*?: stale=(?P<stale>{_COUNT}),"
    rf" errored=(?P<errored>{_COUNT}), no_signal=(?P<no_signal>{_COUNT})\."
)
"""Printed where more than half were; metrics lack some (facts/prime-rl.md#discarded-rollouts)."""
_APPLIED = re.compile(rf"Updating policy in-flight to v({_COUNT})$")
_ENVIRONMENT = re.compile(r"\s*╰─ (?P<name>[^\s|]{1,200})\s*\|(?P<fields>.*)")
"""Printed below a step of several environments: one of them, in a line without time and level."""
_TRAINABLE = re.compile(rf"Trainable \d+/\d+ \(({_N})%\)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")

_TRAINER = {
    "Loss": "loss/mean",
    "Entropy": "entropy/all/mean",
    "Mismatch KL": "mismatch_kl/all/mean",
    "Importance Ratio": "importance_ratio/all/mean",
    "Grad. Norm": "optim/grad_norm",
    "LR": "optim/lr",
    "Throughput": "perf/throughput",
    "MFU": "perf/mfu",
    "Peak Mem.": "perf/peak_memory",
    "Max Vio": "max_vio/mean",
    "Routing Conf.": "routing_confidence/mean",
}
_ORCHESTRATOR = {
    "Reward": f"{_AGENT}/reward/mean",
    "Seq. Length": TOKENS_PER_ROLLOUT,
    "Turns": f"{_AGENT}/num_turns/mean",
    "Branches": f"{_AGENT}/num_branches/mean",
    "Val. Reward": "val_reward/mean",
    "Max. Off-Policy Level": "off_policy/max",
    "Max Off-Policy": "off_policy/max",
}
"""The orchestrator's patterns without `Throughput`, which is that of sampling: `perf/throughput` is that of
training.
"""
_SHARES = {
    "Error": "train/agg/all/has_error/mean",
    "Cancelled": "train/agg/all/cancelled/mean",
    "Truncation": f"{_AGENT}/is_truncated/mean",
    "Timeout": f"{_AGENT}/is_timeout/mean",
}
"""Percent in the line, 0 to 1 in the metrics."""

_OF_TRAINING = (("loss/mean", "loss {:.3f}"), ("perf/throughput", "{:,.0f} tokens/s"))
_OF_ROLLOUTS = (("time/step", "{:.1f} s/step"), (f"{_AGENT}/reward/mean", "reward {:.3f}"))
FACTS = (
    *(TitleFact("orchestrator", metric, template) for metric, template in _OF_ROLLOUTS),
    *(TitleFact(name, metric, template) for name in ("trainer", "sft") for metric, template in _OF_TRAINING),
    *(TitleFact("rl", metric, template) for metric, template in (*_OF_ROLLOUTS, *_OF_TRAINING)),
)


_DONE = (re.compile(r"\bStep \d+ \||Starting training loop"), "")
_OF_EVALS = (
    (r"Starting evals in .{1,300} at step (\d+)", r"evaluates step \1"),
    (r"([^\s|]{1,80} \d+/\d+) \([\d.]+%\).{0,300}; \d+ inflight episodes", r"evaluates \1"),
    (r"Idle; ([1-9]\d*) inflight episodes", r"evaluates \1 episodes"),  # none has arrived yet
    (r"cancelling unfinished eval episodes for step (\d+)", r"cancels the evaluation of step \1"),
    (r"Updating inference weights to broadcast step (\d+)", r"loads the weights of step \1"),
    (
        r"valuated \S+ \(Step \d+\) \||advancing to checkpoint|new weight broadcasts|Idle; 0 ",
        "waiting for weights",
    ),
)
PHASES: Mapping[str, StartPhases] = {
    "trainer": (
        _DONE,
        (re.compile(r"Broadcasting (?:final weights|weights at step \d+)"), "waiting for evals"),
    ),
    "online-eval": tuple((re.compile(regex), words) for regex, words in _OF_EVALS),
}
"""What SFT and its evaluations do (`facts/prime-rl.md`, SFT with evaluations)."""


def log_row(component: str, line: str) -> Mapping[str, Any] | None:
    """The metrics in one line of output, with `step` as this generation counts it; `None` for other lines.

    Without `step`: of the last step of the same program. `line` may have colours, torchrun's rank, and its
    source location; or be JSON (`log.json_logging`). The line's words identify its writer: `component` may be
    the `rl` launcher, which repeats its children.
    """
    del component
    if not any(mark in line for mark in MARKS):
        return None
    text, *further_lines = plain_text(line).split(LINE_BREAK)
    if json_line := _JSON.match(text):
        message, *further_lines = _json_message(text[json_line.end() :])
    elif prefix := _HEAD.search(text):
        message = _SOURCE.sub("", text[prefix.end() :].rstrip())
    else:
        return _environment_row(text)
    for read in (_step_row, _validation_row, _evaluation_row, _empty_batch_row, _other_row):
        if (row := read(message)) is not None:
            for environment in further_lines:
                row.update(_environment_row(environment) or {})
            return row
    return None


def _json_message(text: str) -> list[str]:
    """The lines of the message, at least one: a step of several environments has one more for each."""
    try:
        message = json.loads(text).get("message")
    except (ValueError, RecursionError):
        return [""]
    return message.split("\n") if isinstance(message, str) else [""]


def _step_row(message: str) -> dict[str, Any] | None:
    step = _STEP.match(message)
    time_match = _FIRST_TIME.match(message, step.end()) if step else None
    if step is None or time_match is None:
        return None
    fields = dict(_fields(message[time_match.end() :]))
    names = _TRAINER if "Loss" in fields else _ORCHESTRATOR if "Reward" in fields else None
    if names is None:
        return None
    row: dict[str, Any] = {"step": int(step[1]), "time/step": _seconds(time_match)}
    row.update({names[name]: value for name, value in fields.items() if name in names})
    if names is _ORCHESTRATOR:
        row.update({_SHARES[name]: value / 100 for name, value in fields.items() if name in _SHARES})
        if trainable := _TRAINABLE.search(message):
            row[f"{_AGENT}/is_trainable/mean"] = float(trainable[1]) / 100
    return row


def _fields(rest: str) -> Iterator[tuple[str, float]]:
    """`Loss: 0.1 | LR 1e-6 …`: earlier generations have the colon, later ones do not."""
    for segment in rest.split(" | "):
        if match := _FIELD.fullmatch(segment.strip()):
            yield match["name"], float(match["value"])


def _seconds(time_match: re.Match[str]) -> float:
    if time_match["s"] is not None:
        return float(time_match["s"])
    return sum(float(count) * _UNIT_S[unit] for count, unit in _QUANTITY.findall(time_match["words"]))


def _validation_row(message: str) -> dict[str, Any] | None:
    match = _VALIDATION.match(message)
    return {"step": int(match[1]), "val/loss": float(match[2])} if match else None


def _environment_row(text: str) -> dict[str, Any] | None:
    match = _ENVIRONMENT.match(text)
    reward = dict(_fields(match["fields"].strip())).get("Reward") if match else None
    return (
        {f"train/{match['name']}/effective/agent/reward/mean": reward}
        if match and reward is not None
        else None
    )


def _evaluation_row(message: str) -> dict[str, Any] | None:
    """Metrics of an evaluation. Lines of 2025 lack its step, the latest have the policy instead: vN is the
    output of step N.
    """
    if match_2025 := _EVALUATION_OF_2025.match(message):
        return {f"eval/{match_2025[1]}/effective/agent/avg@{match_2025[2]}": float(match_2025[3])}
    if cancelled := _CANCELLED_EVALUATION.match(message):
        share = int(cancelled[3]) / max(1, int(cancelled[4]))
        return {"step": int(cancelled[2]), f"eval/{cancelled[1]}/all/cancelled/mean": share}
    match = _EVALUATION.match(message)
    if match is None or not (match[2] or match[3]):
        return None
    environment, step, version, reward = match.groups()
    row: dict[str, Any] = {
        "step": int(step or version),
        f"eval/{environment}/effective/agent/reward/mean": float(reward),
    }
    if version is not None:
        row[f"eval/{environment}/policy_version"] = int(version)
    return row


def _empty_batch_row(message: str) -> dict[str, Any] | None:
    """The number of batches in a row without anything to train on, for a step without a batch yet."""
    match = _EMPTY_BATCH.match(message)
    return {"step": int(match[1]), "train/empty_batches": int(match[2])} if match else None


def _other_row(message: str) -> dict[str, Any] | None:
    """The shares of a window that were discarded; the version of the weights that the engine takes."""
    if applied := _APPLIED.match(message):
        return {"policy/applied": int(applied[1])}
    match = _DISCARDED.match(message)
    if match is None or not int(match["all"]):
        return None
    names = ("stale", "errored", "no_signal")
    return {f"train/discarded/{name}": int(match[name]) / int(match["all"]) for name in names}


_NO_METRICS_PORT = r"[Ff]ailed to install Prometheus metrics exporter[^\n]{0,200}?[Aa]ddress already in use"
"""The router's message, which lacks the port."""


def _router_metrics(groups: Groups) -> str:
    port = int(groups["port"])
    return (
        f"port {port + ROUTER_METRICS_ABOVE}, of the router's metrics, is in use by another process; change"
        f" inference.server.port ({port}), or end that process if it is yours"
    )


FAILURES: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_PRIME_GPU_BUSY",
        r"Existing processes found on GPUs:",
        "prime-rl's launcher needs idle GPUs; end the processes on them, or start the parts separately",
        code="gpu_memory",
    ),
    FailurePattern(
        "F_PRIME_GPU_COUNT",
        r"Requested (?P<wanted>\d+) GPUs via deployment settings, but only (?P<there>\d+)",
        "the config asks for {wanted} GPUs; available: {there}; lower the numbers in [deployment]",
        hopeless=True,
        code="gpu_missing",
    ),
    FailurePattern(
        "F_PRIME_FOLDER",
        r"(?P<what>(?:Run|Output|Checkpoint) directory [^\n]* already contains [^\n.]*)",
        "{what}; resume from a checkpoint, or start over",
        hopeless=True,
        code="folder_used",
    ),
    FailurePattern(
        "F_PRIME_PORTS",
        r"base_url port \((?P<client>\d+)\) does not match\s+inference\.server\.port \((?P<server>\d+)\)",
        "the orchestrator uses port {client}, but the server listens on {server}; set both to the same port",
        hopeless=True,
        code="config_rejected",
    ),
    FailurePattern(
        "F_PRIME_ROUTER_METRICS",
        rf"^[^\n]{{0,80}}Starting router on http://[^\s/]{{1,100}}:(?P<port>\d{{2,5}})/[^\n]*\n(?:[^\n]*\n){{0,60}}?"
        rf"[^\n]*?{_NO_METRICS_PORT}",
        _router_metrics,
        code="port_taken",
    ),
    FailurePattern(
        "F_PRIME_ROUTER_METRICS_ANY",
        _NO_METRICS_PORT,
        f"the port of the router's metrics, inference.server.port + {ROUTER_METRICS_ABOVE}, is in use by"
        " another process; change inference.server.port, or end that process if it is yours",
        code="port_taken",
    ),
    FailurePattern(
        "F_PRIME_TASKSET",
        r"ModuleNotFoundError: (?P<what>taskset '[^']+' not found)",
        "{what}; install the environment's package into prime-rl's virtual environment",
        hopeless=True,
        code="environment",
    ),
    FailurePattern(
        "F_PRIME_EMPTY",
        r"RuntimeError: (?P<count>\d+) consecutive empty train batches",
        "{count} consecutive batches had nothing to train on; read their rollouts"
        f" ({hints.ROLLOUTS_ALL()}): all rollouts of a group may get the same reward, or fail",
        code="empty-batches",
    ),
    FailurePattern(
        "F_PRIME_ADDRESS",
        r"env server never published its address to (?P<path>\S+)",
        "the env server did not write {path}: see its output; restart it with the orchestrator",
        code="server_unusable",
    ),
    FailurePattern(
        "F_PRIME_SUBMITTED",
        r"Submitted batch job (?P<job>\d+)",
        "submitted to SLURM as job {job}; status: squeue -j {job}; logs are in the run's folder",
        ends_well=True,
        code="handed_on",
    ),
    FailurePattern(
        "F_PRIME_DRY",
        r"Dry run complete",
        "dry_run is set in the config: nothing was started",
        ends_well=True,
        code="handed_on",
    ),
    *COMMON,
)
