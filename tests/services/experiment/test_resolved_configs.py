"""Files that a framework makes from a config for its programs."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from rltui.base.template import Missing
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.frameworks.launch import Resolution
from rltui.services.experiment.resolved_configs import CACHE_TTL_S, ResolvedFiles, Resolver

FILES: ConfigFiles = {"rl": ConfigFile("rl", "/c/rl.toml", {"max_steps": 3, "clean": True})}
RESOLUTION = Resolution(
    edits={"rl": {"output_dir": "{scratch}/out", "clean": None}},
    commands=(("make.py", "@", "{input.rl}", "--into", "{scratch}/out"),),
    outputs={"trainer": ("out/trainer.toml",), "env": ("out/envs/*.json",)},
    replaced={"{scratch}/out": "/real"},
)
MAKES = """
    import json, pathlib, sys, tomllib
    count = pathlib.Path("count"); count.write_text((count.read_text() if count.exists() else "") + "x")
    data = tomllib.loads(pathlib.Path(sys.argv[2]).read_text())
    out = pathlib.Path(sys.argv[4]); (out / "envs").mkdir(parents=True)
    assert data["output_dir"] == str(out) and "clean" not in data
    (out / "trainer.toml").write_text(f'steps = {data["max_steps"]}\\ndir = "{out}/here"\\n')
    (out / "envs/Math.json").write_text(json.dumps({"dir": str(out), "none": None}))
