"""Evaluations on disk: figures from samples of both generations of vf-eval, progress, the queue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rltui.core.runs.evals import EvalRequest, Evaluation, QueuedEval
from rltui.services.experiment.files import ControlFolder
from rltui.services.runs.evaluations import EvalFolder, EvalQueue, finished_rollouts, read_results


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def flat(example: int, reward: float, *, error: str | None = None, cut: bool = False) -> dict[str, Any]:
    """As vf-eval 0.1.9 saves it, with the columns that it is asked for."""
    return {
        "example_id": example,
        "prompt": [{"role": "user", "content": f"reverse {example % 2}"}],
        "completion": [{"role": "assistant", "content": "x"}],
        "task": "reverse-text",
        "reward": reward,
        "error": error,
        "is_truncated": cut,
        "stop_condition": None,
    }


def episode(task: str, reward: float, *, is_ok: bool = True) -> dict[str, Any]:
    """As vf-eval 0.4 does."""
    return {
        "id": f"{task}{reward}",
        "ok": is_ok,
        "task": {"key": task},
        "env": {"id": "reverse-text"},
        "group": {"id": task},
        "traces": [
            {
                "task": {"key": task},
                "rewards": {"lcs": {"score": reward, "weight": 1.0}},
                "nodes": [
                    {"parent": None, "message": {"role": "user", "content": f"reverse {task}"}},
                    {"parent": 0, "sampled": True, "message": {"role": "assistant", "content": "x"}},
                ],
                "calls": [{"finish_reason": "stop", "usage": {"prompt_tokens": 31, "completion_tokens": 4}}],
            }
        ],
    }


def test_results_of_vf_eval_are_measured_by_their_prompts(tmp_path: Path) -> None:
    place = tmp_path / "reverse_text/outputs/evals/reverse-text--m/1a2b3c4d/results.jsonl"
    write_rows(place, [flat(0, 0.2), flat(1, 0.8), flat(2, 0.4), flat(1, 0.0, error="E", cut=True)])
    found, folder = read_results(tmp_path)
    assert folder == place.parent
    assert (found.rollouts, found.failed, found.truncated) == (4, 1, 1)
    assert sorted(found.rewards.values()) == pytest.approx([0.3, 0.4]), "0 and 2 ask the same"
    assert finished_rollouts(tmp_path, None, EvalRequest()) == 4


def test_episodes_of_vf_eval_0_4_are_measured_too(tmp_path: Path) -> None:
    place = tmp_path / "reverse-text--m--null--1a2b3c4d/traces.jsonl"
    write_rows(place, [episode("a", 0.5), episode("b", 1.0), episode("b", 0.0, is_ok=False)])
    found, folder = read_results(tmp_path)
    assert folder == place.parent
    assert (found.rollouts, found.examples, found.failed, found.input_tokens) == (3, 2, 1, 31)
    assert found.mean == pytest.approx(0.5)


def test_nothing_and_garbage_are_no_results(tmp_path: Path) -> None:
    assert read_results(tmp_path)[0].rollouts == 0
    write_rows(tmp_path / "x/results.jsonl", [])
    (tmp_path / "x/results.jsonl").write_bytes(b"\x00\xff{not json\n[]\n")
    assert read_results(tmp_path)[0].mean is None


@pytest.mark.parametrize(
    ("printed", "done"),
    [
        (b"Processing 60 rollouts:  40%|###  | 24/60 [00:03<00:21]\rProcessing 60 rollouts: 25/60", 25),
        (b"Processing 20 groups (60 total rollouts):  5%| 1/20 [00:03<00:21]", 3),
        (b"loaded 12/48 shards, 2026/11/22", 0),
        (b"", 0),
    ],
)
def test_progress_is_read_from_what_is_printed(tmp_path: Path, printed: bytes, done: int) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"x" * 20_000 + printed)
    assert finished_rollouts(tmp_path, log, EvalRequest()) == done
    assert finished_rollouts(tmp_path, tmp_path / "none", EvalRequest()) == 0


def test_records_and_the_queue_are_kept(tmp_path: Path) -> None:
    folder = EvalFolder(ControlFolder(tmp_path))
    assert folder.report("one").evaluations == ()
    queued = QueuedEval(id=folder.new(EvalQueue()), request=EvalRequest(env="e"))
    queue = EvalQueue(waiting=(queued,), every=2)
    folder.save_queue(queue)
    assert EvalFolder(ControlFolder(tmp_path)).queue() == queue
    assert folder.new(queue) == "2"
    first = folder.results("1")
    (first / "left").touch()
    assert folder.results("1") != first, "a second try does not mix with the first"
    told = Evaluation(
        id="1", at=1.0, experiment="one", kind="now", label="now", env="e", num_examples=1, rollouts=1,
        rollouts_per_example=1, verdict="ok", mean=0.5,
    )  # fmt: skip
    folder.save(told)
    folder.save(told.replace(id="12"))
    assert [each.id for each in folder.ended()] == ["1", "12"]
    assert folder.new(EvalQueue()) == "13"
    report = EvalFolder(ControlFolder(tmp_path)).report("one")
    assert (report.evaluations[0], report.queue, report.every) == (told, (queued,), 2)


def test_damaged_files_are_left_out(tmp_path: Path) -> None:
    folder = EvalFolder(ControlFolder(tmp_path))
    folder.save_queue(EvalQueue(every=2))
    (folder.path / "queue.json").write_text("[")
    (folder.path / "3").mkdir()
    (folder.path / "3/evaluation.json").write_text('{"id": 3')
    assert folder.queue() == EvalQueue()
    assert folder.ended() == ()
