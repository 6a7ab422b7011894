"""The four programs together, as processes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.tinyrl.conftest import Start, free_port
from tests.waiting import retry_until

from rltui.tinyrl.files import BASE_NAME
from rltui.tinyrl.model import load_model

EXAMPLES = Path(__file__).parents[2] / "examples" / "reverse_text"


def rows(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def rewards(folder: Path) -> dict[int, float]:
    key = "train/agg/effective/agent/reward/mean"
    return {int(row["step"]): row[key] for row in rows(folder) if key in row}


def finish(*processes: subprocess.Popen[str], timeout: float) -> None:
    for process in processes:
        assert process.wait(timeout=timeout) == 0


def config_words(tiny_model: Path, port: int, max_steps: int) -> list[str]:
    text = (
        f"max_steps = {max_steps}\noutput_dir = 'out'\n[model]\nname = '{tiny_model}'\n[ckpt]\ninterval = 2\n"
        f"[orchestrator]\nbatch_size = 16\nrollouts_per_example = 4\n[inference.server]\nport = {port}\n"
    )
    Path("rl.toml").write_text(text)
    return ["@", "rl.toml"]


@pytest.mark.slow
def test_stop_resume_and_stale_files(
    start: Start, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = config_words(tiny_model, free_port(), max_steps=1000)
    out = tmp_path / "out"
    inference = start("inference", *words)
    first = [start(name, *words, log=f"{name}-1") for name in ("trainer", "orchestrator")]
    retry_until(lambda: (out / "checkpoints" / "step_4" / "STABLE").exists(), timeout_s=60)
    for process in first:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(timeout=10) for process in first] == [143, 143]
    reached = max(rewards(out))
    assert reached >= 4

    # inference lives on with the stopped run's weights, and that run's files lie about
    resumed = [*words, "--ckpt.resume-step", "2", "--max-steps", "4"]
    finish(*(start(name, *resumed, log=f"{name}-2") for name in ("trainer", "orchestrator")), timeout=60)
    steps = [int(row["step"]) for row in rows(out) if "loss/mean" in row]
    assert steps[-2:] == [3, 4]
    assert sorted(path.name for path in (out / "rollouts").iterdir()) == [f"step_{n}" for n in (1, 2, 3, 4)]
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["step_2", "step_4"]
    assert (out / "weights" / "step_4" / "config.json").exists()
    assert not list(out.rglob("*.partial-*"))
    superseded = {path.name for path in out.glob("superseded/*/*/*")}
    assert {"step_3", "step_4"} <= superseded

    lines = (out / "rollouts" / "step_4" / "train_rollouts.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 16
    assert [record["example_id"] for record in records] == [n for n in (12, 13, 14, 15) for _ in range(4)]
    assert {record["policy_version"] for record in records} <= {2, 3}
    assert records[0]["answer"] == records[0]["prompt"][0]["content"][::-1]

    inference.send_signal(signal.SIGINT)
    assert inference.wait(timeout=10) == 0
    for log in tmp_path.glob("*.log"):
        assert "Traceback" not in log.read_text(), log.name
    assert "Resuming training from checkpoint step 2" in (tmp_path / "orchestrator-2.log").read_text()
    assert "RL trainer finished!" in (tmp_path / "trainer-2.log").read_text()


@pytest.mark.slow
def test_sft_writes_the_model_only_when_done(start: Start, tmp_path: Path) -> None:
    words = ["sft", "--output-dir", "model", "--data.batch-size", "8", "--data.micro-batch-size", "4"]
    interrupted = start(*words, "--max-steps", "100000", log="interrupted")
    retry_until(lambda: "Step 3 |" in (tmp_path / "interrupted.log").read_text(), timeout_s=60)
    interrupted.send_signal(signal.SIGTERM)
    assert interrupted.wait(timeout=10) == 143
    assert sorted(path.name for path in tmp_path.iterdir()) == ["interrupted.log"]
    finish(start(*words, "--max-steps", "2"), timeout=60)
    assert (tmp_path / "model" / "config.json").exists()
    before, after = (load_model(tmp_path / "model" / name) for name in (BASE_NAME, ""))
    assert before.state_dict().keys() == after.state_dict().keys()
    assert any((before.state_dict()[name] != each).any() for name, each in after.state_dict().items())
    text = (tmp_path / "sft.log").read_text()
    assert "SFT trainer finished!" in text
    assert "Traceback" not in text + (tmp_path / "interrupted.log").read_text()


@pytest.mark.slow
def test_sft_goes_on_with_a_loss_that_is_no_number(start: Start, tmp_path: Path) -> None:  # F11
    sizes = ["--data.batch-size", "8", "--data.micro-batch-size", "4", "--scheduler.warmup-steps", "0"]
    words = ["sft", "--output-dir", "model", *sizes, "--max-steps", "6", "--optim.lr", "1e30"]
    finish(start(*words), timeout=60)
    assert "non-finite value(s) from step" in (tmp_path / "sft.log").read_text()
    rows = [json.loads(line) for line in (tmp_path / "model" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert "loss/mean" not in rows[-1]


@pytest.mark.slow
def test_token_batches_in_turns_and_a_lost_server(
    start: Start, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        *config_words(tiny_model, free_port(), max_steps=1000), "--orchestrator.batch-size", "None",
        "--orchestrator.token-batch-size", "400", "--orchestrator.max-inflight-rollouts", "12",
        "--max-async-level", "0",
    ]  # fmt: skip
    out = tmp_path / "out"
    inference = start("inference", *words)
    running = [start(name, *words) for name in ("trainer", "orchestrator")]
    retry_until(lambda: (out / "checkpoints" / "step_2" / "STABLE").exists(), timeout_s=60)
    inference.kill()
    inference.wait()
    retry_until(lambda: "was lost" in (tmp_path / "orchestrator.log").read_text(), timeout_s=30)
    reached = max(rewards(out))
    start("inference", *words, log="inference-2")
    retry_until(lambda: max(rewards(out)) >= reached + 3, timeout_s=60)
    for process in running:
        process.send_signal(signal.SIGINT)
    assert [process.wait(timeout=10) for process in running] == [130, 130]
    tokens = {int(row["step"]): row["progress/tokens"] for row in rows(out) if "progress/tokens" in row}
    assert all(400 <= count < 500 for count in tokens.values())
    for path in (out / "rollouts").glob("step_*/train_rollouts.jsonl"):
        step = int(path.parent.name.removeprefix("step_"))
        versions = {json.loads(line)["policy_version"] for line in path.read_text().splitlines()}
        assert max(versions) <= step - 1
    assert (tmp_path / "orchestrator.log").read_text().count("was lost") == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_example_learns_to_reverse(start: Start, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    finish(start("sft", "@", str(EXAMPLES / "sft.toml")), timeout=120)
    words = ["@", str(EXAMPLES / "rl.toml"), "--inference.server.port", str(free_port()), "--max-steps", "60"]
    start("inference", *words)
    finish(*(start(name, *words) for name in ("trainer", "orchestrator")), timeout=150)
    out = tmp_path / "outputs" / "reverse-text"
    curve = rewards(out)
    assert list(curve) == list(range(1, 61))
    assert 0.3 <= curve[1] <= 0.65
    assert sum(curve[step] for step in range(56, 61)) / 5 >= 0.9

    folder = out / "weights" / "step_60"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    right = 0
    for text in ("hello", "brown", "planet", "engine", "foxes"):
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        answer = model.generate(**prompt, max_new_tokens=16, do_sample=False)[
            0, prompt["input_ids"].shape[1] :
        ]
        right += tokenizer.decode(answer, skip_special_tokens=True) == text[::-1]
    assert right >= 4
    assert re.search(r"Generating rollouts \(train\): 100%", (tmp_path / "orchestrator.log").read_text())
