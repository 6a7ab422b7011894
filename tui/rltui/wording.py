"""What command line and screen both say, in plain text. Imports little: `rltui status` uses it.

The command line prints these words as they are; the screen cleans, wraps and colours them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rltui.core import hints
from rltui.core.states import ENTRY_STATES, PENDING, Badge
from rltui.core.text import (
    duration,
    gib,
    grouped,
    listed,
    quiet_s,
    short_command,
    shortened,
    size_text,
    steps_text,
    value_text,
)

if TYPE_CHECKING:
    from rltui.core.api import HealthIssue, Lost, Orphan, Plan, Publication
    from rltui.core.checkpoints import Checkpoint, CheckpointReport, PrunePlan, SetAside
    from rltui.core.config_report import DerivedValue
    from rltui.core.evals import Difference, EvalReport, Evaluation
    from rltui.core.forks import ForkPlan
    from rltui.core.queue import QueueEntry, RunQueue
    from rltui.core.runs import RunRow

LINK_SIGN = "↗"
EVENT_SIGNS = {
    "crash": "✗",
    "alert": "⚠",
    "stall": "⚠",
    "edit": "≡",
    "note": "»",
    "resume": "↻",
    "restart": "↻",
    "checkpoint": "◆",
    "eval": "✦",
    "link": LINK_SIGN,
}
"""By the word for what happened, in the journal and on charts."""
_BLOCKS = "▁▂▃▄▅▆▇█"
LOG_SYMBOLS = {"growing": "●", "quiet": "○", "no file yet": "◌"}
"""By the word of `log_state`."""
_SERVER_WORDS = {"unknown": "◌ not asked yet", "ready": "● ready", "down": "✗ down", "refused": "✗ refused"}
"""By the state of a server that somebody else runs."""
_FULL_COMMAND_WIDTH = 200
"""As much as a question shows."""
_MOST_EDITS = 3
"""Named beside a trouble, the newest."""
_LABEL_WIDTH = 11
"""Of the rows of a plan."""
_EVIDENCE = {
    "descendant": "a child of its processes",
    "session": "runs in its session",
    "recorded": "was seen among its processes",
    "environment": "has its mark in the environment",
    "gpu": "holds GPU memory, not started by rltui",
}


def histogram_blocks(counts: Sequence[int]) -> str:
    """A cell per count, as high as the count beside the largest one; where there is none, a dot."""
    most, top = max(counts, default=0), len(_BLOCKS) - 1
    return "".join("·" if not count else _BLOCKS[round(count / most * top)] for count in counts)


def log_state(path: str | None, changed_at: float | None, now: float) -> tuple[str, str]:
    """Of a log file that somebody else writes: its word, and since when it is quiet."""
    if path is None:
        return "no file yet", ""
    quiet = quiet_s(changed_at, now)
    return ("growing", "") if quiet is None else ("quiet", duration(quiet))


def concern_text(concern: HealthIssue) -> str:
    """In a line or two: what is wrong, where to go back to, what was edited since."""
    parts = [f"{concern.word}: {concern.evidence}"]
    if concern.last_good is not None:
        parts.append(f"last good checkpoint {concern.last_good}")
    if concern.edits:
        parts.append(f"edited since: {'; '.join(concern.edits[-_MOST_EDITS:])}")
    return " · ".join(parts)


def failed_text(components: Sequence[str]) -> str:
    """`failed: trainer`."""
    return f"failed: {', '.join(components)}"


def waits_text(waits: str, waits_for: str, share_frac: float) -> str:
    """The bottleneck in short: `trainer waits for a batch 62 %`."""
    return f"{waits} waits for {waits_for} {100 * share_frac:.0f} %"


def owner_text(orphan: Orphan) -> str:
    """`inference attempt 1`, as far as it is known."""
    if orphan.component is None:
        return "an attempt that is not known any more"
    experiment = "" if orphan.experiment is None else f"{orphan.experiment}/"
    attempt = "" if orphan.attempt is None else f" attempt {orphan.attempt}"
    return f"{experiment}{orphan.component}{attempt}"


def evidence_text(orphan: Orphan) -> str:
    """How it was told to belong to an attempt, or that it belongs to none."""
    whose = "" if orphan.evidence == "gpu" else f"of {owner_text(orphan)}: "
    return f"{whose}{_EVIDENCE[orphan.evidence]}"


def brief_orphan(orphan: Orphan) -> str:
    """`pid 4711 VLLM::EngineCore 4m12s 58.0 GiB :8000`, as far as it is known."""
    return " ".join((_pid_text(orphan), *_held(orphan)))


def orphan_text(orphan: Orphan) -> str:
    """`pid 4711 VLLM::EngineCore · of inference attempt 1 · 4m12s · 58.0 GiB · :8000`, as far as known."""
    whose = [] if orphan.component is None else [f"of {owner_text(orphan)}"]
    return " · ".join((_pid_text(orphan), *whose, *_held(orphan)))


def no_rollouts_text(framework: str) -> str:
    """Why there are none, by the id of the framework."""
    if framework == "verifiers":
        return (
            "vf-rl leaves no files of rollouts; its samples are in the log of the trainer: "
            f"{hints.LOGS_GREP(component='trainer', pattern='[╭│]')}"
        )
    return "No rollouts yet: they appear here with the first step."


def orphan_details(orphan: Orphan) -> list[str]:
    """Lines for a question to be answered with care: which process, what it holds, whose it is."""
    facts = []
    if orphan.age_s is not None:
        facts.append(f"runs for {duration(orphan.age_s)}")
    if orphan.gpu_bytes:
        facts.append(f"holds {gib(orphan.gpu_bytes)} GiB of GPU memory")
    if orphan.ports:
        facts.append(f"listens on {ports_text(orphan.ports)}")
    command = shortened(orphan.command, _FULL_COMMAND_WIDTH)
    lines = (f"pid {orphan.pid} {command}".rstrip(), " · ".join(facts), evidence_text(orphan))
    return [line for line in lines if line]


def orphan_count(orphans: Sequence[Orphan]) -> str:
    """`2 leftover processes`."""
    return "1 leftover process" if len(orphans) == 1 else f"{len(orphans)} leftover processes"


def by_attempt(orphans: Sequence[Orphan]) -> list[list[Orphan]]:
    """By attempt, in the order of their first pid."""
    groups: dict[str, list[Orphan]] = {}
    for orphan in orphans:
        groups.setdefault(owner_text(orphan), []).append(orphan)
    return list(groups.values())


def ports_text(ports: Sequence[int]) -> str:
    """`:8000 :8001`."""
    return " ".join(f":{port}" for port in sorted(set(ports)))


def _pid_text(orphan: Orphan) -> str:
    return f"pid {orphan.pid} {short_command(orphan.command)}".rstrip()


def orphan_cells(orphan: Orphan) -> tuple[str, ...]:
    """`4711`, `VLLM::EngineCore`, `inference attempt 1`, `4m12s`, `58.0 GiB`, `:8000`, as far as known."""
    age = "" if orphan.age_s is None else duration(orphan.age_s)
    memory = f"{gib(orphan.gpu_bytes)} GiB" if orphan.gpu_bytes else ""
    whose = "" if orphan.component is None else owner_text(orphan)
    return str(orphan.pid), short_command(orphan.command), whose, age, memory, ports_text(orphan.ports)


def _held(orphan: Orphan) -> list[str]:
    return [fact for fact in orphan_cells(orphan)[3:] if fact]


def plan_rows(plan: Plan) -> list[tuple[str, str]]:
    """Who is ended, stops, starts, stays, what is lost, how long it takes, why: a label and its text each.

    Labels: `end`, `end first`, `stop`, `start`, `keep`, `lose`, `set aside`, `time`, `memory`, `because`;
    none where a row goes on with what the one before began.
    """
    rows = _ended_rows(plan)
    rows.append(("stop", " → ".join(plan.stop)))
    rows.append(("start", " → ".join(plan.start)))
    rows.append(("keep", f"{listed(plan.keep)} (not touched)" if plan.keep else ""))
    rows.append(("lose", lost_text(plan.lost)))
    rows.extend(_labelled("set aside", _archived_texts(plan)))
    rows.append(("time", estimate_text(plan)))
    # What will not fit is among the problems.
    rows.extend(_labelled("memory", [verdict.text for verdict in plan.memory if not verdict.is_bad]))
    rows.extend(_labelled("because", plan.reasons))
    return [(label, text) for label, text in rows if text]


def plan_text(plan: Plan) -> str:
    """A plan in lines; ends with a newline unless there is nothing to say."""
    lines = plan.diff.rstrip("\n").split("\n") if plan.diff else []  # only line feeds end a line
    lines.extend(f"{label:<{_LABEL_WIDTH}}{text}" for label, text in plan_rows(plan))
    lines.extend(figure_text(figure) for figure in plan.derived)
    lines.extend(f"{problem.severity}: {problem.text}" for problem in plan.problems)
    return "\n".join(lines) + "\n" if lines else ""


def _ended_rows(plan: Plan) -> list[tuple[str, str]]:
    """In a question about them, all that is known of each; elsewhere, a line for each."""
    if plan.action == "free":
        return [row for orphan in plan.free for row in _labelled("end", orphan_details(orphan))]
    lines: list[str] = []
    for group in by_attempt(plan.free):
        lines.append(f"{orphan_count(group)} of {owner_text(group[0])}:")
        lines.extend(map(brief_orphan, group))
    return _labelled("end first", lines)


def _archived_texts(plan: Plan) -> list[str]:
    """`checkpoints 430 to 500 (8), rollouts 421 to 512 (92)`, and where they are kept."""
    if not plan.archived:
        return []
    found = [f"{each.folder} {steps_text(each.steps)}".rstrip() for each in plan.archived]
    return [", ".join(found), f"kept in {plan.archive}"]


def server_text(server: Mapping[str, Any]) -> str:
    """Of a `ServerStatus`: `inference (external) ● ready · KV 41 % · http://gpu-2:8000/v1 · serves tiny`."""
    source = server["source"]
    whose = "external" if source in ("config", "--inference") else f"of {source}"
    parts = [f"{server['id']} ({whose}) {_SERVER_WORDS[server['state']]}", *server["facts"], server["url"]]
    if server["reason"]:
        parts.append(server["reason"])
    elif server["models"]:
        wanted = server["model"] if server["model"] in server["models"] else server["models"][0]
        parts.append(f"serves {wanted}")
    return " · ".join(parts)


def host_texts(host: Mapping[str, Any], now: float) -> list[str]:
    """Of a `HostStatus`: `job 1234 on node-[1-2]`, `waits for others, starts about 14:05`, `ends in 12m`."""
    started = f"start {host['starts']}" if host["starts"] > 1 else ""
    texts = [host["where"], host["reason"], started]
    if host["ends_at"] is not None and host["phase"] == "running":
        texts.append(f"ends in {duration(host['ends_at'] - now)}")
    if host["lost_at"] is not None:
        texts.insert(0, f"⚠ no answer for {duration(now - host['lost_at'])}: {host['problem']}")
    return [text for text in texts if text]


CHECKPOINT_HEAD = ("step", "age", "reward", "eval", "parts", "size", "attempt", "")
"""Above the columns of `checkpoint_cells`."""


EVAL_HEAD = (
    "id", "what", "on", "asked", "reward", "spread", "difference", "cut off", "failed", "when", "note",
)  # fmt: skip
"""Above the columns of `eval_cells`."""


def eval_cells(
    evaluation: Evaluation, compared: Difference | None, to: Evaluation | None, now: float
) -> tuple[str, ...]:
    """`3`, `checkpoint 20`, `reverse-text`, `20 × 3`, `0.812 ± 0.021`, `0.110`, `+0.312 ± 0.041 ▲ to 1`,
    `2 %`, `0 %`, `12m`, and what is wrong with it.

    `compared`: with `to`, where there is a baseline.
    """
    note = evaluation.words
    if evaluation.verdict != "ok":
        note = f"{evaluation.verdict}: {note}" if note else evaluation.verdict
    return (
        evaluation.id,
        evaluation.label,
        evaluation.env,
        f"{evaluation.num_examples} × {evaluation.rollouts_per_example}",
        evaluation.reward_text,
        "" if evaluation.std is None else f"{evaluation.std:.3f}",
        f"{compared.words} to {to.id}" if compared is not None and to is not None else "",
        _share(evaluation.truncated_frac),
        _share(evaluation.failed_frac),
        duration(now - evaluation.at),
        note,
    )


def _share(frac: float) -> str:
    return f"{100 * frac:.0f} %" if frac else ""


def eval_summary(report: EvalReport) -> list[str]:
    """What runs and waits, and the standing order: a line each."""
    lines = [f"{each.id}: {each.label}: {each.words}" for each in report.queue]
    if report.every:
        which = "every checkpoint" if report.every == 1 else f"one of {report.every} checkpoints"
        lines.append(f"{which} is evaluated ({hints.EVAL_NEVER} ends that)")
    return lines


def checkpoint_cells(checkpoint: Checkpoint, now: float) -> tuple[str, ...]:
    """`420`, `12m`, `0.91±0.02 → 0.03`, `0.83`, `trainer orchestrator`, `2.1 GiB`, `#2`, and a note."""
    rewards = (checkpoint.reward, checkpoint.reward_after)
    known = [f"{reward:.2f}" for reward in rewards if reward is not None]
    if checkpoint.reward is not None and checkpoint.reward_std is not None:
        known[0] += f"±{checkpoint.reward_std:.2f}"
    scores = [f"{score:.2f}" for score in checkpoint.evals.values()]
    return (
        str(checkpoint.step),
        "" if checkpoint.at is None else duration(now - checkpoint.at),
        " → ".join(known),
        scores[0] + (f" +{len(scores) - 1}" if len(scores) > 1 else "") if scores else "",
        " ".join(checkpoint.parts),
        "" if checkpoint.size_bytes is None else size_text(checkpoint.size_bytes),
        "" if checkpoint.attempt is None else f"#{checkpoint.attempt}",
        checkpoint_note(checkpoint),
    )


def checkpoint_words(checkpoint: Checkpoint, now: float) -> str:
    """`12m ago · reward 0.91±0.02 → 0.03 · highest reward`, as far as it is known."""
    _, age, reward, score, *_ = checkpoint_cells(checkpoint, now)
    facts = (
        f"{age} ago" if age else "",
        f"reward {reward}" if reward else "",
        f"eval {score}" if score else "",
        checkpoint_note(checkpoint),
    )
    return " · ".join(filter(None, facts))


def checkpoint_note(checkpoint: Checkpoint) -> str:
    """`incomplete: no orchestrator`, `being written: no orchestrator yet`, `a plain resume takes it`."""
    if not checkpoint.missing:
        return "; ".join(checkpoint.notes)
    missing = listed(checkpoint.missing, "or")
    first, *more = checkpoint.notes or ("incomplete",)
    return "; ".join((f"{first}: no {missing}{' yet' if checkpoint.notes else ''}", *more))


def checkpoint_summary(report: CheckpointReport) -> list[str]:
    """`12 complete, 24.1 GiB`, `182 GiB free: 90 more fit, 8 to come`, what was set aside: short texts."""
    whole, rest = len(report.complete), len(report.checkpoints) - len(report.complete)
    count = f"{whole} complete" if whole else "no checkpoint is complete yet"
    count += f", {rest} incomplete" if rest else ""
    texts = [f"{count}, {size_text(report.total_bytes)}" if report.checkpoints else count]
    if report.free_bytes is not None:
        more = [f"{report.fits} more fit"] if report.fits is not None else []
        more += [f"{report.to_come} to come"] if report.to_come is not None else []
        texts.append(f"{size_text(report.free_bytes)} free{': ' if more else ''}{', '.join(more)}")
    if report.archive_bytes:
        among = f", checkpoints {steps_text(report.archived_steps)} among it" if report.archived_steps else ""
        texts.append(f"restarts have set {size_text(report.archive_bytes)} aside{among}")
    return [*texts, report.problem] if report.problem else texts


def set_aside_texts(report: CheckpointReport) -> list[str]:
    """Each set of files that a restart moved aside, and how it is brought back."""
    return [
        f"set aside {each.name}: {aside_text(each)}; "
        f"back: {hints.RESTORE_ASIDE(name=report.experiment, stamp=each.name)}"
        for each in report.set_aside
    ]


def aside_text(aside: SetAside) -> str:
    """`checkpoints 430 to 500, 1.2 GiB`."""
    steps = f"checkpoints {steps_text(aside.steps)}" if aside.steps else "no checkpoint"
    return f"{steps}, {size_text(aside.size_bytes)}"


def restore_rows(aside: SetAside) -> list[tuple[str, str]]:
    """Say what bringing it back does, as labels and texts."""
    return [("restore", aside_text(aside)), ("set aside", "what the run has written since")]


def prune_rows(plan: PrunePlan) -> list[tuple[str, str]]:
    """What is deleted, what stays and why, what that frees: a label and its text each."""
    rows = []
    for each in plan.delete:
        size = "" if each.size_bytes is None else f" ({size_text(each.size_bytes)})"
        lacks = f", {checkpoint_note(each)}" if each.missing else ""
        rows.append(("delete", f"checkpoint {each.step}{size}{lacks}"))
    if plan.archive:
        rows.append(("delete", f"all that restarts have set aside in {plan.archive}"))
    if not rows:
        rows.append(("delete", "nothing"))
    rows.append(("free", size_text(plan.frees_bytes)))
    rows.extend(("keep", f"checkpoint {each.step}: {each.why}") for each in plan.keep)
    return [
        (label if at == 0 or rows[at - 1][0] != label else "", text) for at, (label, text) in enumerate(rows)
    ]


def rows_text(rows: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{label:<{_LABEL_WIDTH}}{text}".rstrip() + "\n" for label, text in rows)


def _labelled(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [("" if position else label, text) for position, text in enumerate(texts)]


def lost_text(lost: Lost) -> str:
    """What is thrown away, and where the run goes on; empty where nothing is lost or begun again."""
    thrown_away = []
    if lost.steps:
        thrown_away.append(_counted(lost.steps, "step"))
    if lost.rollouts:
        thrown_away.append(f"{_counted(lost.rollouts, 'rollout')} in flight")
    goes_on = ""
    if lost.resume_step is not None:
        step = lost.resume_step
        goes_on = f"from the newest checkpoint ({step} now)" if lost.newest else f"resumes after step {step}"
    elif lost.steps:
        goes_on = "starts from the beginning"
    if goes_on and not thrown_away:
        return f"nothing · {goes_on}"
    return " · ".join(filter(None, (" and ".join(thrown_away), goes_on)))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"


def estimate_text(plan: Plan) -> str:
    """How long it will take, by how long it took before; empty where that is not known."""
    if plan.estimate_s is None or not (plan.start or plan.stop):
        return ""
    time = f"about {duration(plan.estimate_s)}" if plan.estimate_s >= 1 else "a moment"
    return f"{'ready' if plan.start else 'done'} in {time}, as before"


def figure_text(figure: DerivedValue) -> str:
    """`prompts per step: 8  (128 rollouts / 16 per example)`, or the words alone where it varies."""
    if figure.value is None:
        return f"{figure.name}: {figure.text}"
    explained = f"  ({figure.text})" if figure.text else ""
    most = "at most " if figure.text.startswith("at most ") else ""
    return f"{figure.name}: {most}{figure_value(figure.value)}{figure_unit(figure)}{explained}"


def figure_value(value: float | str | None) -> str:
    """`262,144`; `—` where it varies."""
    if value is None:
        return "—"
    return value if isinstance(value, str) else grouped(value)


def figure_unit(figure: DerivedValue) -> str:
    """` tokens`; empty where it is a word of the name: `prompts per step` needs no `prompts` behind it."""
    return "" if figure.unit in figure.name.split() else f" {figure.unit}"


def range_text(bounds: Sequence[float | None]) -> str:
    """`1 to 100`, `1 or more`, `up to 100`; empty where anything goes."""
    low, high = bounds
    if low is not None and high is not None:
        return f"{value_text(low)} to {value_text(high)}"
    if low is not None:
        return f"{value_text(low)} or more"
    return "" if high is None else f"up to {value_text(high)}"


_FILES_NAMED = 8


def publication_text(published: Publication) -> str:
    count = len(published.files)
    files = f"{count} file{'' if count == 1 else 's'}, {size_text(published.size_bytes)}"
    more = f" and {count - _FILES_NAMED} more" if count > _FILES_NAMED else ""
    named = f"{', '.join(published.files[:_FILES_NAMED])}{more}"
    return f"upload     {files}: {named}\nof         {published.folder}\n"


QUEUE_HEAD = ("", "run", "state", "step", "reward", "what", "why")
"""Of `queue_cells`."""


def queue_order(queue: RunQueue) -> list[QueueEntry]:
    """What runs, what waits in the order in which it may start, what has ended, the newest first."""
    ended = sorted(
        (each for each in queue.entries if not each.is_open), key=lambda each: -(each.ended_at or 0.0)
    )
    going = [each for each in queue.entries if each.is_open]
    going.sort(key=lambda each: (ENTRY_STATES[each.state].rank, -each.priority))
    return [*going, *ended]


def queue_cells(entry: QueueEntry, row: RunRow | None, now: float) -> tuple[str, ...]:
    """A row of the queue. `row`: of its run, where there is one."""
    step = "" if row is None or row.step is None else str(row.step)
    if row is not None and step and row.max_steps:
        step += f"/{row.max_steps}"
    reward = "" if row is None or row.reward is None else f"{row.reward:.3f}"
    why = entry.why
    badge = entry_badge(entry)
    if entry.state == "waiting" and entry.not_before is not None and entry.not_before > now:
        why += f", in {duration(entry.not_before - now)}"
    return badge.sign, entry.name, badge.word, step, reward, entry.told, why


def entry_badge(entry: QueueEntry) -> Badge:
    """Its state; `pending` where SLURM has its job and does not run it yet."""
    is_pending = entry.is_job and entry.state == "running" and bool(entry.why)
    return PENDING if is_pending else ENTRY_STATES[entry.state]


def queue_notices(queue: RunQueue) -> list[str]:
    told = [f"⚠ {queue.told}"] if queue.told else []
    if queue.paused:
        told.append(f"paused, {queue.paused}; it goes on with: {hints.QUEUE_RESUME}")
    if queue.max_parallel is not None:
        told.append(f"at most {queue.max_parallel} at once: {hints.QUEUE_LIMIT}")
    return told


def fork_lines(plan: ForkPlan) -> list[str]:
    """What a fork comes to, a line for each thing, then the diff of its config."""
    lines = [f"{plan.name}, a fork of {plan.parent}, in {plan.folder}"]
    if plan.step is None:
        lines.append("  begins at the beginning")
    else:
        lines.append(f"  begins with checkpoint {plan.step}, a copy of {size_text(plan.copied_bytes)}")
        lines += [f"    {name}" for name in plan.copied]
    lines += [f"  {note}" for note in plan.notes]
    return [*lines, *(plan.diff.splitlines() or ["  with the config as it is"])]
