"""`rltui convert --to prime-rl@D`, and back with `rltui undo`, on real files; the hint that leads there."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, planned
from tests.services.config.models.checkouts import make

from rltui.cli import main
from rltui.cli.completion.sources import conversion_targets
from rltui.client import converting
from rltui.core import hints
from rltui.errors import ConflictError
from rltui.frameworks.prime_rl import migration

DATA = Path(__file__).parents[1] / "data" / "prime_rl"
SPRING = (DATA / "era_b" / "rl.toml").read_text()
AUTUMN = """
from pydantic import BaseModel, ConfigDict

class Base(BaseModel):
    model_config = ConfigDict(extra="allow")

class Train(Base):
    group_size: int = 1

class Orchestrator(BaseModel):
    model_config = ConfigDict(extra="forbid")
    batch_size: int = 128
    train: Train = Train()
    renderer: dict[str, str] = {}
    constant_trainer_batch_size: bool = True

class RLConfig(Base):
    orchestrator: Orchestrator
    dashboard: bool = True
"""
"""Some keys of autumn."""


@pytest.fixture
def config(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "rl.toml").write_text(SPRING)
    return folder / "rl.toml"


def test_it_is_written_in_place_and_taken_back(config: Path, cli: CommandLine) -> None:
    shown = cli("convert", "--to", "prime-rl@D", "rl.toml", "--plan")
    assert "-rollouts_per_example = 16" in shown
    assert "+group_size = 16" in shown
    assert config.read_text() == SPRING
    assert cli("convert", "--to", "prime-rl@D", "rl.toml", "--dry-run") == shown
    assert cli("convert", "--to", "prime-rl@2026-10", "rl.toml", "--plan") == shown
    assert main(["convert", "--to", "prime-rl@D", "rl.toml"]) == 0
    converted = config.read_text()
    assert "[orchestrator.train]\ngroup_size = 16" in converted
    assert cli("convert", "--to", "prime-rl", "rl.toml") == "nothing to convert\n", "the newest"
    assert "+rollouts_per_example = 16" in cli("undo", "rl.toml", "--plan")
    assert main(shlex.split(hints.UNDO_FILE(file=config))[1:]) == 0
    assert config.read_text() == SPRING
    assert "nothing to undo" in cli("undo", "rl.toml", code=4)
    assert main(["undo", "rl.toml", "--redo"]) == 0
    assert config.read_text() == converted
    config.write_text(converted.replace("lr = 3e-6", "lr = 1e-6"))
    assert "changed after that edit" in cli("undo", "rl.toml", code=4)
    assert "lr = 1e-6" in config.read_text(), "somebody has saved since"


def test_all_of_it_is_data(config: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    report = cli.json("convert", "--to", "prime-rl@D", "rl.toml", "--plan")
    assert (report["valid"], report["framework"]) == (True, "prime-rl")
    assert report["source"] == "B (as of 25 February 2026)"
    assert report["files"][0]["sources"] == [str(config)]
    moved = {change.get("key"): change for change in report["changes"]}
    group = moved["orchestrator.rollouts_per_example"]
    assert (group["kind"], group["to"]) == ("moved", "orchestrator.train.group_size")
    assert "wandb" in moved
    assert moved["wandb"]["commit"] == "9975d8868"
    assert all(change["why"] for change in report["changes"])
    main(["convert", "--to", "prime-rl@D", "rl.toml", "--plan"])
    told = capsys.readouterr().err
    assert "from B (as of 25 February 2026) to D (since September 2026)" in told
    assert "valid by the shipped schema of 1 November 2026" in told
    assert "(2026-08-15, 9975d8868)" in told


def test_three_files_become_one_and_stay(config: Path, cli: CommandLine) -> None:
    parts = [DATA / "era_a" / f"{name}.toml" for name in ("train", "orch", "infer")]
    for part in parts:
        (config.parent / part.name).write_text(part.read_text())
    words = ("convert", "--to", "prime-rl@D", *(part.name for part in parts))
    assert f"{config} exists already" in cli(*words, code=4)
    assert config.read_text() == SPRING
    assert main([*words, "--output", "new.toml"]) == 0
    assert "[orchestrator.train]" in (config.parent / "new.toml").read_text()
    config.unlink()
    assert main([*words]) == 0
    assert config.read_text() == (config.parent / "new.toml").read_text()
    assert [(config.parent / part.name).read_text() for part in parts] == [part.read_text() for part in parts]
    alone = cli("convert", "--to", "prime-rl@D", "infer.toml", "--plan")
    assert "+[vllm]" in alone, "inference has a file of its own in every generation"


def test_an_overlay_goes_with_its_base(config: Path, cli: CommandLine) -> None:
    overlay = config.with_name("short.toml")
    overlay.write_text("max_steps = 2 # quick\n\n[wandb]\nname = 'short'\n")
    assert main(["convert", "--to", "prime-rl@D", "rl.toml", "short.toml"]) == 0
    assert overlay.read_text() == "max_steps = 2 # quick\n\n[monitors.wandb]\nname = 'short'\n"
    assert "[monitors.wandb]" in config.read_text()
    for path in (config, overlay):
        assert main(["undo", str(path)]) == 0
    assert config.read_text() == SPRING
    overlay.write_text(f'toml_files = ["rl.toml"]\n{overlay.read_text()}')
    alone = cli("convert", "--to", "prime-rl@D", "short.toml", code=2)
    together = hints.CONVERT_RELEASE(to="prime-rl@D", files=[config, overlay])
    assert f"convert them together: {together}" in alone
    assert main(shlex.split(together)[1:]) == 0
    assert "toml_files" not in overlay.read_text()


def test_what_cannot_be_is_refused(config: Path, cli: CommandLine) -> None:
    unknown = cli("convert", "--to", "prime-rl@X", "rl.toml", code=2)
    assert "prime-rl@D: since September 2026" in unknown
    other = Path(__file__).parents[2] / "examples" / "reverse_text" / "rl.toml"
    assert "cannot be converted" in cli("convert", "--to", "prime-rl@D", str(other), code=3), "of tinyrl"
    config.write_text((DATA / "era_d" / "rl.toml").read_text())
    assert "only converted to a later generation" in cli("convert", "--to", "prime-rl@B", "rl.toml", code=3)
    config.write_text(SPRING.replace("batch_size = 128", "batch_size = 127"))
    invalid = cli("convert", "--to", "prime-rl@D", "rl.toml", code=3)
    assert "batch_size" in invalid
    assert "--force" in invalid
    assert "rollouts_per_example" in config.read_text()
    assert main(["convert", "--to", "prime-rl@D", "rl.toml", "--force"]) == 0
    assert "rollouts_per_example" not in config.read_text()
    config.write_text(SPRING)
    plan = converting.converted([config], "prime-rl@D", None)
    config.write_text(f"{SPRING}\n# more\n")
    with pytest.raises(ConflictError, match="changed by someone else"):
        converting.write(plan)
    assert config.read_text() == f"{SPRING}\n# more\n"


def test_the_file_of_a_run_has_the_history_of_the_run(config: Path, cli: CommandLine) -> None:
    planned(config)
    assert main(["convert", "--to", "prime-rl@D", "rl.toml"]) == 0
    assert "converted from B" in cli("events", "one")
    assert main(["undo", "one"]) == 0
    assert config.read_text() == SPRING
    assert main(["convert", "--to", "prime-rl@D", "rl.toml"]) == 0
    assert main(["undo", "rl.toml"]) == 0
    assert config.read_text() == SPRING


@pytest.mark.slow
def test_an_old_config_in_a_new_checkout_is_met_with_the_command(
    config: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a run of spring was refused with keys that nobody could look up (N3)."""

    def shown(words: list[str]) -> str:
        main(words)
        return capsys.readouterr().out

    root = config.parent / "prime-rl"
    box = make(root, AUTUMN)
    for sign in ("monitors.py", "eval.py"):
        path = root / "packages/prime-rl-configs/src/prime_rl/configs" / sign
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(root)
    old = root / "rl.toml"
    old.write_text(SPRING)
    command = hints.CONVERT_RELEASE(to="prime-rl@D", files=[str(old)])
    assert f"hint: the config is for B (as of 25 February 2026): {command}" in shown(["check", "rl.toml"])
    refused = cli("up", "rl.toml", "--no-wait", code=3)
    assert "the config is for B (as of 25 February 2026)" in refused
    assert command in refused
    starts = box.starts
    assert main(shlex.split(command)[1:]) == 0
    assert box.starts == starts + 1, "its models say what is wrong, and what the values are, in one start"
    assert command not in shown(["check", "rl.toml"])


