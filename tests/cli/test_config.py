"""`rltui check` beside a stand-in checkout of prime-rl, whose own validators are asked."""

from __future__ import annotations

import io
import json
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, planned
from tests.client.test_creation import ANY_SFT
from tests.fakes.requests import run_of

from rltui import paths
from rltui.cli import main
from rltui.cli.choosing import choose_framework
from rltui.cli.commands import open as opening
from rltui.client import creation, launch
from rltui.client.reader import ExperimentReader
from rltui.errors import ConfigError
from rltui.services.experiment import trust
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.registry import known_experiments, new_socket_path

CONFIG = """\
max_steps = 20
[model]
name = "m"
[orchestrator]
batch_size = 128
group_size = 16
[[orchestrator.train.source]]
name = "a"
env = { taskset = { id = "reverse-text" } }
[trainer]
[inference]
"""
REFUSES = """\
class RLConfig:
    @classmethod
    def model_validate(cls, data):
        class Refusal(ValueError):
            def errors(self, **options):
                return [{"loc": ("orchestrator", "group_size"), "type": "value_error", "msg": "not today"}]
        raise Refusal
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLTUI_PRIME_RL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    package = tmp_path / "src/prime_rl/configs"
    package.mkdir(parents=True)
    (package / "rl.py").write_text(REFUSES)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/src exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    path = tmp_path / "rl.toml"
    path.write_text(CONFIG)
    trust.trust(tmp_path)
    return path


def test_what_is_not_trusted_is_left_out_and_told(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Finding H2."""
    assert main(["trust", "--revoke"]) == 0
    main(["check", str(config)])
    out = capsys.readouterr().out
    assert f"not checked by prime-rl itself: {config.parent} is not trusted" in out
    assert "not today" not in out
    assert main(["trust"]) == 0
    assert main(["check", str(config)]) == 3
    assert "not today" in capsys.readouterr().out


def test_what_they_refuse_is_an_error_with_its_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(config), "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    theirs = [item for item in document["problems"] if item["message"] == "prime-rl says: not today"]
    assert [(item["key"], item["line"], item["severity"]) for item in theirs] == [
        ("orchestrator.group_size", 6, "error")
    ]
    main(["check", str(config), "--no-own", "--json"])
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert not any("prime-rl says" in item["message"] for item in problems)


