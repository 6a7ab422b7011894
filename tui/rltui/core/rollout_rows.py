"""Records of rollouts, as every generation of prime-rl, tinyrl and verifiers writes them, read leniently.

Three shapes: a flat row per rollout (prime-rl of spring 2026, tinyrl, results of vf-eval before 0.4), an
episode with its traces (prime-rl since July 2026, vf-eval 0.4), and a row of the index beside a stream of
episodes.
Nothing here trusts what it reads: what has another type than expected counts as not told.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rltui.core.rollouts import Conversation, Message, Sample, ToolCall, Transcript, bounded

_MOST_CONVERSATIONS = 16
"""Shown of a rollout with many branches; its figures are of all."""
_LONGEST_WORD = 160
_TRUNCATING = frozenset(
    (
        "max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length",
        "compaction_failed",
    )
)  # fmt: skip
_STAGES = (
    ("scoring", "scoring"),
    ("finalize", "finalize"),
    ("agent", "running"),
    ("setup", "setup"),
    ("boot", "boot"),
)
_SCALARS = (str, int, float, bool)


def flat_sample(row: Mapping[str, Any], where: int) -> Sample:
    """Of a row of `train_rollouts.jsonl`, `eval_rollouts.jsonl` or `results.jsonl`."""
    usage = _table(row, "token_usage")
    stop = _word(row.get("stop_condition")) or _word(row.get("finish_reason"))
    task = _word(row.get("example_id", row.get("id")))
    completion = row.get("completion")
    turns = (
        sum(_table(each).get("role") == "assistant" for each in completion)
        if isinstance(completion, list)
        else -1
    )
    return Sample(
        where=where,
        group=_word(row.get("group_id")) or task,
        task=task,
        env=_word(row.get("env_name")) or _word(row.get("task")),
        reward=_number(row.get("reward")),
        advantage=_number(row.get("advantage")),
        input_tokens=bounded(_number(row.get("num_input_tokens", usage.get("input_tokens")))),
        output_tokens=bounded(_number(row.get("num_output_tokens", usage.get("output_tokens")))),
        turns=turns,
        stop=stop,
        truncated=row.get("is_truncated") is True or stop == "length" or stop in _TRUNCATING,
        failed=bool(row.get("error")) or completion == [],  # no turn at all: vf-eval 0.1 keeps no error then
    )


def flat_transcript(row: Mapping[str, Any], sample: Sample) -> Transcript:
    messages = [
        *_messages(row.get("prompt"), "user", sampled=False),
        *_messages(row.get("completion"), "assistant", sampled=True),
    ]
    facts = [(name, row.get(name)) for name in ("answer", "policy_version", "step", "info")]
    facts += [*_table(row, "metrics").items()]
    facts += [(f"{name}", value) for name, value in _table(row, "timing").items()]
    return Transcript(
        sample=sample,
        conversations=(Conversation("", tuple(messages)),),
        facts=_facts(facts),
        errors=tuple(_errors([row["error"]])) if row.get("error") else (),
        raw=row,
    )


def episode_sample(record: Mapping[str, Any], where: int) -> Sample:
    """Of an episode in full: the mean over its traces that were rewarded."""
    traces = [_table(each) for each in _list(record, "traces")]
    rewards = [_reward(trace) for trace in traces if _table(trace, "rewards")]
    advantages = [
        value for trace in traces if math.isfinite(value := _number(_table(trace, "info").get("advantage")))
    ]
    task = _table(record, "task") or (_table(traces[0], "task") if traces else {})
    env = _table(record, "env")
    stops = [stop for trace in traces if (stop := _word(trace.get("stop_condition")))]
    told_in, told_out = _number(record.get("num_input_tokens")), _number(record.get("num_output_tokens"))
    counted_in, counted_out = _tokens(traces)
    info = _table(traces[0], "info") if traces else {}
    return Sample(
        where=where,
        group=_word(_table(record, "group").get("id")),
        task=_task(task),
        env=_word(env.get("name")) or _word(env.get("id")),
        reward=math.fsum(rewards) / len(rewards) if rewards else math.nan,
        advantage=math.fsum(advantages) / len(advantages) if advantages else math.nan,
        input_tokens=bounded(told_in if math.isfinite(told_in) else counted_in),
        output_tokens=bounded(told_out if math.isfinite(told_out) else counted_out),
        turns=sum(
            _table(node, "message").get("role") == "assistant" for trace in traces for node in _nodes(trace)
        ),
        stop=stops[-1] if stops else "",
        truncated=any(map(_is_truncated, traces)),
        failed=record.get("ok") is False
        or bool(_list(record, "errors"))
        or any(_refusals(trace) for trace in traces),
        at=_number(_table(info, "arrival").get("time")),
    )


def episode_transcript(record: Mapping[str, Any], sample: Sample) -> Transcript:
    """The same episode in full: each branch of each trace is a conversation."""
    traces = [_table(each) for each in _list(record, "traces")]
    conversations: list[Conversation] = []
    facts: list[tuple[str, object]] = []
    for trace in traces:
        nodes = _nodes(trace)
        agent = _word(_table(trace, "agent").get("name")) or "agent"
        paths = list(_paths(nodes))
        for number, path in enumerate(paths, start=1):
            title = agent if len(traces) > 1 else ""
            title += f" branch {number} of {len(paths)}" if len(paths) > 1 else ""
            if len(conversations) < _MOST_CONVERSATIONS:
                messages = [_node_message(nodes[at]) for at in path]
                messages += [
                    _message(each, sampled=False)
                    for each in _list(trace, "pending")
                    if path is paths[-1] and isinstance(each, Mapping)
                ]
                conversations.append(Conversation(title.strip(), tuple(messages)))
        prefix = f"{agent} " if len(traces) > 1 else ""
        facts += [(f"{prefix}{name}", value) for name, value in _trace_facts(trace)]
    work = _table(record, "run", "work")
    policy = _table(work, "policy")
    if policy:
        facts.append(("policy", f"v{policy.get('start', '?')} to v{policy.get('end', '?')}"))
    errors = [*_list(record, "errors"), *(error for trace in traces for error in _list(trace, "errors"))]
    errors += [error for trace in traces for error in _refusals(trace)]
    return Transcript(
        sample=sample,
        conversations=tuple(conversations),
        facts=_facts(facts),
        errors=tuple(dict.fromkeys(_errors(errors))),
        raw=record,
    )


def index_sample(row: Mapping[str, Any], where: int) -> Sample:
    """Of a row of `stream.index.jsonl`. It does not tell the prompt. There are many: this one is quick."""
    told = row.get
    reward, advantage, at = told("reward"), told("advantage"), told("arrival")
    return Sample(
        where,
        _word(told("group")),
        "",
        _word(told("env")),
        reward if type(reward) is float else _number(reward),
        advantage if type(advantage) is float else _number(advantage),
        _count(told("input_tokens")),
        _count(told("output_tokens")),
        _count(told("turns")),
        _word(told("stop_condition")),
        told("truncated") is True,
        told("ok") is False or _count(told("num_errors")) > 0,
        at if type(at) is float else _number(at),
    )


def episode_kind(record: Mapping[str, Any]) -> str:
    """`train` or `eval`."""
    for trace in _list(record, "traces"):
        if (kind := _table(trace, "info").get("kind")) in ("train", "eval"):
            return str(kind)
    run = _table(record, "run")
    kind = _table(run, "work").get("type") or run.get("type")
    return "train" if kind == "train" else "eval"


def trace_ids(record: Mapping[str, Any]) -> list[str]:
    return [name for trace in _list(record, "traces") if isinstance(name := _table(trace).get("id"), str)]


def dispatch_time(record: Mapping[str, Any]) -> float:
    """When an episode was asked for; NaN where it is not told."""
    traces = _list(record, "traces")
    return _number(_table(traces[0], "info", "dispatch").get("time")) if traces else math.nan


def merged(old: object, new: object) -> object:
    """Mappings deeply, `new` winning."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
    return new


