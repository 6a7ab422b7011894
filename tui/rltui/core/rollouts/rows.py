"""Reads records of rollouts, as every generation of prime-rl, tinyrl and verifiers writes them, leniently.

Three shapes: a flat row per rollout (prime-rl of spring 2026, tinyrl, results of vf-eval before 0.4), an
episode with its traces (prime-rl since July 2026, vf-eval 0.4), and a row of the index beside a stream of
episodes.

Nothing here trusts the input: a value of another type than expected counts as missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rltui.base.text import format_measured
from rltui.core.rollouts.batches import Conversation, Message, Sample, ToolCall, Transcript, bounded

_MOST_CONVERSATIONS = 16
"""Displayed number for a rollout with many branches; its statistics cover all."""
_LONGEST_NAME = 160
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


def flat_sample(row: Mapping[str, Any], location: int) -> Sample:
    """The sample in a row of `train_rollouts.jsonl`, `eval_rollouts.jsonl` or `results.jsonl`."""
    usage = _table(row, "token_usage")
    stop = _name(row.get("stop_condition")) or _name(row.get("finish_reason"))
    task = _name(row.get("example_id", row.get("id")))
    completion = row.get("completion")
    turns = (
        sum(_table(message).get("role") == "assistant" for message in completion)
        if isinstance(completion, list)
        else -1
    )
    return Sample(
        where=location,
        group=_name(row.get("group_id")) or task,
        task=task,
        env=_name(row.get("env_name")) or _name(row.get("task")),
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
    details = [(name, row.get(name)) for name in ("answer", "policy_version", "step", "info")]
    details += [*_table(row, "metrics").items()]
    details += [(f"{name}", value) for name, value in _table(row, "timing").items()]
    return Transcript(
        sample=sample,
        conversations=(Conversation("", tuple(messages)),),
        facts=_details(details),
        errors=tuple(_errors([row["error"]])) if row.get("error") else (),
        raw=row,
    )


def episode_sample(record: Mapping[str, Any], location: int) -> Sample:
    """The sample of an episode in full: the mean over its traces that were rewarded."""
    traces = [_table(trace_) for trace_ in _list(record, "traces")]
    rewards = [_reward(trace) for trace in traces if _table(trace, "rewards")]
    advantages = [
        value for trace in traces if math.isfinite(value := _number(_table(trace, "info").get("advantage")))
    ]
    task = _table(record, "task") or (_table(traces[0], "task") if traces else {})
    env = _table(record, "env")
    stops = [stop for trace in traces if (stop := _name(trace.get("stop_condition")))]
    stated_in, stated_out = _number(record.get("num_input_tokens")), _number(record.get("num_output_tokens"))
    counted_in, counted_out = _tokens(traces)
    info = _table(traces[0], "info") if traces else {}
    return Sample(
        where=location,
        group=_name(_table(record, "group").get("id")),
        task=_task(task),
        env=_name(env.get("name")) or _name(env.get("id")),
        reward=math.fsum(rewards) / len(rewards) if rewards else math.nan,
        advantage=math.fsum(advantages) / len(advantages) if advantages else math.nan,
        input_tokens=bounded(stated_in if math.isfinite(stated_in) else counted_in),
        output_tokens=bounded(stated_out if math.isfinite(stated_out) else counted_out),
        turns=sum(
            _table(node, "message").get("role") == "assistant" for trace in traces for node in _nodes(trace)
        ),
        stop=stops[-1] if stops else "",
        truncated=any(map(_is_truncated, traces)),
        failed=record.get("ok") is False
        or bool(_list(record, "errors"))
        or any(_refusals(trace) for trace in traces),
        agents=_rewards_by_agent(traces),
        at=_number(_table(info, "arrival").get("time")),
    )


def _rewards_by_agent(traces: Iterable[Mapping[str, Any]]) -> str:
    """Mean reward of each agent, in the order of their first traces; empty unless there are several."""
    rewards: dict[str, list[float]] = {}
    for trace in traces:
        own = rewards.setdefault(_agent(trace), [])
        if _table(trace, "rewards"):
            own.append(_reward(trace))
    texts = (f"{name} {math.fsum(own) / len(own):.2f}" if own else name for name, own in rewards.items())
    return ", ".join(texts) if len(rewards) > 1 else ""


def _agent(trace: Mapping[str, Any]) -> str:
    return _name(_table(trace, "agent").get("name")) or "agent"


def episode_transcript(record: Mapping[str, Any], sample: Sample) -> Transcript:
    """The same episode in full: each branch of each trace is a conversation."""
    traces = [_table(pending) for pending in _list(record, "traces")]
    conversations: list[Conversation] = []
    details: list[tuple[str, object]] = []
    for trace in traces:
        nodes = _nodes(trace)
        agent = _agent(trace)
        paths = list(_paths(nodes))
        for number, path in enumerate(paths, start=1):
            title = agent if len(traces) > 1 else ""
            title += f" branch {number} of {len(paths)}" if len(paths) > 1 else ""
            if len(conversations) < _MOST_CONVERSATIONS:
                messages = [
                    _message(_table(node, "message"), sampled=node.get("sampled") is True)
                    for node in map(nodes.__getitem__, path)
                ]
                messages += [
                    _message(pending, sampled=False)
                    for pending in _list(trace, "pending")
                    if path is paths[-1] and isinstance(pending, Mapping)
                ]
                conversations.append(Conversation(title.strip(), tuple(messages)))
        prefix = f"{agent} " if len(traces) > 1 else ""
        details += [(f"{prefix}{name}", value) for name, value in _trace_details(trace)]
    work = _table(record, "run", "work")
    policy = _table(work, "policy")
    if policy:
        details.append(("policy", f"v{policy.get('start', '?')} to v{policy.get('end', '?')}"))
    errors = [*_list(record, "errors"), *(error for trace in traces for error in _list(trace, "errors"))]
    errors += [error for trace in traces for error in _refusals(trace)]
    return Transcript(
        sample=sample,
        conversations=tuple(conversations),
        facts=_details(details),
        errors=tuple(dict.fromkeys(_errors(errors))),
        raw=record,
    )


def index_sample(row: Mapping[str, Any], location: int) -> Sample:
    """The sample in a row of `stream.index.jsonl`, which lacks the prompt. There are many: this is fast."""
    get = row.get
    reward, advantage, time = get("reward"), get("advantage"), get("arrival")
    return Sample(
        location,
        _name(get("group")),
        "",
        _name(get("env")),
        reward if type(reward) is float else _number(reward),
        advantage if type(advantage) is float else _number(advantage),
        _count(get("input_tokens")),
        _count(get("output_tokens")),
        _count(get("turns")),
        _name(get("stop_condition")),
        get("truncated") is True,
        get("ok") is False or _count(get("num_errors")) > 0,
        "",
        time if type(time) is float else _number(time),
    )


def episode_kind(record: Mapping[str, Any]) -> str:
    """Kind of an episode: `train` or `eval`."""
    for trace in _list(record, "traces"):
        if (kind := _table(trace, "info").get("kind")) in ("train", "eval"):
            return str(kind)
    run = _table(record, "run")
    kind = _table(run, "work").get("type") or run.get("type")
    return "train" if kind == "train" else "eval"


def trace_ids(record: Mapping[str, Any]) -> list[str]:
    return [name for trace in _list(record, "traces") if isinstance(name := _table(trace).get("id"), str)]


def dispatch_time(record: Mapping[str, Any]) -> float:
    """Time of an episode's request; NaN if missing."""
    traces = _list(record, "traces")
    return _number(_table(traces[0], "info", "dispatch").get("time")) if traces else math.nan