"""


def program(folder: Path, source: str) -> tuple[str, ...]:
    (folder / "make.py").write_text(textwrap.dedent(source))
    return (sys.executable,)


def make(folder: Path, run: tuple[str, ...] | Missing, resolution: Resolution = RESOLUTION) -> ResolvedFiles:
    resolver = Resolver(folder / "resolved", workspace=folder)
    return asyncio.run(resolver.make([resolution], FILES, run=run, into=folder / "attempt"))


def scratch_folders(folder: Path) -> list[Path]:
    return list((folder / "resolved").glob("scratch-*"))


def test_outputs_are_kept_with_the_real_folders_and_nothing_else(tmp_path: Path) -> None:
    made = make(tmp_path, program(tmp_path, MAKES))
    trainer, env = (Path(made.files[name]) for name in ("trainer", "env.Math"))
    assert trainer == tmp_path / "attempt/trainer.toml"
    assert tomllib.loads(trainer.read_text()) == {"steps": 3, "dir": "/real/here"}
    assert json.loads(env.read_text()) == {"dir": "/real", "none": None}
    assert set(made.files) == {"trainer", "env.Math"}
    assert {path.stat().st_mode & 0o777 for path in (trainer, env)} == {0o600}, "finding H3"
    assert not scratch_folders(tmp_path)


def test_same_config_is_resolved_once_also_by_several_at_a_time(tmp_path: Path) -> None:
    run = program(tmp_path, MAKES)
    resolver = Resolver(tmp_path / "resolved", workspace=tmp_path)
    noted = replace(RESOLUTION, notes=("one", "two"))

    async def both() -> list[ResolvedFiles]:
        folders = (tmp_path / "one", tmp_path / "two")
        return await asyncio.gather(*(resolver.make([noted], FILES, run=run, into=into) for into in folders))

    first, second = asyncio.run(both())
    assert (tmp_path / "count").read_text() == "x"
    assert [first.notes, second.notes] == [("one; two",), ()], "of what was made anew"
    assert Path(second.files["trainer"]).read_text() == Path(first.files["trainer"]).read_text()
    make(tmp_path, run, replace(RESOLUTION, edits={"rl": {**RESOLUTION.edits["rl"], "max_steps": 4}}))
    assert (tmp_path / "count").read_text() == "xx"


def test_next_command_is_tried_only_where_an_option_is_unknown(tmp_path: Path) -> None:
    source = "import sys\nif '--into' in sys.argv: sys.exit(2)\n" + textwrap.dedent(MAKES)
    older = ("make.py", "@", "{input.rl}", "--dump", "{scratch}/out")
    resolution = replace(RESOLUTION, commands=(*RESOLUTION.commands, older))
    assert "trainer" in make(tmp_path, program(tmp_path, source), resolution).files


def test_unknown_options_say_what_else_can_be_done(tmp_path: Path) -> None:
    run = program(tmp_path, "import sys; print('error: unrecognized arguments: --into'); sys.exit(2)")
    with pytest.raises(ConfigError) as caught:
        make(tmp_path, run, replace(RESOLUTION, unsupported="use --layout one"))
    assert caught.value.details == ("error: unrecognized arguments: --into",)
    assert caught.value.hint == "use --layout one"


def test_refusal_shows_its_last_words_without_frames(tmp_path: Path) -> None:
    says = r'print("╭─ Config error ─╮\n│ \x1b[31mseq_len\x1b[0m is wrong │\n╰───╯")'
    run = program(tmp_path, f"import sys; {says}; sys.exit(1)")
    with pytest.raises(ConfigError, match=r"make\.py rejects the config \(exit code 1\)") as caught:
        make(tmp_path, run)
    assert caught.value.details == ("Config error", "seq_len is wrong")
    assert not scratch_folders(tmp_path)


def test_command_that_never_ends_is_ended_with_its_children(tmp_path: Path) -> None:
    program(tmp_path, "sleep 600 & echo $! > pids; echo thinking; sleep 600")
    with pytest.raises(RltuiError, match="did not finish within"):
        make(tmp_path, ("sh",), replace(RESOLUTION, timeout_s=0.3))
    child = int((tmp_path / "pids").read_text())
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_missing_output_is_an_error_unless_it_is_optional(tmp_path: Path) -> None:
    resolution = replace(RESOLUTION, outputs={**RESOLUTION.outputs, "inference": ("out/inference.toml",)})
    with pytest.raises(ConfigError, match="the config of inference was not written") as caught:
        make(tmp_path, program(tmp_path, MAKES), replace(resolution, unsupported="take another layout"))
    assert caught.value.hint == "take another layout"
    assert (
        "inference"
        not in make(
            tmp_path, program(tmp_path, MAKES), replace(resolution, optional=frozenset({"inference"}))
        ).files
    )


def test_copies_need_no_command_and_no_checkout(tmp_path: Path) -> None:
    resolution = Resolution(edits={"rl": {"output_dir": "/real"}}, outputs={"launcher": ("rl.toml",)})
    made = make(tmp_path, Missing("no checkout"), resolution)
    data = tomllib.loads(Path(made.files["launcher"]).read_text())
    assert data == {"max_steps": 3, "clean": True, "output_dir": "/real"}


def test_without_a_checkout_nothing_can_be_resolved(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no checkout"):
        make(tmp_path, Missing("no checkout", "say where"))


def test_what_was_prepared_is_not_made_again(tmp_path: Path) -> None:
    run = program(tmp_path, MAKES)
    resolver = Resolver(tmp_path / "resolved", workspace=tmp_path)
    _, is_cached = asyncio.run(resolver.prepare(RESOLUTION, FILES, run=run))
    assert not is_cached
    make(tmp_path, run)
    assert (tmp_path / "count").read_text() == "x"


def test_what_was_made_long_ago_is_made_again(tmp_path: Path) -> None:
    run = program(tmp_path, MAKES)
    kept, _ = asyncio.run(
        Resolver(tmp_path / "resolved", workspace=tmp_path).prepare(RESOLUTION, FILES, run=run)
    )
    long_ago = kept.stat().st_mtime - CACHE_TTL_S - 1
    os.utime(kept, (long_ago, long_ago))
    make(tmp_path, run)
    assert (tmp_path / "count").read_text() == "xx"


ATTEMPTS = """
    import json, os, pathlib, sys
    out = pathlib.Path(sys.argv[4])
    for number in (2, 10):
        resolved = out / f"configs/attempt_{number}/resolved"; (resolved / "envs").mkdir(parents=True)
        (resolved / "trainer.json").write_text(json.dumps({"attempt": number}))
        (resolved / "envs/Math.json").write_text(json.dumps({"file": f"{resolved}/envs/Math.address"}))
    if "base_port" in open(sys.argv[2]).read():
        sys.exit("--env.base-port\\n  Extra inputs are not permitted")
