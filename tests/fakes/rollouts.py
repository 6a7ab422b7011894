"""Rollouts on the disk as each generation leaves them, made by the documented formats."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

T0 = 1_790_000_000.0


def flat_row(example: int, number: int, reward: float, **more: Any) -> dict[str, Any]:
    """A row of prime-rl in spring 2026 (`train_rollouts.jsonl`)."""
    return {
        "example_id": example,
        "env_name": "reverse-text",
        "task": "reverse-text",
        "prompt": [{"role": "user", "content": f"Reverse: word{example}"}],
        "completion": [{"role": "assistant", "content": f"answer {number} of {example}"}],
        "answer": f"{example}drow",
        "reward": reward,
        "metrics": {"lcs": reward},
        "advantage": reward - 0.5,
        "is_truncated": number == 3,
        "stop_condition": "max_output_tokens" if number == 3 else None,
        "error": None,
        "token_usage": {"input_tokens": 12.0, "output_tokens": 30.0 + number},
    } | more


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_flat_run(run: Path, steps: Iterable[int] = (1, 2, 3), *, root: str = "rollouts") -> None:
    """Four groups of four a step; the last one of a step has no spread."""
    for step in steps:
        rows = [
            flat_row(example, number, 1.0 if example == 3 else (number + step) / 10, step=step)
            for example in range(4)
            for number in range(4)
        ]
        write_lines(run / root / f"step_{step}" / "train_rollouts.jsonl", rows)


def node(role: str, content: object, parent: int | None, **message: Any) -> dict[str, Any]:
    sampled = role == "assistant"
    document: dict[str, Any] = {
        "message": {"role": role, "content": content} | message,
        "sampled": sampled,
        "timestamp": T0,
        "token_ids": [1, 2, 3] if not sampled else [4, 5],
    }
    return document if parent is None else document | {"parent": parent}


def trace(name: str, nodes: Sequence[Mapping[str, Any]], reward: float | None, **more: Any) -> dict[str, Any]:
    rewards = {} if reward is None else {"lcs": {"score": reward * 2, "weight": 0.5}, "style": None}
    return {
        "id": name,
        "version": 1,
        "agent": {"name": "agent", "trainable": True},
        "nodes": list(nodes),
        "calls": [
            {"node": 1, "model": "m", "finish_reason": "stop",
             "usage": {"prompt_tokens": 11, "completion_tokens": 7}, "time": {"start": 0, "end": 1}},
        ],
        "rewards": rewards,
        "metrics": {"length": 5},
        "info": {},
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
    } | more  # fmt: skip


def episode(
    number: int, reward: float, *, group: str = "g1", task: str = "t1", **more: Any
) -> dict[str, Any]:
    """An episode whose dialogue has one turn."""
    nodes = [
        node("system", "You reverse text.", None),
        node("user", f"Reverse: {task}", 0),
        node("assistant", f"answer {number} to {task}", 1, reasoning_content="let me think"),
    ]
    document = {
        "id": f"e{number}",
        "env": {"id": "reverse-text", "name": "reverse-text"},
        "task": {"type": "Task", "data": {"answer": task[::-1]}, "key": task, "hash": f"hash-{task}"},
        "group": {"id": group},
        "run": {"type": "train", "work": {"type": "train", "step": 1, "policy": {"start": 0, "end": 1}}},
        "ok": True,
        "errors": [],
        "traces": [trace(f"tr{number}", nodes, reward)],
    }
    return document | more


def write_episode_run(run: Path, steps: Iterable[int] = (1, 2)) -> None:
    """Write files as prime-rl in August 2026: `effective` has the advantages, `all` what was left out as
    well.
    """
    for step in steps:
        every = [
            episode(100 * step + index, index / 8, group=f"g{index // 4}", task=f"t{index // 4}")
            for index in range(8)
        ]
        write_lines(run / f"rollouts/step_{step}/train/all/traces.jsonl", every)
        for item in every:
            item["traces"][0]["info"] = {"advantage": 0.25}
        write_lines(run / f"rollouts/step_{step}/train/effective/traces.jsonl", every[:6])
        write_lines(run / f"rollouts/step_{step}/eval/all/traces.jsonl", every[:2])


def tool_episode() -> dict[str, Any]:
    """Two agents, a branch, tools, an image, text that would like to act on the terminal."""
    nodes = [
        node("user", [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {}}], None),
        node("assistant", "", 0, tool_calls=[{"id": "c1", "name": "run", "arguments": '{"code": "1+1"}'}]),
        node("tool", "2\x1b]0;owned\x07\x1b[2J [red]not markup[/red]", 1),
        node("assistant", "It is 2 \u202ereversed", 2),
        node("assistant", "another way", 1),
    ]
    judge = trace("judge", [node("user", "Is it right?", None), node("assistant", "yes", 0)], None)
    judge["agent"] = {"name": "judge", "trainable": False}
    document = episode(7, 0.5, errors=[{"type": "ToolError", "message": "it broke"}], ok=False)
    return document | {"traces": [trace("t7", nodes, 1.0, stop_condition="max_turns"), judge]}


def index_row(
    line: int, record: Mapping[str, Any], chunk: int, offset: int, arrival: float, **more: Any
) -> dict[str, Any]:
    """A row of the index, as the file monitor writes it."""
    return {
        "cost": None,
        "line": line,
        "offset": offset,
        "id": record["id"],
        "kind": "train",
        "trace_ids": [trace["id"] for trace in record["traces"]],
        "env": record["env"]["name"],
        "group": record["group"]["id"],
        "ok": record["ok"],
        "num_errors": len(record["errors"]),
        "reward": sum(
            trace["score"] * trace["weight"] for trace in record["traces"][0]["rewards"].values() if trace
        ),
        "advantage": None,
        "input_tokens": 11,
        "output_tokens": 7,
        "turns": 1,
        "branches": 1,
        "stop_condition": "agent_completed",
        "truncated": False,
        "dispatch": arrival - 4,
        "arrival": arrival,
        "duration": 4.0,
        "chunk": chunk,
    } | more  # fmt: skip


def annotation(name: str, step: int, time: float, *, advantage: float = 0.25) -> dict[str, Any]:
    """Annotation of an episode's trace, once a batch took it."""
    info = {"effective": True, "ship": {"step": step, "time": time}, "advantage": advantage}
    return {"trace_id": name, "chunk": 0, "offset": 0, "info": info}