def deep_merge(old: object, new: object) -> object:
    """Merge mappings deeply, `new` winning."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: deep_merge(old.get(key), value) for key, value in new.items()}}
    return new


def fold_delta(trace: dict[str, Any], delta: Mapping[str, Any]) -> bool:
    """Apply a line of a live rollout to its trace. False: it was discarded."""
    if delta.get("discard") is True:
        trace.clear()
        return False
    for key, value in delta.items():
        match key, value:
            case "trace" | "links", _:
                pass
            case "open" | "set", Mapping():
                trace.update({name: deep_merge(trace.get(name), part) for name, part in value.items()})
            case "dispatch", Mapping():
                trace["dispatch"] = value
            case "pending", list():
                trace["pending"] = value
            case _, list():
                old_values = trace.get(key)
                trace[key] = [*old_values, *value] if isinstance(old_values, list) else value
                if key == "nodes":
                    trace.pop("pending", None)
            case _:
                pass
    return True


def live_sample(trace: Mapping[str, Any], location: int) -> Sample:
    """The sample of a rollout under way: its stage stands in place of the reason of its end."""
    dispatch = _table(trace, "dispatch") or trace  # a pending one is its dispatch
    counted_in, counted_out = _tokens([trace])
    return Sample(
        where=location,
        group=_name(dispatch.get("group")),
        task=_task(_table(trace, "task")) or _name(dispatch.get("task")),
        env=_name(dispatch.get("env")),
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


def _trace_details(trace: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, reward in _table(trace, "rewards").items():
        if isinstance(reward, Mapping):
            weight = _number(reward.get("weight", 1.0))
            share = "" if weight == 1.0 else f" × {weight:g}"
            yield f"reward {name}", f"{_number(reward.get('score')):g}{share}"
    yield from _table(trace, "metrics").items()
    info = _table(trace, "info")
    ship_step, dispatch_step = (
        _number(_table(info, "ship").get("step")),
        _number(_table(info, "dispatch").get("step")),
    )
    if math.isfinite(ship_step):
        yield "shipped at step", f"{ship_step:g}"
    if math.isfinite(ship_step) and math.isfinite(dispatch_step):
        yield "staleness", format_measured(ship_step - dispatch_step, "steps")
    yield "advantage", info.get("advantage")
    data = _table(trace, "task", "data")
    yield "answer", data.get("answer")


def _details(pairs: Iterable[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    texts: dict[str, str] = {}
    for name, value in pairs:
        if isinstance(value, float):
            texts.setdefault(str(name), f"{value:.6g}")
        elif isinstance(value, _SCALARS) and value != "":
            texts.setdefault(str(name), str(value))
        elif isinstance(value, Mapping) and value:
            texts.setdefault(str(name), _as_json(value))
    return tuple(texts.items())


def _errors(errors: Iterable[object]) -> Iterator[str]:
    for error in errors:
        if isinstance(error, str):
            yield error
        elif isinstance(error, Mapping):
            kind = _name(error.get("type")) or _name(error.get("error"))
            message = error.get("message") or error.get("error_chain_str") or ""
            yield ": ".join(text for text in (kind, message) if isinstance(text, str) and text) or _as_json(
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
    """Errors of the model's server, if it answered nothing at all: verifiers 0.4 may call that ok."""
    calls = [_table(call) for call in _list(trace, "calls")]
    errors = [call["error"] for call in calls if call.get("error")]
    return errors if len(errors) == len(calls) else []