"""
PLACES = ("out/configs/attempt_*/resolved", "out/configs")


def attempts(folder: Path) -> Resolution:
    return replace(
        RESOLUTION,
        outputs={
            "trainer": tuple(f"{place}/trainer.json" for place in PLACES),
            "env": tuple(f"{place}/envs/*.json" for place in PLACES),
        },
        replaced={"{scratch}/out/configs/attempt_10/resolved": str(folder / "shared")},
        shared={"trainer": f"{folder}/shared/trainer.json", "env": f"{folder}/shared/envs/*.json"},
        folders=(f"{folder}/logs/x",),
    )


def test_output_is_taken_from_the_first_place_and_the_newest_attempt(tmp_path: Path) -> None:
    made = make(tmp_path, program(tmp_path, ATTEMPTS), attempts(tmp_path))
    assert json.loads(Path(made.files["trainer"]).read_text()) == {"attempt": 10}
    older = """
        import json, pathlib, sys
        configs = pathlib.Path(sys.argv[4]) / "configs"; (configs / "envs").mkdir(parents=True)
        (configs / "trainer.json").write_text("{}"); (configs / "envs/Math.json").write_text("{}")
    """
    other = tmp_path / "older"
    other.mkdir()
    assert set(make(other, program(other, older), attempts(other)).files) == {"trainer", "env.Math"}


def test_shared_copies_lie_where_programs_look_for_them(tmp_path: Path) -> None:
    resolution = attempts(tmp_path)
    made = make(tmp_path, program(tmp_path, ATTEMPTS), resolution)
    shared = tmp_path / "shared/envs/Math.json"
    assert json.loads(shared.read_text()) == {"file": str(shared.with_suffix(".address"))}
    assert shared.read_text() == Path(made.files["env.Math"]).read_text()
    assert (tmp_path / "shared/trainer.json").exists()
    assert (tmp_path / "logs/x").is_dir()
    shared.unlink()
    make(tmp_path, program(tmp_path, ATTEMPTS), resolution)
    assert shared.exists(), "also where nothing was made anew"


def test_edit_that_is_refused_as_unknown_is_left_out_where_it_may(tmp_path: Path) -> None:
    edits = {"rl": {**RESOLUTION.edits["rl"], "env.base_port": 7}}
    resolution = replace(attempts(tmp_path), edits=edits)
    with pytest.raises(ConfigError, match="rejects the config"):
        make(tmp_path, program(tmp_path, ATTEMPTS), resolution)
    allowed = replace(resolution, unless_unknown=frozenset({"env.base_port"}))
    assert "trainer" in make(tmp_path, program(tmp_path, ATTEMPTS), allowed).files


RESUMES = """
    import json, pathlib, sys, tomllib
    count = pathlib.Path("count"); count.write_text((count.read_text() if count.exists() else "") + "x")
    data = tomllib.loads(pathlib.Path(sys.argv[2]).read_text())
    out = pathlib.Path(sys.argv[4]); out.mkdir(parents=True)
    extra = {"other": {"step": data["resume"]["step"]}} if data.get("max_steps") == 4 else {}
    (out / "trainer.json").write_text(json.dumps({"resume": data["resume"], "lr": 60, **extra}))
    (out / "inference.json").write_text(json.dumps({"port": 8000}))
"""


@pytest.mark.parametrize(("max_steps", "runs"), [(3, "x"), (4, "xx")], ids=["plain", "elsewhere too"])
def test_another_step_to_resume_from_needs_no_second_dry_run(
    tmp_path: Path, max_steps: int, runs: str
) -> None:
    """Finding R6: the trainer writes a checkpoint while it is stopped, and all was resolved once more."""
    run = program(tmp_path, RESUMES)
    resolver = Resolver(tmp_path / "resolved", workspace=tmp_path)
    files: ConfigFiles = {"rl": ConfigFile("rl", "/c/rl.toml", {"max_steps": max_steps})}

    def resumed(step: int) -> dict[str, object]:
        resolution = replace(
            RESOLUTION,
            edits={"rl": {"resume.step": step}},
            outputs={"trainer": ("out/trainer.json",), "inference": ("out/inference.json",)},
            moves="resume.step",
        )
        into = tmp_path / f"attempt-{step}"
        made = asyncio.run(resolver.make([resolution], files, run=run, into=into))
        assert json.loads(Path(made.files["inference"]).read_text()) == {"port": 8000}
        assert Path(made.files["trainer"]).stat().st_mode & 0o777 == 0o600
        found: dict[str, object] = json.loads(Path(made.files["trainer"]).read_text())
        return found

    assert resumed(60)["resume"] == {"step": 60}
    assert resumed(75)["resume"] == {"step": 75}
    assert resumed(75)["lr"] == 60
    assert (tmp_path / "count").read_text() == runs


def test_it_is_told_while_the_framework_is_at_work(tmp_path: Path) -> None:
    told: list[bool] = []
    run = program(tmp_path, MAKES)
    resolver = Resolver(tmp_path / "resolved", workspace=tmp_path, notify=told.append)
    for name in ("one", "two"):
        asyncio.run(resolver.make([RESOLUTION], FILES, run=run, into=tmp_path / name))
    assert told == [True, False], "the second is made of the first"
