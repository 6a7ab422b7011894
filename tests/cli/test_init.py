"""`rltui init`: a layout that can be loaded, never over another one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from rltui.cli import main
from rltui.cli.commands import init
from rltui.services.experiment import layout_files


@pytest.fixture(autouse=True)
def _alone(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del own_user
    monkeypatch.chdir(tmp_path)


def test_commands_become_a_layout_that_is_found_by_its_name(cli: CommandLine) -> None:
    serve, work = "serve=python serve.py --port {port.serve}", "work=echo 'a b' $HOME | cat"
    path = Path(cli("init", "mine", "--component", serve, "--component", work).strip())
    assert path == layout_files.find("mine", Path.cwd())
    layout = layout_files.load(path)
    assert layout["serve"].kind == "service"
    assert layout["serve"].command == ("python", "serve.py", "--port", "{port.serve}")
    assert layout["serve"].ready is not None
    assert layout["work"].command == ("sh", "-c", "echo 'a b' $HOME | cat")
    uncommented = (
        path.read_text().replace("# after", "after").replace("# stop", "stop").replace("# env", "env")
    )
    assert "\n# Start it: rltui up -l mine\n" in uncommented
    reader = Path(cli("init", "two", "--component", "work=cat {config.run} {config.more}").strip())
    assert "\n# Start it: rltui up -l two run.toml more.toml\n" in reader.read_text()
    path.write_text(uncommented.replace("# progress", "progress").replace('after = ["work"]', ""))
    assert layout_files.load(path)["work"].after == ("serve",)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["mine", "--component", "a=b {prot.x}"], 3, "unknown placeholder {prot.x}"),
        (["mine", "--component", "a b=c"], 3, "id: string should match"),
        (["mine", "--component", "a='"], 2, "cannot parse the command of a"),
        (["mine", "--component", "a="], 2, "a has no command"),
        (["tinyrl", "--component", "a=b"], 4, "rltui ships a layout tinyrl"),
        (["no name", "--component", "a=b"], 2, "not a layout name: no name"),
        (["mine"], 2, "a layout needs components"),
    ],
)
def test_nothing_is_written_that_could_not_be_used(
    arguments: list[str], code: int, words: str, cli: CommandLine
) -> None:
    assert words in cli("init", *arguments, code=code)
    assert not list(Path.cwd().rglob("*.toml"))


def test_a_layout_is_never_overwritten(cli: CommandLine) -> None:
    assert main(["init", "mine", "--component", "a=b", "--user"]) == 0
    assert "exists already" in cli("init", "mine", "--component", "a=c", "--user", code=4)
    assert layout_files.load(layout_files.find("mine"))["a"].command == ("b",)


def test_questions_make_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["asked", "serve", "python s.py", "8123", "train", "python t.py {config.t}", "serve", ""])
    agreed = iter([True, False])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(init, "prompt", lambda _: next(answers))
    monkeypatch.setattr(init, "confirm", lambda _: next(agreed))
    assert main(["init"]) == 0
    layout = layout_files.load(layout_files.find("asked", Path.cwd()))
    assert (layout["serve"].port, layout["train"].after) == ("8123", ("serve",))


@pytest.mark.parametrize(
    ("kind", "configs", "framework"),
    [
        ("verifiers", ["configs/vf-rl/reverse-text.toml"], "verifiers"),
        ("prime-rl", ["configs/prime-rl/rl.toml", "configs/prime-rl/sft.toml"], "prime-rl"),
    ],
)
def test_a_workspace_has_configs_that_are_valid(
    kind: str, configs: list[str], framework: str, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finding S10: what `prime lab setup` made."""
    assert main(["init", "--from", kind, "new"]) == 0
    made = capsys.readouterr()
    assert f"rltui up new/{configs[0]}" in made.err
    for config in configs:
        assert f"new/{config}\n" in made.out
        verdict, *lines = cli("check", f"new/{config}").splitlines()
        assert verdict.startswith("valid by the shipped schema of ")
        assert any(line.startswith(f"{framework} · layout ") for line in lines)
    before = Path("new", configs[0]).read_text()
    assert f"new/{configs[0]}" in cli("init", "--from", kind, "new", code=4)
    assert Path("new", configs[0]).read_text() == before
