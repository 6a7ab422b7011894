from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from rltui.tinyrl.files import (
    BASE_NAME,
    append_json_line,
    new_file,
    new_folder,
    new_model_folder,
    remove_partials,
    set_aside_after,
)


def test_failed_file_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), new_file(target) as partial:  # noqa: PT012 - the block is what fails
        partial.write_text("half")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "old"


def test_folder_appears_whole_and_replaces(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with new_folder(tmp_path / "out") as partial:
            (partial / "a").write_text(text)
            assert not (tmp_path / "out").exists() or text == "second"
    assert (tmp_path / "out" / "a").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_interrupted_model_folder_does_not_appear(tmp_path: Path) -> None:
    with pytest.raises(SystemExit), new_model_folder(tmp_path / "model") as partial:  # noqa: PT012 - as above
        (partial / "config.json").touch()
        raise SystemExit(143)
    assert list(tmp_path.iterdir()) == []


def test_model_folder_keeps_what_others_put_there(tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / ".rltui").mkdir(parents=True)
    (model / "config.json").write_text("old")
    for word in ("first", "second"):
        with new_model_folder(model) as partial:
            (partial / "config.json").write_text("new")
            (partial / "weights").write_text("w")
            (partial / BASE_NAME).mkdir()
            (partial / BASE_NAME / "weights").write_text(word)
    assert sorted(path.name for path in model.iterdir()) == [".rltui", BASE_NAME, "config.json", "weights"]
    assert (model / BASE_NAME / "weights").read_text() == "second"
    assert (model / "config.json").read_text() == "new"


def test_rows_of_several_writers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"

    def write(writer: int) -> None:
        for row in range(50):
            append_json_line(path, {"writer": writer, "row": row, "padding": "x" * 500})

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({(row["writer"], row["row"]) for row in rows}) == 200


def test_steps_beyond_the_start_are_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (1, 2, 10):
        (tmp_path / "rollouts" / f"step_{step}").mkdir(parents=True)
    set_aside_after(tmp_path, "rollouts", 1, "0123456789")
    assert [path.name for path in (tmp_path / "rollouts").iterdir()] == ["step_1"]
    (attic,) = (tmp_path / "superseded").glob("*-012345")
    assert sorted(path.name for path in (attic / "rollouts").iterdir()) == ["step_10", "step_2"]
    assert f"Moved rollouts of steps 2-10 of an earlier attempt to {attic}" in capsys.readouterr().out
    set_aside_after(tmp_path, "rollouts", 1, "another")
    assert len([*(tmp_path / "superseded").iterdir()]) == 1


def test_leftovers_of_killed_writers_go(tmp_path: Path) -> None:
    (tmp_path / "broadcasts" / ".step_3.partial-17").mkdir(parents=True)
    (tmp_path / "broadcasts" / ".step_4.retired-17").touch()
    (tmp_path / "broadcasts" / ".keep").touch()
    (tmp_path / "broadcasts" / "step_2").mkdir()
    remove_partials(tmp_path, "broadcasts/.*")
    assert sorted(path.name for path in (tmp_path / "broadcasts").iterdir()) == [".keep", "step_2"]
