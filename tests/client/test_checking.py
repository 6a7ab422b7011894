"""What a start would find is found before: by `check`, by `up`, by opening."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.http_server import Handler, serving
from tests.fakes.requests import run_of
from tests.house.walks import REPOSITORY

from rltui.cli import main
from rltui.client.checking import check
from rltui.client.creation import examine
from rltui.core.gpu.report import GpuReport
from rltui.errors import ConfigError
from rltui.services.config import origins
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.gpu import account

PRIME = """\
[orchestrator.concurrency]
max_inflight = 64
[trainer]
[[orchestrator.train.source]]
name = "a"
group_size = 16
env = { taskset = { id = "a" } }
[orchestrator.renderer]
name = "qwen3"
"""
INFERENCE = "[inference]\n"
TINYRL = (REPOSITORY / "examples/reverse_text/rl.toml").read_text()
SHIPPED = "valid by the shipped schema of 21 August 2026; not run: its own validators"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    monkeypatch.delenv("RLTUI_PRIME_RL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(work: Path, text: str) -> Path:
    path = work / "rl.toml"
    path.write_text(text)
    return path


def test_what_a_layout_cannot_start_is_said_by_check_and_refused_by_up(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Findings A10, A11, P7: it would have started on the login node without a word."""
    path = config(work, PRIME + INFERENCE + "[slurm]\n")
    assert main(["check", "--no-own", str(path)]) == 0
    out = capsys.readouterr().out
    verdict, *hints = out.splitlines()
    assert "cannot start here: the config has [slurm] for a cluster" in verdict
    assert "to submit it: --slurm" in hints[0]
    for layout in (None, "prime-rl-single"):
        with pytest.raises(ConfigError, match=r" is for a cluster \(it has a \[slurm\] table\)") as caught:
            examine(run_of((path,), layout=layout))
        assert "--slurm submits it as a job" in caught.value.hint
    assert not check((path,), "prime-rl-single").startable  # it would submit, unseen
    job = check((path,), "prime-rl-slurm")
    assert job.valid
    assert [blocker.reason for blocker in job.blockers] == ["no checkout of prime-rl found"]


