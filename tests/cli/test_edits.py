"""`set`, `undo`, `redo`, `knobs`, `diff` of an experiment of which nothing runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, planned

from rltui import paths
from rltui.cli import main

TEXT = "# mine\nmax_steps = 20 # steps\nname = \"a\"\n[[env]]\nid = 'x'\n"
LAYOUT = 'framework = "generic"\n[[component]]\nid = "trainer"\ncommand = ["true"]\n'


@pytest.fixture
def config(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.toml"
    path.write_text(TEXT)
    (tmp_path / "one.toml").write_text(LAYOUT)
    planned(path, layout="./one.toml")
    return path


def test_several_edits_are_one_write_and_are_taken_back(config: Path, cli: CommandLine) -> None:
    assert (
        "+max_steps = 30 # steps\n"
        in cli.json("set", "max_steps=30", "env.0.id=y", "--unset", "name", "--plan")["diff"]
    )
    assert config.read_text() == TEXT
    assert main(["set", "max_steps=30", "env.0.id=y", "--unset", "name"]) == 0
    edited = TEXT.replace("20", "30").replace("'x'", "'y'").replace('name = "a"\n', "")
    assert config.read_text() == edited
    table = cli.json("knobs")
    assert table["undo"].startswith("max_steps 20 → 30")
    assert table["others"] == [], "only with --all"
    assert (main(["undo"]), config.read_text()) == (0, TEXT)
    assert (main(["undo", "--redo"]), config.read_text()) == (0, edited)
    assert (main(["undo", "--redo"]), config.read_text()) == (4, edited)
    entries = map(json.loads, (config.parent / "out/.rltui/journal.jsonl").read_text().splitlines())
    assert [entry["text"].split()[0] for entry in entries] == ["max_steps", "undo:", "redo:"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["set"], 2, "nothing to set"),
        (["set", "max_steps=1", "--unset", "max_steps"], 2, "both set and unset"),
        (["set", "max_steps=1", "max_steps=2"], 2, "max_steps is set twice"),
        (["set", "max_stps=5"], 3, "did you mean max_steps?"),
        (["set", "max_steps=soon"], 3, "must be a whole number"),
        (["set", "env=5"], 3, "unknown knob env"),
        (["undo"], 4, "nothing to undo"),
        (["diff", "-c", "trainer"], 2, "unknown started component: trainer"),
        (["diff", "-c", "a", "-c", "b", "-c", "c"], 2, "two attempts"),
    ],
)
def test_what_cannot_be_done_is_said(
    config: Path, cli: CommandLine, arguments: list[str], code: int, words: str
) -> None:
    assert words in cli(*arguments, code=code)
    assert config.read_text() == TEXT


def test_knobs_are_grouped_and_searched(
    config: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli("knobs", "--all") == (
        "run.toml\n"
        "  KEY        VALUE  UNIT  DEFAULT  ALLOWED  READ BY\n"
        "  max_steps  20                             trainer\n"
        '  name       "a"                            trainer\n'
        "run.toml  [env.0]\n"
        '  env.0.id   "x"                            trainer\n'
    )
    assert cli("knobs", "steps", "TRAIN").count("\n") == 3
    assert main(["knobs", "nonsense"]) == 0
    assert "no knob has all these words" in capsys.readouterr().err


def test_attempts_are_compared_with_each_other_and_the_files(config: Path, cli: CommandLine) -> None:
    for number, text in ((1, TEXT), (2, TEXT.replace("20", "25"))):
        folder = config.parent / f"out/.rltui/components/trainer/attempt-{number}/config"
        folder.mkdir(parents=True)
        (folder / "run.toml").write_text(text)
    config.write_text("\ufeff" + TEXT.replace("20", "30"))
    assert cli("diff", "-c", "trainer#1", "-c", "trainer") == "trainer#1 → trainer\n  max_steps  20 → 25\n"
    found = cli.json("diff", "-c", "trainer")
    assert [(each["key"], each["before"], each["after"]) for each in found["keys"]] == [("max_steps", 25, 30)]
    assert "-max_steps = 20 # steps\n+max_steps = 30 # steps\n" in cli("diff", "-c", "trainer#1", "--text")
    assert cli("diff", "-c", "trainer#2", "-c", "trainer") == "no key differs between trainer#2 and trainer\n"


def test_a_config_that_never_ran_is_edited(
    own_user: Path, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding C4."""
    assert own_user.is_dir()
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rl.toml"
    path.write_bytes((paths.shipped_dir("examples") / "reverse_text/rl.toml").read_bytes())
    assert "+max_steps = 31" in cli("set", "rl.toml", "max_steps=31", "--yes")
    assert "max_steps = 31 " in path.read_text()
    assert main(["set", "rl.toml", "max_steps=-1"]) == 3
    assert main(["set", "rl.toml", "max_steps=5", "--restart"]) == 2
    assert "max_steps = 31 " in path.read_text()


def test_a_checkpoint_becomes_the_model_and_can_be_taken_back(
    own_user: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
) -> None:
    del own_user
    monkeypatch.chdir(tmp_path)
    weights = tmp_path / "out/weights/step_100"
    weights.mkdir(parents=True)
    (weights / "config.json").write_text("{}")
    (weights / "pytorch_model.bin").touch()
    text = (Path(__file__).parents[1] / "data/prime_rl/era_b/rl.toml").read_text()
    config = tmp_path / "rl.toml"
    config.write_text(text)
    assert main(["checkpoints", "use", "out/weights/step_100", "--config", "rl.toml", "--plan"]) == 0
    assert config.read_text() == text
    planned(config, name="rl")
    assert f'+name = "{weights}"' in cli("checkpoints", "use", "100")
    assert main(["undo"]) == 0
    assert config.read_text() == text
    assert main(["checkpoints", "use", "100", "--config", "rl.toml"]) == 0, (
        "the experiment that reads it remembers"
    )
    assert main(["undo"]) == 0
    assert "available: 100" in cli("checkpoints", "use", "7", code=3)
    sft = tmp_path / "sft.toml"
    sft.write_text('[data]\nname = "x"\n')
    assert "is the config of SFT" in cli(
        "checkpoints", "use", "100", "--config", "sft.toml", "--framework", "prime-rl-merged", code=3
    )


def test_knobs_of_a_file_are_narrow_and_tell_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finding S8: 43 optimizers made 792 columns, and DEFAULT was "not set"."""
    monkeypatch.chdir(tmp_path)
    args = 'run_name = "r"\nbatch_size = 8\nmicro_batch_size = 8\n'
    config = (
        f'model = "m"\n[env]\nid = "e"\n[inference]\ngpus = 1\n[trainer]\ngpus = 1\n[trainer.args]\n{args}'
    )
    (tmp_path / "vf.toml").write_text(config)
    lines = {line.split()[0]: line for line in cli("knobs", "vf.toml", "trainer.args").splitlines()}
    assert max(map(len, lines.values())) < 200
    assert "adamw_torch_xla|… 39 more: -v" in lines["trainer.args.optim"]
    assert lines["trainer.args.top_p"].split()[1:4] == ["1.0", "(default)", "1.0"]
    assert lines["trainer.args.batch_size"].split()[1:4] == ["8", "rollouts", "512"]
    assert main(["check", "vf.toml", "--set", "batch_size=128", "--set", "micro_batch_size=5"]) == 3
    told = capsys.readouterr().out
    assert "nearest valid micro_batch_size is 4 or 8, or batch_size is 125 or 130" in told, "finding S11"
    assert "adamw_8bit" in cli("knobs", "vf.toml", "optim", "-v")