def fold_delta(trace: dict[str, Any], delta: Mapping[str, Any]) -> bool:
    """Apply a line of a live rollout to what is known of it. False: it was discarded."""
    if delta.get("discard") is True:
        trace.clear()
        return False
    for key, value in delta.items():
        match key, value:
            case "trace" | "links", _:
                pass
            case "open" | "set", Mapping():
                trace.update({name: merged(trace.get(name), each) for name, each in value.items()})
            case "dispatch", Mapping():
                trace["dispatch"] = value
            case "pending", list():
                trace["pending"] = value
            case _, list():
                before = trace.get(key)
                trace[key] = [*before, *value] if isinstance(before, list) else value
                if key == "nodes":
                    trace.pop("pending", None)
            case _:
                pass
    return True


def live_sample(trace: Mapping[str, Any], where: int) -> Sample:
    """Of a rollout under way: its stage stands where the reason of its end would."""
    dispatch = _table(trace, "dispatch") or trace  # a pending one is its dispatch
    counted_in, counted_out = _tokens([trace])
    return Sample(
        where=where,
        group=_word(dispatch.get("group")),
        task=_task(_table(trace, "task")) or _word(dispatch.get("task")),
        env=_word(dispatch.get("env")),
        reward=_reward(trace) if _table(trace, "rewards") else math.nan,
        input_tokens=bounded(counted_in),
        output_tokens=bounded(counted_out),
        turns=len(_list(trace, "calls")),
        stop=_stage(trace),
        failed=bool(_list(trace, "errors")),
        at=_number(dispatch.get("started")),
    )


