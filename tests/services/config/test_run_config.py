"""A run's own copy of the config: merged as its programs do, with options as edits of it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rltui.client.checking import identify
from rltui.core.experiment.request import ConfigLine, ConfigOverlay, Override
from rltui.errors import ConfigError
from rltui.services.config import origins
from rltui.services.config.document import ConfigDocument
from rltui.services.config.run_config import RunConfig, RunConfigBuilder
from rltui.services.experiment import checkout

DATA = Path(__file__).parents[2] / "data" / "prime_rl"
B, C = DATA / "era_b/rl.toml", DATA / "era_c/rl.toml"
A = {"trainer": DATA / "era_a/train.toml", "orchestrator": DATA / "era_a/orch.toml",
     "inference": DATA / "era_a/infer.toml"}  # fmt: skip


@pytest.fixture(autouse=True)
def _alone(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del own_user
    monkeypatch.chdir(tmp_path)


@contextmanager
def staged(line: ConfigLine, layout: str | None = None, *, force: bool = False) -> Iterator[RunConfig]:
    def choose(files: tuple[Path, ...]) -> Any:
        return identify(files, layout)[0]

    with RunConfigBuilder(line, choose, workspace=Path.cwd(), force=force).build() as found:
        yield found


def options(**values: str | tuple[str, ...]) -> tuple[Override, ...]:
    """`__` for a dot; a text is one value."""
    return tuple(
        Override(key.replace("__", "."), (value,) if isinstance(value, str) else value)
        for key, value in values.items()
    )


def data(found: RunConfig) -> list[dict[str, Any]]:
    return [tomllib.loads(path.read_text()) for path in found.files]


def test_the_seeds_line_becomes_edits_of_a_copy() -> None:
    given = options(model__name="X/Y", wandb__project="p", orchestrator__batch_size="64")
    with staged(ConfigLine(files=(B,), overrides=given)) as found:
        (copy,) = data(found)
        assert found.files[0].name == "rl.toml"
        assert [change.before.text for change in found.changes] == [B.read_text()]
        assert origins.original_files(found.files) == (B,)
        left = found.files[0]
    assert (copy["model"]["name"], copy["wandb"]["project"]) == ("X/Y", "p")
    assert copy["orchestrator"]["batch_size"] == 64
    assert not left.exists()


def test_what_is_wrong_is_told_of_the_users_file() -> None:
    with (
        pytest.raises(ConfigError, match=r"unknown knob wandb\.projet") as refused,
        staged(ConfigLine(files=(B,), overrides=options(wandb__projet="p"))),
    ):
        pass
    assert "wandb.project" in refused.value.hint
    with (
        pytest.raises(ConfigError, match="must be a whole number"),
        staged(ConfigLine(files=(B,), overrides=options(orchestrator__batch_size="many"))),
    ):
        pass
    with staged(ConfigLine(files=(B,), overrides=options(orchestrator__batch_size="33"))) as found:
        (problem,) = ConfigDocument(found.files, identify(found.files, None)[0]).problems()
        assert found.with_user_paths(problem.text).startswith(f"{B}: orchestrator.batch_size (33)")


def test_switches_tables_lists_and_none() -> None:
    given = options(wandb__offline=(), trainer__model__ac=(), no_ckpt=(), max_steps="None",
                    orchestrator__seed="None",
                    trainer__model__lora__target_modules=("q_proj", "k_proj"))  # fmt: skip
    with staged(ConfigLine(files=(B,), overrides=given)) as found:
        (copy,) = data(found)
    assert copy["wandb"]["offline"] is True
    assert copy["trainer"]["model"]["ac"] == {}
    assert copy["trainer"]["model"]["lora"]["target_modules"] == ["q_proj", "k_proj"]
    assert "ckpt" not in copy
    assert copy["orchestrator"]["seed"] == "None", "else it would be the default, 42"
    assert "max_steps" not in copy
    for key in ("no_wandb__offline", "wandb__no_offline"):
        with staged(ConfigLine(files=(B,), overrides=options(**{key: ()}))) as found:
            assert data(found)[0]["wandb"]["offline"] is False
    for wrong, words in (
        (options(max_steps=()), "needs a value"),
        (options(max_steps=("1", "2")), "takes one value"),
        (options(orchestrator__sampling="3"), "is a table"),
    ):
        with pytest.raises(ConfigError, match=words), staged(ConfigLine(files=(B,), overrides=wrong)):
            pass


def test_a_key_of_all_parts_is_set_where_they_share_it(tmp_path: Path) -> None:
    rl = tmp_path / "rl.toml"
    rl.write_text("[monitors.wandb]\n[orchestrator.concurrency]\n[orchestrator.train]\n[trainer.optim]\n")
    with staged(ConfigLine(files=(rl,), overrides=options(wandb__project="p"))) as found:
        assert data(found)[0]["monitors"]["wandb"]["project"] == "p"


def test_files_of_2025_stay_three() -> None:
    overlays = tuple(ConfigOverlay(path, table) for table, path in A.items())
    with staged(ConfigLine(overlays=overlays)) as found:
        assert found.files == tuple(A.values())
        assert not found.changes
    given = options(wandb__project="p", trainer__optim__lr="1e-5")
    with staged(ConfigLine(overlays=overlays, overrides=given)) as found:
        trainer, orchestrator, _ = data(found)
    assert trainer["wandb"]["project"] == orchestrator["wandb"]["project"] == "p"
    assert trainer["optim"]["lr"] == 1e-5


def test_files_for_tables_become_one_where_that_is_what_is_read(tmp_path: Path) -> None:
    later = tomllib.loads(C.read_text())
    assert later["orchestrator"]
    (tmp_path / "orch.toml").write_text("group_size = 4\n[concurrency]\n")
    (tmp_path / "train.toml").write_text("[optim]\nlr = 1e-5\n")
    overlays = (
        ConfigOverlay(tmp_path / "train.toml", "trainer"),
        ConfigOverlay(tmp_path / "orch.toml", "orchestrator"),
    )
    with staged(ConfigLine(overlays=overlays)) as found:
        (copy,) = data(found)
    assert copy == {
        "trainer": {"optim": {"lr": 1e-5}},
        "orchestrator": {"group_size": 4, "concurrency": {}},
    }


def test_merged_as_its_programs_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = tmp_path / "over.toml"
    over.write_text("[orchestrator]\nbatch_size = 64\n")
    with staged(ConfigLine(overlays=(ConfigOverlay(C), ConfigOverlay(over)))) as found:
        merged = data(found)[0]["orchestrator"]
        assert merged == {**tomllib.loads(C.read_text())["orchestrator"], "batch_size": 64}
        assert found.warnings == ()
        assert origins.original_files(found.files) == (C, over)
    before_march = ConfigLine(overlays=(ConfigOverlay(B), ConfigOverlay(over)))
    with staged(before_march) as found:
        assert data(found)[0]["orchestrator"] == {"batch_size": 64}
        assert "orchestrator.rollouts_per_example" in found.warnings[0]
    tree = tmp_path / "prime-rl"
    (tree / "src/prime_rl/entrypoints").mkdir(parents=True)
    (tree / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    monkeypatch.setenv("RLTUI_PRIME_RL", str(tree))
    with staged(before_march) as found:  # a newer checkout reads the old file
        assert data(found)[0]["orchestrator"]["rollouts_per_example"] == 16
    (tree / "src/prime_rl/utils").mkdir()
    (tree / "src/prime_rl/utils/pydantic_config.py").touch()
    with staged(before_march) as found:
        assert data(found)[0]["orchestrator"] == {"batch_size": 64}


def test_a_checkout_is_found_from_what_a_copy_was_made_from(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    (tree / "rl.toml").write_text(B.read_text())
    line = ConfigLine(files=(tree / "rl.toml",), overrides=options(max_steps="3"))
    with staged(line) as found:
        known = identify(found.files, None)[0].checkout
        assert known is not None
        assert (
            checkout.NearbyCheckout(
                known, workspace=tmp_path / "else", config_files=found.files, environment={}
            ).folder
            == tree
        )


def test_files_beside_and_files_inherited_from_come_along(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples/reverse_text"
    over = tmp_path / "over.toml"
    over.write_text("max_steps = 3\n")
    with staged(ConfigLine(overlays=(ConfigOverlay(example / "rl.toml"), ConfigOverlay(over)))) as found:
        assert [path.name for path in found.files] == ["rl.toml", "sft.toml"]
        assert data(found)[0]["max_steps"] == 3
    layout, mine = tmp_path / "lay.toml", tmp_path / "mine.toml"
    layout.write_text('framework = "generic"\n[[component]]\nid = "a"\ncommand = ["true"]\n')
    mine.write_text('toml_files = ["base.toml"]\nsteps = 1\n')
    with staged(ConfigLine(files=(mine,), overrides=options(steps="2")), str(layout)) as found:
        assert data(found) == [{"toml_files": [str(tmp_path / "base.toml")], "steps": 2}]
    with staged(ConfigLine(files=(mine,), overrides=options(other="2")), str(layout), force=True) as found:
        assert data(found)[0]["other"] == 2


def test_errors_of_several_files_name_the_file_and_its_line(tmp_path: Path) -> None:
    """Finding R10."""
    over = tmp_path / "over.toml"
    over.write_text('[orchestrator]\nbatch_sizz = 8\n\n[trainer]\nmax_steps = "many"\n')
    with staged(ConfigLine(overlays=(ConfigOverlay(B), ConfigOverlay(over)))) as found:
        (copy,) = found.files
        lines = copy.read_text().splitlines()
        for number, line in ((2, "batch_sizz = 8"), (5, 'max_steps = "many"')):
            place = f"{copy}:{lines.index(line) + 1}:1: no"
            assert found.with_user_paths(place) == f"{over}:{number}: no"
        assert found.with_user_paths(str(copy)) == f"{B} and {over}"
        assert found.with_user_paths(f"{copy}:{lines.index('') + 1}") == f"{B} and {over}", "nobody can tell"
