"""What `--slurm` would submit, seen without a cluster."""

from __future__ import annotations

import pytest
from tests.conftest import Box

from rltui import paths

pytestmark = pytest.mark.tmux


@pytest.fixture
def here(box: Box) -> Box:
    for name in ("rl.toml", "sft.toml"):
        source = paths.shipped_dir("examples") / "reverse_text" / name
        (box.work / name).write_text(source.read_text())
    return box


def test_dry_run_prints_scripts_and_leaves_nothing(here: Box) -> None:
    options = ("--partition", "gpu", "--time=2:00:00", "--gpus", "1", "--slurm-option=--constraint=h200")
    done = here.run("up", "rl.toml", "--slurm", *options, "-o", "out", "-n", "a", "--plan")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("#SBATCH --partition=gpu\n#SBATCH --time=2:00:00\n") == 2
    assert "#SBATCH --job-name=a-sft\n" in done.stdout
    assert "#SBATCH --gpus-per-node=1\n#SBATCH --constraint=h200\n" in done.stdout
    assert f"# rl: sbatch --parsable {here.work}/out/.rltui/components/rl/attempt-1/job.sh\n" in done.stdout
    assert "nothing was submitted" in done.stderr
    assert not (here.work / "out").exists()

    for line, words in (
        ("rl.toml --partition gpu", "job options need --slurm"),
        ("rl.toml --slurm -l tinyrl", "tinyrl.toml: no component runs as a SLURM job"),
        ("rl.toml --slurm --slurm-option=--output=x --plan", "which rltui sets itself"),
    ):
        refused = here.run("up", *line.split())
        assert refused.returncode in (2, 3), line
        assert words in refused.stderr


def test_only_jobs_can_be_an_array_and_each_run_one_of_them(here: Box) -> None:
    sweep = ("sweep", "rl.toml", "seed=1,2", "--array")
    assert "--array needs SLURM jobs\n→ add --slurm\n" in here.run(*sweep).stderr
    assert "each run is 2 jobs: sft and rl; " in here.run(*sweep, "--slurm").stderr
    (here.work / "outputs/reverse-text-sft").mkdir(parents=True)
    (here.work / "outputs/reverse-text-sft/config.json").touch()
    listed = here.run(*sweep, "--slurm", "--plan")
    assert "2 runs, nothing was queued" in listed.stdout, listed.stderr
    assert not here.json("queue")["entries"]