def seekable(data: bytes, frame_bytes: int) -> bytes:
    """Zstandard's seekable format: frames, and a skippable one that lists their sizes."""
    frames = [
        (
            zstandard.ZstdCompressor(level=3).compress(data[start : start + frame_bytes]),
            data[start : start + frame_bytes],
        )
        for start in range(0, len(data), frame_bytes)
    ]
    table = b"".join(struct.pack("<II", len(packed), len(plain)) for packed, plain in frames)
    table += struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    return b"".join(packed for packed, _ in frames) + struct.pack("<II", 0x184D2A5E, len(table)) + table


class StreamWriter:
    """Writes as prime-rl since September 2026: a stream, its index, and later annotations of the
    orchestrator.
    """

    def __init__(self, run: Path) -> None:
        self.folder = run / "monitors/file/traces"
        (self.folder / "stream").mkdir(parents=True)
        (self.folder / "annotations").mkdir()
        self.chunk = 0
        self.lines = 0

    @property
    def live_chunk(self) -> Path:
        return self.folder / f"stream/{self.chunk:05d}.jsonl"

    def arrive(self, record: Mapping[str, Any], time: float, **more: Any) -> None:
        self.lines += 1
        kind, dispatch = more.get("kind", "train"), more.get("dispatch", time - 4)
        stamps = {
            "kind": kind,
            "dispatch": {"step": 0, "time": dispatch},
            "arrival": {"step": 0, "time": time},
        }
        first, *traces = record["traces"]
        record = {**record, "traces": [{**first, "info": stamps}, *traces]}
        offset = self.live_chunk.stat().st_size if self.live_chunk.exists() else 0
        self._append(self.live_chunk, record)
        self._append(
            self.folder / "stream.index.jsonl",
            index_row(self.lines, record, self.chunk, offset, time, **more),
        )

    def ship(self, names: Iterable[str], step: int, time: float) -> None:
        for name in names:
            self._append(self.folder / "annotations/orch.index.jsonl", annotation(name, step, time))

    def seal(self, frame_bytes: int = 1000, *, is_seekable: bool = True) -> None:
        data = self.live_chunk.read_bytes()
        packed = seekable(data, frame_bytes) if is_seekable else zstandard.ZstdCompressor().compress(data)
        self.live_chunk.with_name(f"{self.live_chunk.name}.zst").write_bytes(packed)
        self.live_chunk.unlink()
        self.chunk += 1

    def delta(self, name: str, row: Mapping[str, Any]) -> None:
        (self.folder / "live").mkdir(exist_ok=True)
        self._append(self.folder / f"live/{name}.jsonl", {"trace": name, **row})

    def _append(self, path: Path, row: Mapping[str, Any]) -> None:
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def write_stream_run(run: Path, steps: int = 3, size: int = 8) -> StreamWriter:
    """Each step takes all but the last one of what came in. Step 2 is sealed. An evaluation behind step 1."""
    writer = StreamWriter(run)
    for step in range(1, steps + 1):
        started_at = T0 + 100 * step
        records = [
            episode(1000 * step + index, index / size, group=f"s{step}g{index // 4}", task=f"t{index // 4}")
            for index in range(size)
        ]
        for index, record in enumerate(records):
            writer.arrive(record, started_at + index)
        writer.ship([record["traces"][0]["id"] for record in records[:-1]], step, started_at + 50)
        if step == 1:
            writer.arrive(
                episode(9001, 0.5, group="ev"), started_at + 60, kind="eval", dispatch=started_at + 55
            )
        if step < steps:
            writer.seal()
    return writer


def write_old_evaluation(folder: Path) -> Path:
    """Saved by `vf-eval -s` before 0.4; tool calls are JSON inside a text there."""
    run = folder / "outputs/evals/gsm8k--gpt-4.1-mini/1a2b3c4d"
    rows = [
        {
            "example_id": index // 3,
            "prompt": [{"role": "user", "content": f"What is {index // 3}+1?"}],
            "completion": [
                {"role": "assistant", "content": None, "tool_calls": ['{"name": "add", "arguments": "{}"}']},
                {"role": "tool", "content": "1", "tool_call_id": "x"},
                {"role": "assistant", "content": f"It is {index // 3 + 1}."},
            ],
            "task": "gsm8k",
            "answer": str(index // 3 + 1),
            "reward": float(index % 2),
            "generation_ms": 12.5,
            "info": {},
        }
        for index in range(6)
    ]
    rows[2]["completion"] = []  # of a prompt that was too long for the server, without an error
    write_lines(run / "results.jsonl", rows)
    (run / "metadata.json").write_text(json.dumps({"env_id": "gsm8k", "model": "gpt-4.1-mini"}))
    return run


def write_new_evaluation(folder: Path) -> Path:
    """Write results as `vf-eval` 0.4 saves them."""
    run = folder / "outputs/gsm8k--gpt-4.1-mini--single--1a2b3c4d"
    write_lines(
        run / "traces.jsonl", [episode(index, index % 2, group=f"g{index // 2}") for index in range(4)]
    )
    return run
