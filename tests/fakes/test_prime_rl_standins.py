"""The stand-ins of prime-rl behave like the originals where it hurts: the traps do hang."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.prime_rl.examples import write_sft_example
from tests.fakes.prime_rl.generation import GENERATIONS, NAMES, Name
from tests.fakes.prime_rl.http_client import post
from tests.fakes.prime_rl.running import Running, environment_of, prepare
from tests.waiting import retry_until

Prepare = Callable[..., Running]
pytestmark = pytest.mark.slow
"""The tests in `tests/e2e` that use the stand-ins run by default."""

HUNG_S = 1.0
"""Twenty steps' time: who has made none by then hangs."""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Prepare]:
    runs: list[Running] = []

    def make(generation: Name, **values: Any) -> Running:
        runs.append(prepare(tmp_path, generation, **values))
        return runs[-1]

    yield make
    for run in runs:
        run.end()


def launch(run: Running, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`uv run rl …` on the example."""
    files = [
        "--trainer",
        "@",
        "train.toml",
        "--orchestrator",
        "@",
        "orch.toml",
        "--inference",
        "@",
        "infer.toml",
    ]
    config_arguments = files if run.generation == "A1" else ["@", "rl.toml"]
    return subprocess.run(
        ["uv", "run", "--project", str(run.programs.parents[1]), "rl", *config_arguments, *arguments],
        cwd=run.root,
        env={**environment_of(run.programs), "STANDIN_STEP_S": "0.01"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def assert_no_further_step(run: Running, *programs: str) -> None:
    step_counts = {program: len(run.steps(program)) for program in programs}
    with pytest.raises(TimeoutError):
        retry_until(
            lambda: any(len(run.steps(name)) > count for name, count in step_counts.items()), timeout_s=HUNG_S
        )


def training(run: Running, program: str, step: int) -> Running:
    """All of it was started, and `program` has come to `step`."""
    run.start_all()
    run.wait_for_step(program, step)
    return run


@pytest.mark.parametrize("generation", NAMES)
def test_launched_run_ends_by_itself(made: Prepare, generation: Name) -> None:
    run = made(generation, max_steps=4)
    name = ["--run.name", "one"] if generation == "C" else []
    result = launch(run, *name, "--output-dir", "out" if generation != "B1" else "outputs")
    assert result.returncode == 0, result.stdout + result.stderr
    assert ("Training finished!" if generation == "C" else "RL training finished!") in result.stdout
    out = run.root / ("outputs" if generation == "B1" else "out") / ("one" if generation == "C" else "")
    halves = {path.parent.name for path in out.rglob("checkpoints/step_4/*/*")}
    assert halves == {"trainer", "orchestrator"}
    assert bool(list(out.rglob("checkpoints/step_4/STABLE"))) == (generation in ("B0", "B1"))
    suffix = ".stdout" if generation in ("A1", "B0") else ".log"
    trainer = next(path for path in out.rglob(f"trainer{suffix}") if path.is_file()).read_text()
    assert f"[{GENERATIONS[generation].role}0]:\x1b[2m" in trainer
    first = GENERATIONS[generation].first_step
    assert [int(step_text) for step_text in re.findall(r"Step (\d+) \|", trainer)] == list(
        range(first, first + 4)
    )


def test_last_generation_keeps_the_logs_of_each_attempt(made: Prepare) -> None:
    run = made("C", max_steps=2)
    assert launch(run, "--run.name", "one", "--output-dir", "out").returncode == 0
    second = launch(run, "--run.name", "one", "--output-dir", "out")
    assert second.returncode == 1
    assert "already contains artifacts from a previous run" in second.stderr
    assert (
        launch(run, "--run.name", "one", "--output-dir", "out", "--resume", "--max-steps", "3").returncode
        == 0
    )
    logs = run.root / "out" / "one" / "logs"
    assert sorted(path.name for path in logs.iterdir()) == ["attempt_1", "attempt_2", "latest"]
    assert (logs / "latest").resolve().name == "attempt_2"
    assert "Resuming training from checkpoint step 2" in (logs / "latest" / "trainer.log").read_text()


@pytest.mark.parametrize("generation", ["B1", "C"])
def test_dry_run_deletes_stale_steps_and_with_clean_the_whole_run(made: Prepare, generation: Name) -> None:
    run = made(generation)
    run_default = run.run / ("run_default" if generation == "B1" else "")
    extra = ["--run.name", "one"] if generation == "C" else []
    (run_default / "rollouts" / "step_3").mkdir(parents=True)
    (run.run / "notes.txt").touch()
    resume = ["--resume.step", "2"] if generation == "C" else []
    text = (run.root / "rl.toml").read_text()
    (run.root / "rl.toml").write_text(f'output_dir = "out"\n{text}')
    result = launch(run, *extra, *resume, "--dry-run")
    assert result.returncode == 0, result.stderr
    assert not (run_default / "rollouts" / "step_3").exists()
    assert (run.run / "notes.txt").exists()
    clean = "--clean" if generation == "C" else "--clean-output-dir"
    (run.root / "rl.toml").write_text(f'output_dir = "out"\nclean_output_dir = true\n{text}')
    if generation == "C":
        (run.root / "rl.toml").write_text(f'output_dir = "out"\n{text}')
    assert launch(run, *extra, *([clean] if generation == "C" else []), "--dry-run").returncode == 0
    assert not (run.run / "notes.txt").exists()
    assert sorted(path.stem for path in (run.run / "configs").glob("*.*")) == [
        "inference",
        "orchestrator",
        "trainer",
    ]


def test_dump_of_configs_has_no_side_effects(made: Prepare) -> None:
    run = made("B0")
    stale = run.root / "outputs" / "run_default" / "rollouts" / "step_3"
    stale.mkdir(parents=True)
    assert launch(run, "--dump-config", "dumped").returncode == 0
    assert sorted(path.name for path in (run.root / "dumped").iterdir()) == [
        "inference.toml",
        "orchestrator.toml",
        "trainer.toml",
    ]
    assert stale.exists()
    assert launch(run, "--dry-run").returncode == 2, "an option of its successor"


def test_engine_keeps_its_weights_and_waits_while_paused(made: Prepare) -> None:
    run = made("B1")
    run.start("inference")
    retry_until(lambda: "startup complete" in run.text("inference"))
    base = f"http://localhost:{run.ports.server}"
    post(f"{base}/pause")
    request = threading.Thread(
        target=post, args=(f"{base}/v1/chat/completions", {"messages": []}), daemon=True
    )
    request.start()
    request.join(0.3)
    assert request.is_alive(), "nobody gets an answer from a paused engine"
    post(f"{base}/resume")
    request.join(5)
    assert not request.is_alive()
    folder = run.root / "step_7"
    folder.mkdir()
    post(f"{base}/update_weights", {"weight_dir": str(folder)})
    assert run.weights()["version"] == 7


def test_new_run_of_b_keeps_the_trained_weights_until_the_first_broadcast(made: Prepare) -> None:
    run = training(made("B1", max_steps=100), "trainer", 3)
    run.kill("orchestrator", "trainer")
    trained = run.weights()["version"]
    assert trained > 0
    run.start("orchestrator")
    retry_until(lambda: "Training from scratch" in run.text("orchestrator"))
    assert run.weights()["version"] >= trained


def test_lone_orchestrator_of_c_waits_for_ever(made: Prepare) -> None:
    run = training(made("C", max_steps=1000), "trainer", 3)
    run.restart("orchestrator")
    retry_until(lambda: "inference pool ready" in run.text("orchestrator"))
    assert_no_further_step(run, "orchestrator")
    assert run.steps("orchestrator") == []


def test_lone_orchestrator_of_c_without_the_weight_group_misses_the_ready(made: Prepare) -> None:
    run = training(made("C", max_steps=1000, weight_broadcast={"type": "filesystem"}), "trainer", 3)
    run.restart("orchestrator")
    retry_until(lambda: "Train batch" in run.text("orchestrator"))
    assert_no_further_step(run, "orchestrator")
    assert run.steps("orchestrator") == []


def test_lone_trainer_of_c_waits_for_ever(made: Prepare) -> None:
    run = training(made("C", max_steps=1000), "trainer", 3)
    run.restart("trainer")
    retry_until(lambda: "Initializing weight broadcast" in run.text("trainer"))
    assert_no_further_step(run, "trainer")


def test_restarted_server_of_c_breaks_the_weight_group(made: Prepare) -> None:
    run = training(made("C", max_steps=1000), "trainer", 3)
    run.kill("inference")
    retry_until(lambda: "SUCCESS" in run.text("trainer"))
    run.start("inference")
    retry_until(lambda: "startup complete" in run.text("inference"))
    retry_until(lambda: "update_weights failed" in run.text("orchestrator"))
    assert_no_further_step(run, "trainer")


def test_pair_of_c_restarted_beside_a_warm_server_goes_on(made: Prepare) -> None:
    run = training(made("C", max_steps=1000), "trainer", 3)
    run.kill("orchestrator", "trainer")
    post(f"http://localhost:{run.ports.engine}/resume")
    for marker in run.run.glob("broadcasts/step_*/*"):
        marker.unlink()
    run.start("orchestrator")
    run.start("trainer")
    run.wait_for_step("trainer", 3)
    assert run.processes["inference"].poll() is None


def test_stopped_orchestrator_of_c_leaves_half_a_checkpoint(made: Prepare) -> None:
    run = training(made("C", max_steps=1000, interval=500), "orchestrator", 2)
    run.processes["orchestrator"].send_signal(signal.SIGINT)
    assert run.processes["orchestrator"].wait(10) == 1
    assert "forcing cleanup" in run.text("orchestrator")
    names = [path.name for path in run.run.glob("checkpoints/step_*/*")]
    assert names == ["orchestrator"]


def test_lone_orchestrator_of_a_waits_for_weights_that_are_gone(made: Prepare) -> None:
    run = training(made("A1", max_steps=1000, interval=500), "trainer", 5)
    run.restart("orchestrator")
    retry_until(lambda: "Async barrier active" in run.text("orchestrator"))
    assert_no_further_step(run, "orchestrator")
    assert max(run.steps("orchestrator")) < 3


def test_lone_trainer_of_a_begins_again_at_step_0(made: Prepare) -> None:
    run = training(made("A1", max_steps=1000, interval=500), "trainer", 3)
    run.kill("trainer")
    for file in run.run.glob("rollouts/step_*/*"):
        file.unlink()
    run.start("trainer")
    retry_until(lambda: "Waiting for training batch" in run.text("trainer"))
    assert "Starting training step 0" in run.text("trainer")
    assert_no_further_step(run, "trainer")


@pytest.mark.parametrize("generation", ["A1", "B1"])
def test_resumed_pair_counts_on_from_the_checkpoint(made: Prepare, generation: Name) -> None:
    run = training(made(generation, max_steps=1000, interval=2), "trainer", 5)
    run.kill("orchestrator", "trainer")
    configs = {path.stem: path for path in run.configs.glob("*.toml")}
    for name in ("trainer", "orchestrator"):
        text = configs[name].read_text().replace('["ckpt"]\n', '["ckpt"]\n"resume_step" = 4\n')
        configs[name].write_text(text)
    run.start("orchestrator")
    run.start("trainer")
    run.wait_for_step("trainer", 6)
    assert run.steps("trainer")[0] == 4


def test_out_of_memory_ends_the_trainer_with_torchs_words(made: Prepare) -> None:
    run = made("C", max_steps=1000)
    run.start_all(STANDIN_OOM_AT="trainer:3")
    assert run.processes["trainer"].wait(15) == 1
    assert "torch.OutOfMemoryError: CUDA out of memory" in run.text("trainer")
    assert run.steps("trainer")[-1] == 2


@pytest.mark.parametrize(
    "generation", [*(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[:-1]), "C"]
)
def test_fine_tuning_ends_with_a_checkpoint(tmp_path: Path, made: Prepare, generation: Name) -> None:
    run = made(generation)
    write_sft_example(tmp_path, generation, max_steps=3, interval=2)
    result = subprocess.run(
        ["uv", "run", "sft", "@", str(tmp_path / "sft.toml")],
        cwd=run.programs.parents[1],
        env={**environment_of(run.programs), "STANDIN_STEP_S": "0.01"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "SFT trainer finished!" in result.stdout
    saved = {
        path.parent.parent.name for path in run.programs.parents[1].rglob("outputs/**/trainer/.metadata")
    }
    assert saved == {"step_2", "step_3"}