def test_what_they_take_no_rule_of_ours_refuses(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Finding P1: a slip of the pen, as far as we can tell, is a key that prime-rl knows."""
    config.write_text(CONFIG.replace("group_size", "group_sizes"))
    package = config.parent / "src/prime_rl/configs/rl.py"
    package.write_text(
        "class RLConfig:\n    @classmethod\n    def model_validate(cls, data):\n        pass\n"
    )
    check = ["check", str(config), "--framework", "prime-rl"]
    assert main([*check, "--no-own"]) == 3
    assert "did you mean orchestrator.group_size?" in capsys.readouterr().out
    assert main(check) == 0
    found = capsys.readouterr().out
    assert "warning: " in found
    assert "(accepted by the framework itself)" in found
    record = creation.examine(run_of((config,), framework="prime-rl"))
    assert not record.forced


def test_a_dry_run_that_our_rules_refuse_does_not_wait_for_them(config: Path, cli: CommandLine) -> None:
    asked = config.parent / "asked"
    (config.parent / "src/prime_rl/configs/rl.py").write_text(f"open({str(asked)!r}, 'w')\n{REFUSES}")
    planned(config)
    told = cli("set", "one", "orchestrator.group_size=24", "--plan", code=3)
    assert "128" in told
    assert "without --plan, the framework's own validators decide" in told
    assert not asked.exists()
    assert main(["set", "one", "orchestrator.group_size=24"]) == 3
    assert asked.exists()


def test_what_a_file_did_not_set_is_told_with_its_default(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["set", str(config), "trainer.model.optim_cpu_offload=false", "max_steps=30"]) == 0
    told = capsys.readouterr().err
    assert "max_steps 20 → 30" in told
    assert "optim_cpu_offload true (the default) → false" in told


def test_force_goes_on_although_rules_of_ours_refuse(config: Path) -> None:
    config.write_text(CONFIG.replace("group_size", "group_sizes"))
    with pytest.raises(ConfigError, match="did you mean") as caught:
        creation.examine(run_of((config,), framework="prime-rl"))
    assert "--force" in caught.value.hint
    record = creation.examine(run_of((config,), framework="prime-rl", force=True))
    assert record.forced
    problems = ExperimentReader(record).document().problems()
    assert {problem.severity for problem in problems} == {"warning"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def sft(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path]:
    monkeypatch.delenv("RLTUI_PRIME_RL", raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sft.toml"
    path.write_text(ANY_SFT)
    return (path,)


def test_the_framework_of_a_config_that_suits_several(
    sft: tuple[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """N2: the command line decides, a checkout, an experiment with the same files; else the newest."""
    assert choose_framework(sft, None, "prime-rl-merged") == "prime-rl-merged"
    assert choose_framework(sft, None, None) == "prime-rl"
    assert capsys.readouterr().err == (
        "sft.toml: taken as prime-rl (August 2026 on), the newest framework that fits; for another: "
        "--framework prime-rl-merged or prime-rl-split\n"
    )
    for age, name, framework in ((1.0, "a", "prime-rl-split"), (2.0, "b", "generic")):
        record = ExperimentRecord(name, str(tmp_path / name), "/w", (str(sft[0]),), "/l.toml", framework, age)
        record.control.write_record(record)
    assert choose_framework(sft, None, None) == "prime-rl-split"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    (tmp_path / "packages/prime-rl-configs/src/prime_rl/configs/monitors.py").mkdir(parents=True)
    assert choose_framework(sft, None, None) is None


def test_a_clear_config_needs_nobody(sft: tuple[Path]) -> None:
    sft[0].write_text(ANY_SFT + "[monitors]\n")
    assert choose_framework(sft, None, None) is None


def test_the_newest_keys_of_sft_are_known(own_user: Path, cli: CommandLine) -> None:
    """N1: data.columns, eval.select and eval.cancel_on_new_checkpoint were not."""
    del own_user
    path = Path(__file__).parents[1] / "data/prime_rl/era_d/sft.toml"
    assert cli.json("check", str(path), "--framework", "prime-rl", "--no-own")["problems"] == []


@pytest.fixture
def two(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two experiments that never ran."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.toml").write_text(
        'framework = "generic"\n[[component]]\nid = "trainer"\ncommand = ["true"]\n'
    )
    for number, name in enumerate(("alpha", "beta")):
        (tmp_path / f"{name}.run.toml").write_text("max_steps = 20\n")
        record = ExperimentRecord(
            name=name,
            output_dir=str(tmp_path / name),
            workspace=str(tmp_path),
            config_files=(str(tmp_path / f"{name}.run.toml"),),
            layout_file=str(tmp_path / "one.toml"),
            framework="generic",
            created_at=float(number),
        )
        ControlFolder(tmp_path / name).write_record(record)
    (tmp_path / "alpha").rename(tmp_path / "elsewhere")  # the word is a name, not a folder here
    moved = ControlFolder(tmp_path / "elsewhere").read_record()
    assert moved is not None
    ControlFolder(tmp_path / "elsewhere").write_record(replace(moved, output_dir=str(tmp_path / "elsewhere")))


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, ["the TUI needs a terminal", "rltui status"]),
        (["statsu"], 2, ["unknown command, run or file: statsu\n→ did you mean status?\n"]),
        (["alhpa"], 2, ["did you mean alpha?"]),
        (
            ["graphs"],
            2,
            ["unknown command, run or file: graphs\n→ commands: rltui --help; runs: rltui runs\n"],
        ),
        (["alpha"], 2, ["the TUI needs a terminal"]),
        (["alp"], 2, ["the TUI needs a terminal"]),
        (["-1"], 2, ["the TUI needs a terminal"]),
        (["elsewhere"], 2, ["the TUI needs a terminal"]),
        (["alpha/trainer"], 2, ["the TUI needs a terminal"]),
        (["@best"], 2, ["no run has a reward yet"]),
        (["-9"], 2, ["run not found: -9"]),
        (["-n", "alpha"], 2, ["-n names a new run and needs its config\n→ rltui alpha\n"]),
        (["nothing.toml"], 2, ["file not found: "]),
        (["status", "alhpa"], 2, ["did you mean alpha?"]),
        (["logs", "alpha", "-c", "trianer"], 2, ["did you mean trainer?"]),
        (["attach", "alpha", "-c", "trianer"], 2, ["did you mean trainer?"]),
        (["diff", "alpha", "-c", "trianer"], 2, ["unknown started component"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_words_that_name_nothing_are_usage(
    two: None, cli: CommandLine, words: list[str], code: int, told: list[str]
) -> None:
    error = cli(*words, code=code)
    assert [part for part in told if part not in error] == []


def test_bare_rltui_opens_the_one_that_lives_or_the_list(two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def show(record: ExperimentRecord) -> int:
        opened.append(record.name)
        return 0

    def show_runs(*, readonly: bool) -> int:
        opened.append(f"all, readonly={readonly}")
        return 0

    living = {"alpha"}
    monkeypatch.setattr(opening, "show", show)
    monkeypatch.setattr(opening, "show_readonly", show)
    monkeypatch.setattr(opening, "show_runs", show_runs)
    monkeypatch.setattr(launch, "is_running", lambda record: record.name in living)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", Terminal())
    assert main([]) == 0
    assert opened == ["all, readonly=False"], "nothing listens"
    sockets = []
    for record in known_experiments():
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(new_socket_path(record)))
        sockets.append(listener)
    for now in ({"alpha"}, {"alpha", "beta"}, set[str]()):
        living.clear()
        living.update(now)
        assert (main([]), main(["--readonly"])) == (0, 0)
    for listener in sockets:
        Path(listener.getsockname()).unlink()
        listener.close()
    many = ["all, readonly=False", "all, readonly=True"]
    assert opened[1:] == ["alpha", "alpha", *many, *many]


def test_no_tui_is_opened_inside_another(
    two: None, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("RLTUI_EXPERIMENT", "beta@/somewhere")
    assert "this terminal belongs to beta" in cli("alpha", code=2)
    monkeypatch.delenv("RLTUI_EXPERIMENT")
    monkeypatch.setenv("TMUX", f"/tmp/tmux-0/{paths.tmux_socket()},1,0")
    assert "rltui's own tmux server" in cli(code=2)