def live_transcript(trace: Mapping[str, Any], sample: Sample) -> Transcript:
    return episode_transcript({"traces": [trace]}, sample)


def _stage(trace: Mapping[str, Any]) -> str:
    if _list(trace, "errors"):
        return "error"
    timing = _table(trace, "timing")
    if _table(timing, "scoring").get("end"):
        return "done"
    return next((name for span, name in _STAGES if _table(timing, span).get("start")), "pending")


def _trace_facts(trace: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, reward in _table(trace, "rewards").items():
        if isinstance(reward, Mapping):
            weight = _number(reward.get("weight", 1.0))
            share = "" if weight == 1.0 else f" × {weight:g}"
            yield f"reward {name}", f"{_number(reward.get('score')):g}{share}"
    yield from _table(trace, "metrics").items()
    info = _table(trace, "info")
    shipped, sent = (
        _number(_table(info, "ship").get("step")),
        _number(_table(info, "dispatch").get("step")),
    )
    if math.isfinite(shipped):
        yield "shipped at step", f"{shipped:g}"
    if math.isfinite(shipped) and math.isfinite(sent):
        yield "staleness", f"{shipped - sent:g} steps"
    yield "advantage", info.get("advantage")
    data = _table(trace, "task", "data")
    yield "answer", data.get("answer")


def _facts(found: Iterable[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    facts: dict[str, str] = {}
    for name, value in found:
        if isinstance(value, float):
            facts.setdefault(str(name), f"{value:.6g}")
        elif isinstance(value, _SCALARS) and value != "":
            facts.setdefault(str(name), str(value))
        elif isinstance(value, Mapping) and value:
            facts.setdefault(str(name), _as_json(value))
    return tuple(facts.items())


def _errors(errors: Iterable[object]) -> Iterator[str]:
    for error in errors:
        if isinstance(error, str):
            yield error
        elif isinstance(error, Mapping):
            kind = _word(error.get("type")) or _word(error.get("error"))
            said = error.get("message") or error.get("error_chain_str") or ""
            yield ": ".join(part for part in (kind, said) if isinstance(part, str) and part) or _as_json(
                error
            )


def _reward(trace: Mapping[str, Any]) -> float:
    total = 0.0
    for reward in _table(trace, "rewards").values():
        if isinstance(reward, Mapping):
            score, weight = _number(reward.get("score")), _number(reward.get("weight", 1.0))
            total += (score if math.isfinite(score) else 0.0) * (weight if math.isfinite(weight) else 1.0)
    return total


def _refusals(trace: Mapping[str, Any]) -> list[object]:
    """Errors of the model's server, where it answered nothing at all: verifiers 0.4 may call that ok."""
    calls = [_table(call) for call in _list(trace, "calls")]
    errors = [call["error"] for call in calls if call.get("error")]
    return errors if len(errors) == len(calls) else []


def _is_truncated(trace: Mapping[str, Any]) -> bool:
    if _word(trace.get("stop_condition")) in _TRUNCATING:
        return True
    good = (call for call in reversed(_list(trace, "calls")) if not _table(call).get("error"))
    return _table(next(good, None)).get("finish_reason") == "length"


def _tokens(traces: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """In and out, by what the calls say; else by the ids that there are."""
    calls = [_table(call, "usage") for trace in traces for call in _list(trace, "calls")]
    told = [(_number(use.get("prompt_tokens")), _number(use.get("completion_tokens"))) for use in calls]
    finite = [each for each in told if math.isfinite(sum(each))]
    if finite:
        return math.fsum(each[0] for each in finite), math.fsum(each[1] for each in finite)
    counts = {False: 0, True: 0}
    for trace in traces:
        for node in _nodes(trace):
            counts[node.get("sampled") is True] += len(_list(node, "token_ids"))
    return (counts[False], counts[True]) if any(counts.values()) else (math.nan, math.nan)


def _task(task: Mapping[str, Any]) -> str:
    return _word(task.get("hash")) or _word(task.get("key"))


def _nodes(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [_table(node) for node in _list(trace, "nodes")]


def _paths(nodes: Sequence[Mapping[str, Any]]) -> Iterator[list[int]]:
    """From the root to each leaf, a list of places per branch."""
    parents = {parent for node in nodes if isinstance(parent := node.get("parent"), int)}
    leaves = [at for at in range(len(nodes)) if at not in parents] or ([len(nodes) - 1] if nodes else [])
    for leaf in leaves:
        path: dict[int, None] = {}
        at: object = leaf
        while isinstance(at, int) and 0 <= at < len(nodes) and at not in path:
            path[at] = None
            at = nodes[at].get("parent")
        yield [*reversed(path)]


def _node_message(node: Mapping[str, Any]) -> Message:
    return _message(_table(node, "message"), sampled=node.get("sampled") is True)


def _messages(said: object, role: str, *, sampled: bool) -> Iterator[Message]:
    """Of a list of messages, or of plain text, which is of `role`."""
    if isinstance(said, str):
        yield Message(role, said, sampled=sampled)
    for each in said if isinstance(said, list) else ():
        if isinstance(each, Mapping):
            yield _message(each, sampled=sampled and each.get("role", role) == "assistant")


def _message(said: Mapping[str, Any], *, sampled: bool) -> Message:
    reasoning = said.get("reasoning_content") or said.get("reasoning")
    return Message(
        role=_word(said.get("role")) or "?",
        text=_content(said.get("content")),
        reasoning=reasoning if isinstance(reasoning, str) else "",
        calls=tuple(_call(each) for each in _list(said, "tool_calls")),
        sampled=sampled,
    )


def _content(content: object) -> str:
    """The text of a message, with a word in place of what is none: `[image_url]`."""
    if isinstance(content, str):
        return content
    parts = []
    for part in content if isinstance(content, list) else ():
        text = part if isinstance(part, str) else _table(part).get("text")
        parts.append(text if isinstance(text, str) else f"[{_word(_table(part).get('type')) or '…'}]")
    return "\n".join(parts)


def _call(call: object) -> ToolCall:
    """As prime-rl writes one, as OpenAI does, or as JSON inside a text, which older verifiers made of it."""
    if isinstance(call, str):
        try:
            call = json.loads(call)
        except (ValueError, RecursionError):
            return ToolCall("?", str(call))
    table = _table(call, "function") or _table(call)
    arguments = table.get("arguments")
    said = arguments if isinstance(arguments, str) else "" if arguments is None else _as_json(arguments)
    return ToolCall(_word(table.get("name")) or "?", said)


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _table(value: object, *keys: str) -> Mapping[str, Any]:
    """The mapping at `keys` in `value`; an empty one where there is something else."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _list(value: object, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 31 else bounded(_number(value))


def _word(value: object) -> str:
    """A name or an id, cut where it is no such thing."""
    if type(value) is str:
        return value if len(value) <= _LONGEST_WORD else value[:_LONGEST_WORD]
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return str(value)[:_LONGEST_WORD]