@pytest.mark.parametrize(
    ("text", "options", "code", "verdict"),
    [
        (TINYRL, ["--framework", "tinyrl"], 0, "valid; can start here"),
        (TINYRL.replace("200", "-3", 1), ["--framework", "tinyrl"], 3, "not valid: 1 error"),
        (
            PRIME + INFERENCE,
            [],
            0,
            f"{SHIPPED}; cannot start here: no checkout of prime-rl found, 2 GPUs needed, 0 found",
        ),
        (
            PRIME + INFERENCE,
            ["--no-own", "-l", "prime-rl-slurm"],
            0,
            f"{SHIPPED} (--no-own); cannot start here: no checkout of prime-rl found",
        ),
        (
            "x = 1\n",
            ["-l", "own.toml"],
            0,
            "valid; cannot start here: program of a not found: no-such-program",
        ),
    ],
)
def test_the_verdict_is_the_first_line_and_says_why_it_cannot_start(
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    options: list[str],
    code: int,
    verdict: str,
) -> None:
    """Finding U4: it said valid and startable where there was neither prime-rl nor a GPU."""
    no_gpu = GpuReport(available=False, reason="no NVIDIA driver here")
    monkeypatch.setattr("rltui.services.gpu.account.read_once", lambda *_: no_gpu)
    (work / "own.toml").write_text('[[component]]\nid = "a"\ncommand = ["no-such-program"]\n')
    path = config(work, text)
    (work / "sft.toml").write_text((REPOSITORY / "examples/reverse_text/sft.toml").read_text())
    assert main(["check", str(path), *options]) == code
    assert capsys.readouterr().out.splitlines()[0] == verdict
    assert main(["check", str(path), *options, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["valid"] == (code == 0)
    assert document["startable"] == verdict.endswith("can start here")
    assert bool(document["not_asked"]) == ("not run" in verdict)
    assert all(blocker["reason"] in verdict for blocker in document["blockers"])


def test_a_placeholder_that_nobody_knows_is_an_error(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = work / "own.toml"
    command = '["serve", "--port", "{port.inferense}"]'
    layout.write_text(f'framework = "prime-rl"\n[[component]]\nid = "a"\ncommand = {command}\n')
    path = config(work, PRIME + INFERENCE)
    assert main(["check", "--no-own", str(path), "-l", str(layout), "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert not document["startable"]
    (error,) = (item for item in document["problems"] if item["severity"] == "error")
    assert "unknown placeholder {port.inferense}; did you mean port.inference?" in error["message"]
    assert error["file"] == str(layout)
    with pytest.raises(ConfigError, match="unknown placeholder"):
        examine(run_of((path,), layout=str(layout)))


def test_what_nobody_knows_is_an_invalid_config_and_says_where_it_stands(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = work / "own.toml"
    layout.write_text('framework = "prime-lr"\n[[component]]\nid = "a"\ncommand = ["true"]\n')
    path = str(config(work, PRIME))
    for arguments, code, words in (
        (
            ["-l", str(layout)],
            3,
            f"{layout}: framework: unknown framework: prime-lr\n→ did you mean prime-rl",
        ),
        (["--framework", "prime-lr"], 2, "unknown framework: prime-lr\n→ did you mean prime-rl"),
        (["-l", "prime-lr"], 2, "unknown layout: prime-lr"),
        (["--", "--max-stps", "3"], 3, "unknown knob max_stps\n→ did you mean max_steps?"),
    ):
        assert main(["check", path, *arguments]) == code, arguments
        assert words in capsys.readouterr().err


@pytest.mark.parametrize("has_copy", [False, True])
@pytest.mark.parametrize("words", [["rl.toml"], ["rl.toml", "--set", "max_steps=5"]])
def test_the_memory_is_that_of_the_experiment_with_these_files(
    work: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], has_copy: bool
) -> None:
    own = user = config(work, TINYRL)
    control = ControlFolder(work / "out")
    control.make()
    if has_copy:
        own = control.path / origins.FOLDER / "rl.toml"
        own.parent.mkdir()
        own.write_text(TINYRL)
        origins.save(own.parent, {"rl.toml": origins.ConfigOrigin((str(user),), TINYRL)})
    control.write_record(
        ExperimentRecord(
            name="mine",
            output_dir=str(work / "out"),
            workspace=str(work),
            config_files=(str(own),),
            layout_file=str(layout_files.find("tinyrl", work)),
            framework="tinyrl",
            created_at=1.0,
            run_dir=str(work / "out"),
        )
    )
    read = list[str]()

    def read_once(experiment: str = "") -> GpuReport:
        read.append(experiment)
        return GpuReport(available=False, reason="no")

    monkeypatch.setattr(account, "read_once", read_once)
    main(["check", *words, "--no-own"])
    assert read == ["mine"]


@pytest.mark.parametrize("key", ["", "sk-hush"])
def test_a_config_that_is_only_looked_at_gets_no_key(
    work: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """A stranger's file names both the variable and the address that gets what it holds."""
    sent: list[str] = []

    class Listener(Handler):
        def respond(self) -> None:
            sent.append(f"{self.path} {self.headers}")
            self.answer(401)

    monkeypatch.setenv("SECRET", key)
    with serving(Listener) as server:
        teacher = f"base_url = 'http://127.0.0.1:{server.server_port}/v1'\napi_key_var = 'SECRET'\n"
        algorithm = (
            "[orchestrator.train.algo]\ntype = 'opd'\n[orchestrator.train.algo.teacher]\nname = 'big'\n"
        )
        result = check((config(work, PRIME + INFERENCE + algorithm + teacher),), None, with_memory=True)
    assert [line.split()[0] for line in sent] == ["/v1/models"]
    assert "Authorization" not in sent[0]
    (problem,) = (item for item in result.problems if (item.key or "").endswith("teacher.base_url"))
    end = (
        "a check does not send it the one in SECRET"
        if key
        else "set SECRET in the shell that starts the experiment"
    )
    assert problem.message.endswith(end)
    assert problem.severity == ("hint" if key else "warning")
    assert ("teacher cannot be used" in [blocker.reason for blocker in result.blockers]) == (not key)
