"""Back from a run's own copy to the user's files: three sides, key by key."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.runs import run_row

from rltui.client.promote import plan_promotion, plan_undo, promote
from rltui.client.reader import ExperimentReader
from rltui.core.experiment.api import Request
from rltui.core.runs.row import RunRow
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.services.config import origins
from rltui.services.config.document import ConfigDocument
from rltui.services.config.origins import ConfigOrigin
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.journal import read_journal
from rltui.services.own_files import make_folder
from rltui.services.runs.catalog import record_of

pytestmark = pytest.mark.usefixtures("own_user")
BEGAN = '# mine\nsteps = 3  # few\nlr = 0.1\n\n[model]\nname = "a"\nsize = 1\n'
LAYOUT = 'framework = "generic"\n[[component]]\nid = "a"\ncommand = ["true", "{config.mine}"]\n'


def made(folder: Path, files: dict[str, str], *, began: str, copy: str) -> RunRow:
    """A run with a copy of `files`."""
    for name, text in files.items():
        (folder / name).write_text(text)
    output = folder / "out"
    control = ControlFolder(output)
    own = control.path / "config"
    make_folder(own, mode=0o700)
    (own / "mine.toml").write_text(copy)
    origins.save(own, {"mine.toml": ConfigOrigin(tuple(str(folder / name) for name in files), began)})
    (folder / "lay.toml").write_text(LAYOUT)
    control.write_record(record(folder, "run", output, own / "mine.toml"))
    return run_row("run", folder=str(output), control=str(control.path), framework="generic")


def record(folder: Path, name: str, output: Path, config: Path) -> ExperimentRecord:
    return ExperimentRecord(
        name=name,
        output_dir=str(output),
        workspace=str(folder),
        config_files=(str(config),),
        layout_file=str(folder / "lay.toml"),
        framework="generic",
        created_at=1.0,
    )


def test_what_only_the_run_changed_is_written(tmp_path: Path) -> None:
    now = BEGAN.replace("size = 1", "size = 2").replace("few", "very few")
    copy = BEGAN.replace("steps = 3", "steps = 5").replace("size = 1", "size = 9").replace("lr = 0.1\n", "")
    row = made(tmp_path, {"mine.toml": now}, began=BEGAN, copy=copy + "new = true\n")
    promotion = plan_promotion(row)
    (refused,) = promotion.refused
    assert refused == f"model.size: was 1, is 2 in {tmp_path / 'mine.toml'} and 9 in the run"
    assert (tmp_path / "mine.toml").read_text() == now, "planned only"
    (undo,) = promote(promotion)
    text = (tmp_path / "mine.toml").read_text()
    assert text == '# mine\nsteps = 5  # very few\n\n[model]\nname = "a"\nsize = 2\nnew = true\n'
    assert undo == "to undo: rltui promote run --undo"
    back = plan_undo(row)
    assert promote(back) == ()
    assert (tmp_path / "mine.toml").read_text() == now, "to the byte"
    with pytest.raises(ConflictError, match="no promotion to undo"):
        plan_undo(row)
    entries = read_journal(ControlFolder(tmp_path / "out").journal_file)
    assert [entry.text.partition(":")[0] for entry in entries if entry.kind == "promote"] == [
        f"promoted into {tmp_path / 'mine.toml'}",
        f"undone in {tmp_path / 'mine.toml'}",
    ]
    assert all(entry.by is not None and entry.by.kind == "cli" for entry in entries)


def test_a_promotion_is_taken_back_only_where_the_file_is_as_it_left_it(tmp_path: Path) -> None:
    row = made(tmp_path, {"mine.toml": BEGAN}, began=BEGAN, copy=BEGAN.replace("steps = 3", "steps = 5"))
    with pytest.raises(ConflictError, match="no promotion"):
        plan_undo(row)
    promote(plan_promotion(row))
    (tmp_path / "mine.toml").write_text("steps = 8\n")
    with pytest.raises(ConflictError, match="changed since"):
        plan_undo(row)
    journal = ControlFolder(tmp_path / "out").journal_file
    (tmp_path / "theirs.toml").write_text("a = 1\n")
    journal.write_text(journal.read_text().replace("mine.toml", "theirs.toml"))
    with pytest.raises(ConfigError, match="is not one of the source files of run"):
        plan_undo(row)


def test_undo_names_the_promotion_that_it_does_not_reach(tmp_path: Path) -> None:
    row = made(tmp_path, {"mine.toml": BEGAN}, began=BEGAN, copy=BEGAN.replace("steps = 3", "steps = 5"))
    run = record_of(row)

    def document() -> ConfigDocument:
        return ExperimentReader(run).document_to_edit()

    undo, edit = Request(action="undo"), Request(action="set", edits={"lr": 0.2})
    with pytest.raises(ConflictError) as before:
        document().proposed(undo)
    assert "promote" not in before.value.hint
    promote(plan_promotion(row))
    with pytest.raises(ConflictError) as after:
        document().proposed(undo)
    assert after.value.hint.endswith("rltui promote run --undo")
    document().commit(document().proposed(edit))
    (whose,) = document().proposed(undo).reasons
    assert whose.endswith("lr 0.1 → 0.2"), "the edit is newer"
    promote(plan_promotion(row))
    (_, reason) = document().proposed(undo).reasons
    assert reason == "promoted values stay in your files; to undo the promotion: rltui promote run --undo"
    promote(plan_undo(row))
    assert document().proposed(undo).reasons == (whose,)


def test_a_file_that_changes_meanwhile_is_left_alone(tmp_path: Path) -> None:
    row = made(tmp_path, {"mine.toml": BEGAN}, began=BEGAN, copy=BEGAN.replace("3", "5"))
    promotion = plan_promotion(row)
    (tmp_path / "mine.toml").write_text("steps = 8\n")
    with pytest.raises(ConflictError, match="changed by someone else"):
        promote(promotion)
    assert (tmp_path / "mine.toml").read_text() == "steps = 8\n"


def test_of_merged_files_the_one_that_says_it_last_is_changed(tmp_path: Path) -> None:
    files = {"base.toml": "lr = 0.1\nsteps = 1\n", "over.toml": "steps = 3\n"}
    copy = "lr = 0.2\nsteps = 5\nmore = 1\n"
    promotion = plan_promotion(made(tmp_path, files, began="lr = 0.1\nsteps = 3\n", copy=copy))
    assert [reason.partition(":")[0] for reason in promotion.refused] == ["more"]
    promote(promotion)
    assert (tmp_path / "base.toml").read_text() == "lr = 0.2\nsteps = 1\n"
    assert (tmp_path / "over.toml").read_text() == "steps = 5\n"


def test_an_experiment_that_reads_the_file_can_undo_it(tmp_path: Path) -> None:
    row = made(tmp_path, {"mine.toml": BEGAN}, began=BEGAN, copy=BEGAN.replace("steps = 3", "steps = 5"))
    ControlFolder(tmp_path / "other").write_record(
        record(tmp_path, "other", tmp_path / "other", tmp_path / "mine.toml")
    )
    promotion = plan_promotion(row)
    assert promotion.notes == ("other also reads the file, and will use the new values at its next start",)
    assert promote(promotion) == ("to undo: rltui promote run --undo",)
    assert "steps = 5  # few" in (tmp_path / "mine.toml").read_text()
    promote(plan_undo(row))
    assert (tmp_path / "mine.toml").read_text() == BEGAN
    assert '"edit"' in ControlFolder(tmp_path / "other").journal_file.read_text()
    with pytest.raises(UsageError, match="other has no copy of its own"):
        plan_promotion(run_row("other", control=str(tmp_path / "other/.rltui"), framework="generic"))
