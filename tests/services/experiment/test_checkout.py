"""The user's checkout of a framework."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from rltui import paths
from rltui.base.template import Missing
from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.evaluation import Program
from rltui.frameworks.prime_rl.generation import CHECKOUT
from rltui.services.experiment import trust
from rltui.services.experiment.checkout import NearbyCheckout, console_scripts, generation_of, interpreter

_CONFIGS = "packages/prime-rl-configs/src/prime_rl/configs"


def near(
    workspace: Path, *config_files: Path, environment: Mapping[str, str] | None = None
) -> NearbyCheckout:
    return NearbyCheckout(
        CHECKOUT, workspace=workspace, config_files=config_files, environment=environment or {}
    )


def make_checkout(folder: Path, *trees: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "prime-rl"\n')
    for tree in trees:
        (folder / tree).mkdir(parents=True)
    return folder


def make_programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def test_find_prefers_the_workspace_then_the_variable_then_what_is_above_the_config(tmp_path: Path) -> None:
    here = make_checkout(tmp_path / "here")
    named = make_checkout(tmp_path / "named")
    above = make_checkout(tmp_path / "above")
    config = above / "configs/deep/rl.toml"
    variable = {"RLTUI_PRIME_RL": str(named)}
    assert near(here, config, environment=variable).folder == here
    assert near(tmp_path, config, environment=variable).folder == named
    assert near(tmp_path, config).folder == above
    assert near(above / "work").folder == above
    assert near(tmp_path, tmp_path / "rl.toml").folder is None


def test_find_looks_into_a_project_that_contains_one(tmp_path: Path) -> None:
    """Finding C5: med-lm-train has it as a submodule."""
    checkout = make_checkout(tmp_path / "med" / "prime-rl")
    config = tmp_path / "med/configs/rl.toml"
    assert near(tmp_path, config).folder == checkout
    assert near(tmp_path / "med").folder == checkout


def test_variable_that_names_something_else_is_refused(tmp_path: Path) -> None:
    variable = {"RLTUI_PRIME_RL": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"RLTUI_PRIME_RL names .* not a checkout of prime-rl"):
        _ = near(tmp_path, environment=variable).folder
    prefix = near(tmp_path, environment=variable).run_prefix()
    assert isinstance(prefix, Missing)


@pytest.mark.parametrize(
    ("trees", "generation"),
    [
        ((f"{_CONFIGS}/monitors.py", "src/prime_rl/entrypoints"), "prime-rl"),
        ((f"{_CONFIGS}/eval.py", "src/prime_rl/entrypoints"), "prime-rl"),
        ((f"{_CONFIGS}/rl.py", "src/prime_rl/entrypoints"), "prime-rl-merged"),
        (("src/prime_rl/entrypoints",), "prime-rl-merged"),
        (("src/prime_rl/configs",), "prime-rl-merged"),
        (("src/prime_rl/trainer",), "prime-rl-split"),
        ((), None),
    ],
)
def test_generation_is_told_by_the_tree(
    tmp_path: Path, trees: tuple[str, ...], generation: str | None
) -> None:
    checkout = make_checkout(tmp_path / "prime", *trees)
    assert generation_of(checkout, CHECKOUT) == generation
    assert near(checkout).generation == generation


def test_prefix_is_uv_run_in_the_checkout_and_names_it_from_elsewhere(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "prime")
    config = checkout / "rl.toml"
    path = {"PATH": str(make_programs(tmp_path / "bin", "uv"))}
    inside = near(checkout, config, environment=path).run_prefix()
    assert inside == ("uv", "run")
    outside = near(tmp_path, config, environment=path).run_prefix()
    assert outside == ("uv", "run", "--project", str(checkout))


def test_an_environment_that_is_newer_than_what_uv_goes_by_is_run_as_it_is(tmp_path: Path) -> None:
    """R11: uv would go to the network, and put its own versions in the place of those that were chosen."""
    checkout = make_checkout(tmp_path / "prime")
    (checkout / "uv.lock").touch()
    path = {"PATH": str(make_programs(tmp_path / "bin", "uv"))}
    programs = make_programs(checkout / ".venv/bin", *CHECKOUT.programs)

    def prefix() -> tuple[str, ...] | Missing:
        return near(checkout, environment=path).run_prefix()

    assert prefix() == ("env", f"VIRTUAL_ENV={checkout}/.venv", f"PATH={programs}:{tmp_path}/bin")
    later = time.time() + 10
    os.utime(checkout / "uv.lock", (later, later))
    assert prefix() == ("uv", "run"), "a pull has brought other versions"
    os.utime(programs / "rl", (later + 1, later + 1))
    assert prefix() != ("uv", "run")
    (programs / "trainer").unlink()
    assert prefix() == ("uv", "run"), "it has not all programs"


def test_prefix_without_uv_puts_the_environment_first(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "prime")
    path = {"PATH": str(tmp_path / "bin")}
    prefix = near(checkout, environment=path).run_prefix()
    assert isinstance(prefix, Missing)
    assert "uv sync" in prefix.hint
    programs = make_programs(checkout / ".venv/bin", "rl")
    prefix = near(checkout, environment=path).run_prefix()
    assert prefix == ("env", f"VIRTUAL_ENV={checkout}/.venv", f"PATH={programs}:{tmp_path}/bin")


def test_programs_on_the_path_need_no_checkout(tmp_path: Path) -> None:
    folder = make_programs(tmp_path / "bin", *CHECKOUT.programs)
    path = {"PATH": str(folder)}
    assert near(tmp_path, environment=path).run_prefix() == ()
    (folder / "trainer").unlink()
    prefix = near(tmp_path, environment=path).run_prefix()
    assert isinstance(prefix, Missing)
    assert "--workspace" in prefix.hint


def test_console_scripts_tell_what_they_call(tmp_path: Path) -> None:
    """Of 0.3, which has one evaluator for environments and one for tasksets."""
    info = tmp_path / "lib/python3.12/site-packages/verifiers-0.3.1.dev59.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(
        "[console_scripts]\neval = verifiers.v1.cli.eval.main:main\n"
        "vf-eval = verifiers.legacy.scripts.eval:main\n"
    )
    (info.with_name("prime_rl-0.8.0.dist-info")).mkdir()
    assert console_scripts(tmp_path / "bin", ["verifiers", "prime-rl", "none"]) == {
        "eval": Program("0.3.1.dev59", "verifiers.v1.cli.eval.main:main"),
        "vf-eval": Program("0.3.1.dev59", "verifiers.legacy.scripts.eval:main"),
    }


def test_interpreter_is_that_of_the_checkout_wherever_its_environment_lies(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "prime")
    assert interpreter(checkout, environment={}) is None
    elsewhere = {"UV_PROJECT_ENVIRONMENT": str(tmp_path / "env")}
    programs = make_programs(tmp_path / "env/bin", "python")
    assert interpreter(checkout, environment=elsewhere) == (str(programs / "python"),)
    programs = make_programs(checkout / ".venv/bin", "python")
    assert interpreter(checkout, environment=elsewhere) == (str(programs / "python"),)


def test_trust_is_given_and_taken_by_folder(own_user: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "a\nb", tmp_path / "other"
    for each in (folder / "inner", other):
        each.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    assert not trust.is_trusted(folder)
    for each in (folder, other, folder):
        trust.trust(each)
    assert len((own_user / "state/rltui/trusted.jsonl").read_text().splitlines()) == 2
    assert trust.is_trusted(folder / "inner")
    assert trust.is_layout_trusted(folder / "inner" / "layout.toml")
    assert trust.is_trusted(tmp_path / "link")
    assert not trust.is_trusted(tmp_path)
    trust.distrust(tmp_path / "link")
    assert not trust.is_trusted(folder / "inner")
    assert trust.is_trusted(other)
    trust.distrust(tmp_path)
    assert not trust.is_trusted(other)


def test_a_start_trusts_what_it_runs_and_nothing_below(own_user: Path, tmp_path: Path) -> None:
    home = make_checkout(tmp_path / "home")
    foreign = make_checkout(home / "dl" / "foreign")
    layout = home / "my.toml"
    layout.write_text("# mine\n")
    shutil.copy(layout, foreign / "my.toml")
    started = registry.get("prime-rl")
    trust.trust_programs(layout, started, workspace=home, config_files=())
    trust.trust_programs(layout, started, workspace=home, config_files=())
    assert len((own_user / "state/rltui/trusted.jsonl").read_text().splitlines()) == 2
    assert trust.is_layout_trusted(layout)
    assert trust.is_trusted(home)
    assert not trust.is_trusted(foreign)
    assert not trust.is_layout_trusted(foreign / "my.toml")
    layout.write_text("# another's\n")
    assert not trust.is_layout_trusted(layout)
    trust.trust_programs(layout, started, workspace=home, config_files=())
    assert trust.is_layout_trusted(layout)
    trust.distrust(home)
    assert not trust.is_layout_trusted(layout)
    assert not trust.is_trusted(home)


def test_the_users_layouts_and_ours_are_trusted(own_user: Path) -> None:
    assert trust.is_layout_trusted(own_user / "config/rltui/layouts/mine.toml")
    assert trust.is_layout_trusted(paths.shipped_dir("layouts") / "prime-rl.toml")


def test_a_damaged_list_trusts_what_can_be_read(own_user: Path, tmp_path: Path) -> None:
    trust.trust(tmp_path / "a")
    with (own_user / "state/rltui/trusted.jsonl").open("ab") as file:
        file.write(b'\xff\n[1]\nhalf\n{"tree": "x"}\n{"tree": 3}\n{}\n')
    trust.trust(tmp_path / "b")
    assert trust.is_trusted(tmp_path / "a")
    assert trust.is_trusted(tmp_path / "b")
    assert not trust.is_trusted(tmp_path)