def _is_truncated(trace: Mapping[str, Any]) -> bool:
    if _name(trace.get("stop_condition")) in _TRUNCATING:
        return True
    good = (call for call in reversed(_list(trace, "calls")) if not _table(call).get("error"))
    return _table(next(good, None)).get("finish_reason") == "length"


def _tokens(traces: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """Input and output tokens, by the usage of the calls; else by the token ids."""
    calls = [_table(call, "usage") for trace in traces for call in _list(trace, "calls")]
    usages = [(_number(use.get("prompt_tokens")), _number(use.get("completion_tokens"))) for use in calls]
    finite = [usage for usage in usages if math.isfinite(sum(usage))]
    if finite:
        return math.fsum(usage[0] for usage in finite), math.fsum(usage[1] for usage in finite)
    counts = {False: 0, True: 0}
    for trace in traces:
        for node in _nodes(trace):
            counts[node.get("sampled") is True] += len(_list(node, "token_ids"))
    return (counts[False], counts[True]) if any(counts.values()) else (math.nan, math.nan)


def _task(task: Mapping[str, Any]) -> str:
    return _name(task.get("hash")) or _name(task.get("key"))


def _nodes(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [_table(node) for node in _list(trace, "nodes")]


def _paths(nodes: Sequence[Mapping[str, Any]]) -> Iterator[list[int]]:
    """The paths from the root to each leaf, as indices of nodes."""
    parents = {parent for node in nodes if isinstance(parent := node.get("parent"), int)}
    leaves = [index for index in range(len(nodes)) if index not in parents] or (
        [len(nodes) - 1] if nodes else []
    )
    for leaf in leaves:
        path: dict[int, None] = {}
        index: object = leaf
        while isinstance(index, int) and 0 <= index < len(nodes) and index not in path:
            path[index] = None
            index = nodes[index].get("parent")
        yield [*reversed(path)]


def _messages(content: object, role: str, *, sampled: bool) -> Iterator[Message]:
    """Messages of a list, or of plain text, which is of `role`."""
    if isinstance(content, str):
        yield Message(role, content, sampled=sampled)
    for message in content if isinstance(content, list) else ():
        if isinstance(message, Mapping):
            yield _message(message, sampled=sampled and message.get("role", role) == "assistant")


def _message(message: Mapping[str, Any], *, sampled: bool) -> Message:
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return Message(
        role=_name(message.get("role")) or "?",
        text=_content(message.get("content")),
        reasoning=reasoning if isinstance(reasoning, str) else "",
        calls=tuple(_call(call) for call in _list(message, "tool_calls")),
        sampled=sampled,
    )


def _content(content: object) -> str:
    """The text of a message, with a placeholder for any other content: `[image_url]`."""
    if isinstance(content, str):
        return content
    texts = []
    for item in content if isinstance(content, list) else ():
        text = item if isinstance(item, str) else _table(item).get("text")
        texts.append(text if isinstance(text, str) else f"[{_name(_table(item).get('type')) or '…'}]")
    return "\n".join(texts)


def _call(call: object) -> ToolCall:
    """Reads a call as prime-rl writes it, as OpenAI does, or as JSON inside a text, as older verifiers
    did.
    """
    if isinstance(call, str):
        try:
            call = json.loads(call)
        except (ValueError, RecursionError):
            return ToolCall("?", str(call))
    table = _table(call, "function") or _table(call)
    arguments = table.get("arguments")
    arguments_text = (
        arguments if isinstance(arguments, str) else "" if arguments is None else _as_json(arguments)
    )
    return ToolCall(_name(table.get("name")) or "?", arguments_text)


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _table(value: object, *keys: str) -> Mapping[str, Any]:
    """The mapping at `keys` in `value`; an empty one if there is something else."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _list(value: object, key: str) -> list[Any]:
    items = value.get(key) if isinstance(value, Mapping) else None
    return items if isinstance(items, list) else []


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 31 else bounded(_number(value))


def _name(value: object) -> str:
    """A name or an id, truncated if it is too long for one."""
    if type(value) is str:
        return value if len(value) <= _LONGEST_NAME else value[:_LONGEST_NAME]
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return str(value)[:_LONGEST_NAME]
