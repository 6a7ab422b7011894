"""The real `medarc_train` under rltui, with stand-ins for what needs a GPU.

`make_med_lm_train.py` says how to get it, and what of it is real.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.primerl, pytest.mark.e2e, pytest.mark.tmux, pytest.mark.timeout(600)]

VARIABLE = "RLTUI_MED_LM_TRAIN"
PARTS = {"inference", "orchestrator", "trainer"}


@pytest.fixture(params=["works", "published", "fork"])
def checkout(request: pytest.FixtureRequest, box: Box) -> Path:
    folder = Path(os.environ.get(VARIABLE, os.devnull)).absolute() / str(request.param)
    if not (folder / ".venv/bin/medarc_train").exists():
        pytest.skip(f"{VARIABLE} names no folder as make_med_lm_train.py makes it")
    box.env["RLTUI_MEDARC"] = str(folder)
    box.env["PATH"] = f"{folder / 'tools'}{os.pathsep}{box.env['PATH']}"
    box.env["STANDIN_STEP_S"] = "0.05"
    for name in ("rl_single", "sft"):
        text = (folder / f"examples/reverse_text/{name}.toml").read_text()
        text = text.replace("flash_attention_3", "sdpa").replace("[ckpt]", "[ckpt]\ninterval = 2")
        text = text.replace("max_steps = 20", "max_steps = 2000").replace(
            "max_steps = 100", "max_steps = 2000"
        )
        (box.work / f"{name}.toml").write_text(text)
    return folder


def step(box: Box, name: str = "one") -> int:
    return int(box.json("status", name)["step"] or 0)


def test_its_own_models_take_the_files_of_the_tutorial(box: Box, checkout: Path) -> None:
    assert box.run("trust", str(checkout)).returncode == 0
    for name in ("rl_single.toml", "sft.toml"):
        found = box.json("check", name)
        assert found["valid"], found["problems"]
        assert found["framework"] == "medarc"
        assert not any("could not be asked" in each["message"] for each in found["problems"])


def test_pasted_line_runs_by_parts(box: Box, checkout: Path) -> None:
    """As in the tutorial, with overrides; the published pin, whose launcher is broken, runs like this too."""
    if checkout.name == "fork":
        pytest.skip("the stand-ins of its programs do not know all keys of that month")
    line = "medarc_train rl rl_single.toml --single-gpu --output-dir out --max-steps 1000"
    done = box.run("up", *line.split(), "-n", "one")
    assert done.returncode == 0, done.stderr
    status = box.json("status", "one")
    assert {each["id"] for each in status["components"]} == PARTS
    assert status["max_steps"] == 1000
    retry_until(lambda: step(box) >= 4, timeout_s=60)
    assert box.run("restart", "one", "-c", "trainer", "--yes").returncode == 0
    assert box.run("down", "one").returncode == 0


def test_launcher_runs_resumes_and_leaves_nothing(box: Box, checkout: Path) -> None:
    up = box.run("up", "rl_single.toml", "-l", "medarc-train", "-n", "one", "-o", "out")
    if checkout.name == "published":
        assert up.returncode == 3
        assert "dump_config" in up.stderr
        assert not (box.work / "out").exists()
        return
    assert up.returncode == 0, up.stderr
    launcher = (box.work / "out/.rltui/components/rl/attempt-1/spec.json").read_text()
    assert ('"--config"' in launcher) == (checkout.name == "fork")
    if checkout.name == "works":
        retry_until(lambda: step(box) >= 6, timeout_s=60)
        assert box.run("restart", "one", "-c", "rl", "--yes", "--wait").returncode == 0
        made = (box.work / "out/configs/trainer.toml").read_text()
        assert "resume_step = " in made
    assert box.run("down", "one").returncode == 0
    assert not left_behind(box)


def left_behind(box: Box) -> list[str]:
    """Processes that name the folder of the run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(box.work / "out") in command:
            found.append(command)
    return found


def test_sft_by_itself_and_by_the_launcher(box: Box, checkout: Path) -> None:
    if checkout.name == "fork":
        pytest.skip("the stand-ins of its programs do not know all keys of that month")

    def has_begun() -> bool:
        return step(box, layout) >= 2

    # The stand-in of `sft` does not know what the launcher of the published pin dumps.
    for layout in ("medarc-sft", "medarc-train-sft")[: 1 if checkout.name == "published" else 2]:
        up = box.run("up", "sft.toml", "-l", layout, "-n", layout, "-o", layout)
        assert up.returncode == 0, up.stderr
        retry_until(has_begun, timeout_s=60)
        assert box.run("down", layout).returncode == 0
