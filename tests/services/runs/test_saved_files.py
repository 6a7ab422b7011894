"""What a person keeps of an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.errors import RltuiError
from rltui.services.experiment.files import SavedFiles


def test_pins_come_back(tmp_path: Path) -> None:
    kept = SavedFiles(tmp_path / ".rltui")
    assert kept.pins() == ()
    kept.save_pins(["loss", "trainer:perf/mfu"])
    assert SavedFiles(tmp_path / ".rltui").pins() == ("loss", "trainer:perf/mfu")


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "[1, null]"])
def test_a_damaged_file_of_pins_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "pins.json").write_text(content)
    assert SavedFiles(tmp_path).pins() == ()


def test_an_export_never_takes_the_place_of_another(tmp_path: Path) -> None:
    kept = SavedFiles(tmp_path)
    first = kept.save("loss/mean.svg", "one")
    second = kept.save("loss/mean.svg", "two")
    assert [path.name for path in (first, second)] == ["loss-mean.svg", "loss-mean-2.svg"]
    assert first.read_text() == "one"
    assert first.parent == tmp_path / "exports"


def test_a_name_from_outside_stays_in_the_folder(tmp_path: Path) -> None:
    for name in ("../../etc/passwd", "\x1b[31m.csv", "", "..", "a" * 500 + ".csv"):
        assert SavedFiles(tmp_path).save(name, "").parent == tmp_path / "exports"


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "exports").write_text("in the way")
    with pytest.raises(RltuiError, match="cannot create the folder"):
        SavedFiles(tmp_path).save("loss.csv", "")
