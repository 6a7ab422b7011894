"""Files that others may have written, as a download or a shared disk brings them: nothing of them acts."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine
from tests.fakes.past_run import write_finished_run

from rltui.cli import main
from rltui.client.local_runs import LocalRuns
from rltui.core.hosts.specs import SlurmSpec
from rltui.core.runs.row import RunChange
from rltui.errors import ConfigError, ConflictError
from rltui.services.hosts.slurm import directive
from rltui.services.runs import organize
from rltui.services.runs.index import RunIndex, index_file
from rltui.services.runs.metadata import path_id
from rltui.settings import load

GOOD = {"id": "0123456789", "created_at": 1.8e9}
BAD_SHEETS: dict[str, Any] = {
    "up": GOOD | {"id": "../../../../user/.bashrc"},
    "nul": GOOD | {"id": "a\0b"},
    "number": GOOD | {"id": 7},
    "long": GOOD | {"id": "x" * 5000},
    "parent": GOOD | {"parent": ["a"]},
    "foreign-parent": GOOD | {"parent": "../x"},
    "note": GOOD | {"note": {"a": 1}},
    "time": GOOD | {"created_at": "now"},
    "late": GOOD | {"created_at": 1e300},
    "step": GOOD | {"parent_step": 10**40},
    "tags": GOOD | {"tags": ["a", 3]},
    "lines": GOOD | {"group": "a\nb"},
    "list": [GOOD],
    "bare": "text",
}


def everything(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_dir()}


def test_a_foreign_sheet_writes_nowhere_and_hides_no_run(
    own_user: Path, tmp_path: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    write_finished_run(tmp_path / "out" / "sound")
    for name, sheet in BAD_SHEETS.items():
        write_finished_run(tmp_path / "dl" / name)
        (tmp_path / "dl" / name / ".rltui" / "run.json").write_text(json.dumps(sheet))
    state = own_user / "state" / "rltui"
    shutil.rmtree(state)  # they came by a download: nobody knows them yet
    (own_user / ".bashrc").write_text("# mine\n")
    write_finished_run(tmp_path / "out" / "sound")
    outside = everything(tmp_path) - everything(state)

    assert main(["runs", "add", str(tmp_path / "dl")]) == 0
    assert "run.json is damaged: id is '../../../../user/.bashrc'" in capsys.readouterr().err
    rows = {row["name"]: row for row in cli.json("runs", "--full")["runs"]}
    assert {name: row["state"] for name, row in rows.items()} == dict.fromkeys(("sound", *BAD_SHEETS), "done")
    assert {row["note"] for row in rows.values()} == {""}
    cli("runs", "tag", "sound", "+baseline")
    cli("runs", "--rebuild")
    cli("runs", "rm", "up", "--yes")
    cli("runs", "rm", "note", "--yes")
    cli("runs", "restore", "up")
    assert cli("runs", "note", "nul", "x", code=3).startswith("rltui: ")
    kept = everything(tmp_path) - everything(state)
    assert all({".rltui", ".rltui-trash"} & {*path.parts} for path in kept - outside)
    assert all(path.is_relative_to(tmp_path / "dl" / "note") for path in outside - kept)
    assert (own_user / ".bashrc").read_text() == "# mine\n"
    assert not [*state.glob("*.damaged*")], "the index is sound"
    names = {path.name for path in (state / "runs").iterdir()}
    assert names == {row.id for row in RunIndex().rows()}


def test_a_damaged_copy_takes_no_place_of_the_run_that_it_was_copied_from(
    own_user: Path, tmp_path: Path, cli: CommandLine
) -> None:
    write_finished_run(tmp_path / "out" / "mine")
    (mine,) = cli.json("runs", "--full")["runs"]
    shutil.copytree(tmp_path / "out" / "mine", tmp_path / "dl" / "theirs")
    (tmp_path / "dl/theirs/.rltui/run.json").write_text(json.dumps(GOOD | {"id": mine["id"], "note": 3}))
    cli("runs", "add", str(tmp_path / "dl"))
    rows = {row["folder"]: row for row in cli.json("runs", "--full")["runs"]}
    assert rows[mine["folder"]] == mine
    theirs = rows[str(tmp_path / "dl" / "theirs")]
    assert (theirs["state"], theirs["id"]) == ("done", path_id(tmp_path / "dl/theirs/.rltui"))


def test_ids_that_an_older_index_believed_name_no_file(
    own_user: Path, tmp_path: Path, cli: CommandLine
) -> None:
    write_finished_run(tmp_path / "out" / "a")
    cli("runs")
    with sqlite3.connect(index_file()) as connection:
        connection.executescript(
            "CREATE TEMP TABLE copied AS SELECT * FROM run; UPDATE copied SET id = '../../x', name = 'b';"
            "INSERT INTO run SELECT * FROM copied"
        )
    (own_user / "state/rltui/runs/.hidden").write_text("{}")
    assert [row["name"] for row in cli.json("runs", "--full")["runs"]] == ["a", "a"]
    cli("runs", "tag", "a", "+x")


def test_a_trash_that_another_made_is_not_used(own_user: Path, tmp_path: Path, cli: CommandLine) -> None:
    write_finished_run(tmp_path / "out" / "a")
    (tmp_path / "elsewhere").mkdir()
    trash = tmp_path / "out" / ".rltui-trash"
    trash.symlink_to(tmp_path / "elsewhere")
    assert "is not trusted: it is a symbolic link" in cli("runs", "rm", "a", "--yes", code=4)
    trash.unlink()
    trash.mkdir()
    if os.getuid() == 0:
        os.chown(trash, 12345, 12345)
        assert "it belongs to another user" in cli("runs", "rm", "a", "--yes", code=4)
    assert (tmp_path / "out" / "a").is_dir()
    assert not [*(tmp_path / "elsewhere").iterdir(), *trash.iterdir()]


def test_rm_says_what_no_run_wrote_and_the_screen_does_not_take_it_along(
    own_user: Path,
    tmp_path: Path,
    cli: CommandLine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(organize, "_CLOCK_SLACK_S", -60.0)  # what is as new as the run counts as older
    mine = tmp_path / "mine"
    (mine / "data").mkdir(parents=True)
    (mine / "thesis.tex").write_text("x")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to(mine)
    write_finished_run(tmp_path / "out" / "a")
    write_finished_run(tmp_path / "out" / "b")
    for name in "ab":
        sheet = tmp_path / "out" / name / ".rltui" / "run.json"
        cli("runs", "note", name, "x")
        at = time.time() - (0 if name == "a" else 3600)
        sheet.write_text(json.dumps(json.loads(sheet.read_text()) | {"created_at": at}))
    plan = cli.json("runs", "rm", "a", "b", "--plan")
    before = {each["name"]: each["there_before"] for each in plan["go"]}
    assert {"data", "thesis.tex"} <= {*before["a"]}
    assert before["b"] == []
    runs = LocalRuns()
    (row,) = (row for row in runs.rows() if row.name == "a")
    with pytest.raises(
        ConflictError, match=r"has files older than the run: data, metrics\.jsonl and thesis\.tex"
    ):
        runs.change(row.id, RunChange(is_trashed=True))
    assert (mine / "thesis.tex").exists()
    main(["runs", "rm", "a", "b", "--yes"])
    said = capsys.readouterr().err
    assert f"a: {tmp_path}/out/a is a link; its target moves: {mine}" in said
    assert "a: includes files that were in its folder before the run: " in said
    assert "b: " not in said
    assert "to the trash" not in said, "who says --yes has seen the plan"
    cli("runs", "restore", "a", "b")
    assert (mine / "thesis.tex").exists()
    main(["runs", "rm", "b"])
    assert "1 to the trash, " in capsys.readouterr().err


def test_a_folder_whose_name_is_no_text_is_left_out(
    own_user: Path, tmp_path: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    write_finished_run(tmp_path / "out" / "a")
    write_finished_run(tmp_path / "out" / "b")
    cli("runs")
    odd = Path(os.fsdecode(os.fsencode(tmp_path / "out") + b"/b\xff"))
    (tmp_path / "out" / "b").rename(odd)
    main(["runs"])
    assert "is skipped: its path is not UTF-8" in capsys.readouterr().err
    states = {row["name"]: row["state"] for row in cli.json("runs", "--full")["runs"]}
    assert states["a"] == "done"
    config = tmp_path / "rl.toml"
    shutil.copy(tmp_path / "out" / "a.toml", config)
    place = os.fsdecode(os.fsencode(tmp_path) + b"/new\xff")
    assert "is not UTF-8" in cli("up", str(config), "-o", place, "-n", "odd", code=3)
    assert not os.path.lexists(place)


def test_what_is_typed_at_great_length_is_refused_in_words(
    own_user: Path, tmp_path: Path, cli: CommandLine
) -> None:
    many, digits = 3000, "9" * 5000
    assert "more than 50 nested parentheses" in cli("runs", "(" * 1000 + "a" + ")" * 1000, code=2)
    assert "filter too long (5000 characters, at most 4000)" in cli("runs", "(" * 5000, code=2)
    assert "invalid regular expression" in cli("runs", f"name:~{'(' * 1500}a{')' * 1500}", code=2)
    cli("runs", "not " * 900 + "a")
    config = tmp_path / "rl.toml"
    shutil.copy(write_finished_run(tmp_path / "out" / "a").config_files[0], config)
    for rule in ("(" * many, f"reward < 1 at {digits}", f"reward < {'(' * 200}"):
        cli("queue", "add", str(config), "--stop-if", rule, code=2)
    cli("queue", "move", "a", digits, code=2)
    cli("queue", "limit", digits, code=2)
    cli("checkpoints", "use", "a", digits, code=2)
    cli("up", f"{digits}.toml", code=2)
    settings = own_user / "config/rltui/settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    for key in (".".join(["a"] * 20_000), ".".join(['"a b"'] * 20_000), " . ".join(["a"] * 20_000)):
        settings.write_text(f"{key} = 1\n")
        begun = time.process_time()
        with pytest.raises(ConfigError, match="a key with more than 100 parts"):
            load(settings)
        assert time.process_time() - begun < 1
    settings.write_text(f'theme = "{"a" * 200_000}"\n')
    assert load(settings).theme


@pytest.mark.parametrize("option", ["--x=a\ntouch ran", "--comment=a\rb", "--x\x1b=1", "--x=a\u2028b"])
def test_no_option_leaves_its_line_of_a_job_script(option: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        directive(option)
    for given in ({"options": (option,)}, {"job_name": option}):
        with pytest.raises(ValueError, match="control character"):
            SlurmSpec.model_validate(given)