@pytest.mark.slow
def test_the_file_of_one_program_is_taken_by_its_own_model(
    config: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inference has the same keys in C and D; the other programs tell which of them a checkout is."""
    monkeypatch.chdir(config.parent)
    box = make(config.parent / "prime-rl", AUTUMN)
    model = "from pydantic import BaseModel\n\nclass {}Config(BaseModel):\n    {}\n"
    box.write(model.format("Trainer", "enable_token_export: bool = True"), "prime_rl/configs/trainer.py")
    box.write(model.format("Inference", "vllm: dict[str, str] = {}"), "prime_rl/configs/inference.py")
    (config.parent / "infer.toml").write_text((DATA / "era_a" / "infer.toml").read_text())
    report = cli.json("convert", "--to", "prime-rl@C", "infer.toml", "--plan")
    assert report["validator"].endswith("own validators")
    assert report["compared"]["after"] == f"the models of {box.root}"


def test_completion_offers_the_releases(cli: CommandLine) -> None:
    words = dict(conversion_targets("prime-rl@", {}))
    assert words == {f"prime-rl@{known.name}": known.title for known in migration.RELEASES}
    for typed in (["prime-rl@"], ["prime-rl", "@"]):  # bash may hand it over in two words
        assert cli("completion", "bash", "--", "convert", "--to", *typed).split() == ["@A", "@B", "@C", "@D"]
