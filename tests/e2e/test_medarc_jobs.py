"""`--single-gpu` of a job, by a stand-in for `medarc_slurm` that writes what it was told into its script."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.frameworks.test_medarc import med_lm_train

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

LAUNCHER = """\
#!/bin/sh
told="$*"
while [ "$1" != --output-dir ]; do shift; done
mkdir -p "$2" && printf '#!/bin/sh\\n# told: %s\\n' "$told" > "$2/rl.sh"
"""


def test_a_job_shares_one_gpu_where_its_launcher_can(box: Box) -> None:
    """Finding S3: the job had two GPUs, and the option meant those of this machine."""
    root = med_lm_train(box.work / "med")
    (root / "prime-rl/src/prime_rl/configs/rl.py").write_text("dump_config: Path")  # what it pins works
    launcher = root / ".venv/bin/medarc_slurm"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    config = "med/examples/rl.toml"
    for line in (
        ["up", config, "--slurm", "--single-gpu"],
        ["up", "medarc_slurm", "rl", config, "--single-gpu", "--slurm-option=--constraint=x"],
    ):
        preview = box.run(*line, "-n", "one", "-o", "out", "--plan")
        assert preview.returncode == 0, preview.stderr
        assert "--single-gpu" in preview.stdout.partition("# told: ")[2], preview.stdout
        assert "all components share GPU" not in preview.stderr
        assert ("--constraint=x" in preview.stdout) == ("--slurm-option=--constraint=x" in line)
    refusal = box.run("up", config, "--slurm", "--devices", "0", "-n", "one", "-o", "out", "--plan")
    assert refusal.returncode == 2, refusal.stderr
    assert "--gpus N sets the GPUs per node; the config assigns them" in refusal.stderr
