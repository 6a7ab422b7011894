"""vf-rl's two programs, owned directly, on stand-ins for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.vf_rl import make_project
from tests.waiting import retry_until

from rltui.cli import main

SEED = (Path(__file__).parents[1] / "data/verifiers/reverse-text.toml").read_text()


@pytest.mark.e2e
@pytest.mark.tmux
@pytest.mark.slow
def test_a_run_from_its_start_to_another_start(box: Box) -> None:
    make_project(box.work)
    (box.work / "vf.toml").write_text(SEED.replace("max_steps = 100", "max_steps = 9\nsave_steps = 4"))
    # no uv: the programs of the project's environment are run
    box.env["PATH"] = "/usr/bin:/bin"
    started = box.run("up", "vf.toml", "-n", "one")
    assert started.returncode == 0, started.stderr
    final_status = retry_until(
        lambda: (status := box.json("status", "one"))["step"] == 9 and status, timeout_s=30
    )
    assert final_status["reward"] == 0.09
    states = {component["id"]: component["state"] for component in final_status["components"]}
    assert (states["environment"], states["inference"]) == ("exited", "ready")
    folder = box.work / "outputs/reverse-text"
    assert '"output_dir": "' + str(folder) in box.run("logs", "one", "-c", "trainer").stdout
    assert {path.name for path in folder.glob("checkpoint-*")} == {"checkpoint-4", "checkpoint-8"}
    # Finding S7: samples are in the log alone, which is said; adapters are listed, and can be published.
    for command in (["rollouts", "one"], ["rollouts", "one", "--worst", "3"]):
        none = box.run(*command)
        assert (none.returncode, "its samples are in the trainer's log" in none.stderr) == (2, True)
    checkpoints = box.json("checkpoints", "one")["checkpoints"]
    assert all("adapters" in component["parts"] for component in checkpoints), checkpoints
    upload = box.json("checkpoints", "upload", "one", "8", "alice/m", "--plan")
    assert upload["files"] == ["adapter_config.json", "adapter_model.safetensors", "trainer_state.json"]
    refusal = box.run("checkpoints", "use", "one", "8", "--config", "vf.toml")
    assert (refusal.returncode, "holds adapters (adapter_config.json)" in refusal.stderr) == (3, True)
    plan = box.json("restart", "one", "-c", "trainer", "--plan")
    assert plan["start"] == ["inference", "trainer"]
    assert any("vf-train cannot resume from a checkpoint" in reason for reason in plan["reasons"])
    assert [component["steps"] for component in plan["archived"]] == [[4, 8]]
    refusal = box.run("restart", "one", "-c", "trainer", "--from", "8", "--yes")
    assert "cannot resume from checkpoint 8" in refusal.stderr + refusal.stdout
    assert box.run("down", "one").returncode == 0


def test_check_says_that_what_is_installed_has_no_vf_rl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path / "lab", version="0.4.0")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(project)
    (project / "vf.toml").write_text(SEED)
    assert main(["check", "--no-own", "vf.toml"]) == 0
    out = capsys.readouterr().out
    assert "verifiers 0.4.0 has no vf-rl: it was removed in July 2026" in out
    assert "rltui convert --to prime-rl FILE" in out
    assert "cannot start here: verifiers 0.4.0 has no vf-rl" in out


def test_convert_writes_a_new_file_and_never_over_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLTUI_PRIME_RL", raising=False)
    (tmp_path / "vf.toml").write_text(SEED)
    assert main(["convert", "--to", "prime-rl", "vf.toml", "--yes"]) == 0
    output = capsys.readouterr()
    assert "+group_size = 16" in output.out
    assert "note: micro_batch_size has no counterpart" in output.err
    assert main(["check", "--no-own", "vf.prime-rl.toml"]) == 0
    assert main(["convert", "--to", "prime-rl", "vf.toml", "--yes"]) == 4
    assert "exists already" in capsys.readouterr().err
    assert main(["convert", "tokens", "--output", "x"]) == 2
    assert main(["convert", "--to", "generic", "vf.toml"]) == 3
