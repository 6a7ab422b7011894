"""Edits with a memory: bases, conflicts, undo and redo, two writers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.services.config.desk import Desk

from rltui import paths
from rltui.base.toml.values import TomlValue
from rltui.core.experiment.api import Request
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.experiment.files import ExperimentRecord

LAYOUT = paths.shipped_dir("layouts") / "tinyrl.toml"
TEXT = """\
# my run
max_steps = 20   # short
name = "a"

[orchestrator]
batch_size = 128
tags = [
    "x", # first
]

[[env]]
id = "one"

[[env]]
id = "two"
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, TEXT)


def test_undo_restores_the_bytes_after_everything_was_forgotten(desk: Desk) -> None:
    desk.set(max_steps=30, orchestrator__batch_size="unset", env__1__id="zwei")
    changed = desk.text
    desk.set(name="b", orchestrator__tags=["x", "y"])
    assert desk.words() == ('name "a" → "b", orchestrator.tags ["x"] → ["x", "y"]', None)
    desk.reopen()
    desk.undo()
    assert desk.text == changed
    desk.reopen()
    desk.undo()
    assert desk.text == TEXT
    with pytest.raises(ConflictError, match="nothing to undo"):
        desk.undo()
    desk.redo()
    assert desk.text == changed
    desk.redo()
    assert '"y"' in desk.text
    with pytest.raises(ConflictError, match="nothing to redo"):
        desk.redo()


def test_a_hint_names_this_run_where_there_are_others(desk: Desk, own_user: Path) -> None:
    def listed(name: str, output: Path) -> None:
        record = ExperimentRecord(name, str(output), str(own_user), (), str(LAYOUT), "generic", 1.0)
        record.control.write_record(record)

    def hints() -> list[str]:
        with pytest.raises(ConflictError, match="nothing to undo") as refused:
            desk.undo()
        with pytest.raises(ConfigError, match="unknown knob") as unknown:
            desk.set(nosuch=1)
        return [refused.value.hint, unknown.value.hint]

    listed("one", desk.control.path.parent)
    assert hints() == ["rltui events lists the edits", "rltui knobs --all lists all knobs"]
    listed("two", own_user / "two")
    assert hints() == ["rltui events one lists the edits", "rltui knobs one --all lists all knobs"]


def test_undo_keeps_what_others_changed(desk: Desk) -> None:
    desk.set(max_steps=30, name=None)
    desk.path.write_text(desk.text.replace("128", "64") + "# mine\n")
    desk.undo()
    assert desk.text == TEXT.replace('name = "a"\n', "").replace("128", "64").replace(
        "# short\n", '# short\nname = "a"\n'
    ) + "# mine\n"  # fmt: skip


def test_undo_of_a_key_that_others_changed_is_a_conflict(desk: Desk) -> None:
    desk.set(max_steps=30)
    desk.path.write_text(desk.text.replace("30", "31"))
    proposal = desk.document.proposed(Request(action="undo"))
    (conflict,) = proposal.conflicts
    assert [(key.key, key.base, key.theirs, key.yours) for key in conflict.keys] == [
        ("max_steps", 30, 31, 20)
    ]
    with pytest.raises(ConflictError, match="changed since") as caught:
        desk.undo()
    assert caught.value.details[0] == "max_steps: was 30, is 31 now; your edit: 20"
    assert "31" in desk.text


def test_undo_without_the_backup_goes_key_by_key(desk: Desk) -> None:
    desk.history.contents = replace(desk.history.contents, limit=1)
    desk.set(max_steps=30)
    desk.set(name="b")
    backups = list((desk.control.path / "backups").iterdir())
    assert [path.stat().st_mode & 0o777 for path in backups] == [0o600], "finding H3"
    for path in backups:
        path.write_text("damaged")
    desk.reopen()
    desk.undo()
    desk.undo()
    assert desk.text == TEXT


def test_an_edit_on_what_was_not_seen_is_refused_with_three_sides(desk: Desk) -> None:
    desk.document.load()
    base = desk.document.base()
    theirs = TEXT.replace("128", "64")
    desk.path.write_text(theirs)
    fits = Request(action="set", edits={"max_steps": 30}, base=base)
    (conflict,) = desk.document.proposed(fits).conflicts
    assert conflict.keys == ()
    assert "-batch_size = 128\n+batch_size = 64\n" in conflict.theirs
    assert "-max_steps = 20   # short\n+max_steps = 30   # short\n" in conflict.yours
    with pytest.raises(ConflictError) as caught:
        desk.do(fits)
    assert "still applies to the new content" in caught.value.hint
    clash = Request(action="set", edits={"orchestrator.batch_size": 256}, base=base)
    with pytest.raises(ConflictError) as caught:
        desk.do(clash)
    assert caught.value.details[0] == "orchestrator.batch_size: was 128, is 64 now; your edit: 256"
    assert desk.text == theirs
    desk.do(fits.replace(base={}))
    assert desk.text == theirs.replace("20", "30")


def test_a_base_that_nobody_remembers_counts_every_difference(desk: Desk) -> None:
    base = {str(desk.path): "0" * 64}
    proposal = desk.document.proposed(Request(action="set", edits={"max_steps": 30, "name": "a"}, base=base))
    (conflict,) = proposal.conflicts
    assert (conflict.theirs, conflict.yours, [key.key for key in conflict.keys]) == ("", "", ["max_steps"])


def test_a_whole_text_is_validated_recorded_and_taken_back(desk: Desk) -> None:
    new = TEXT.replace("20", "25").replace("# my run", "# our run").replace('id = "two"', 'id = "2"')
    request = Request(action="write", texts={str(desk.path): new})
    proposal = desk.document.proposed(request)
    assert proposal.readers == {"max_steps": ("trainer",), "env.1.id": ("trainer",)}
    desk.do(request)
    assert desk.text == new
    assert desk.words() == ('max_steps 20 → 25, env.1.id "two" → "2"', None)
    desk.undo()
    assert desk.text == TEXT
    with pytest.raises(ConfigError, match=r"run\.toml:1:5"):
        desk.do(Request(action="write", texts={str(desk.path): "x = = 1\n"}))
    with pytest.raises(ConfigError, match="not a config file of this experiment"):
        desk.do(Request(action="write", texts={"/other.toml": ""}))


def test_a_whole_text_on_a_changed_file_names_what_it_would_take_back(desk: Desk) -> None:
    desk.document.load()
    base = desk.document.base()
    desk.path.write_text(TEXT.replace("128", "64"))
    request = Request(action="write", texts={str(desk.path): TEXT.replace("20", "25")}, base=base)
    (conflict,) = desk.document.proposed(request).conflicts
    assert [(key.key, key.theirs, key.yours) for key in conflict.keys] == [
        ("orchestrator.batch_size", 64, 128)
    ]


def test_an_edit_that_changes_nothing_is_not_recorded(desk: Desk) -> None:
    desk.set(max_steps=20)
    assert desk.entries == []
    assert desk.words() == (None, None)


def test_a_failed_write_is_not_recorded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(contents: object) -> None:
        raise RltuiError("disk full")

    monkeypatch.setattr("rltui.services.config.writing.replace_files", fail)
    with pytest.raises(RltuiError, match="disk full"):
        desk.set(max_steps=30)
    assert desk.entries == []


def test_values_that_json_cannot_hold_come_back(desk: Desk) -> None:
    desk.path.write_text(TEXT + "limit = inf\nday = 2026-01-31\n")
    desk.reopen()
    desk.set(env__1__limit=1.5, env__1__day="2026-02-01")
    assert desk.text.endswith("limit = 1.5\nday = 2026-02-01\n")
    desk.path.write_text(desk.text + "# mine\n")
    desk.undo()
    assert desk.text.endswith("limit = inf\nday = 2026-01-31\n# mine\n")
    with pytest.raises(ConfigError, match="must be a date"):
        desk.set(env__1__day="soon")


def test_of_two_writers_one_gets_the_conflict(desk: Desk) -> None:
    first, request = desk.document, Request(action="set", edits={"max_steps": 31})
    desk.reopen()
    proposals = [document.proposed(request) for document in (first, desk.document)]
    assert first.commit(proposals[0]) is not None
    with pytest.raises(ConflictError, match="was changed by someone else meanwhile"):
        desk.document.commit(proposals[1])
    assert desk.text == TEXT.replace("20", "31")


VALUES = {
    "max_steps": st.integers(0, 10**6) | st.none(),
    "name": st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8).map(repr).map(
        lambda text: f"v{text}"
    ),
    "orchestrator.tags": st.lists(st.text("ab", max_size=2), max_size=4),
    "env.0.id": st.sampled_from(["one", "uno"]),
    "orchestrator.batch_size": st.integers(1, 9) | st.none(),
    "fresh": st.booleans() | st.none(),
    "deep.er.added": st.floats(allow_nan=False, allow_infinity=False) | st.none(),
}  # fmt: skip
STEP = st.fixed_dictionaries({}, optional=VALUES) | st.sampled_from(["undo", "redo"])


def walk(desk: Desk, steps: list[dict[str, TomlValue] | str]) -> None:
    """Any edits, undone and redone: the bytes are those of that time."""
    desk.path.write_bytes(TEXT.encode())
    past, future = [desk.text], list[str]()
    for step in steps:
        if step == "undo" and len(past) > 1:
            desk.undo()
            future.append(past.pop())
        elif step == "redo" and future:
            desk.redo()
            past.append(future.pop())
        elif isinstance(step, dict):
            there = {
                key: value
                for key, value in step.items()
                if value is not None or f"{key.rpartition('.')[2]} =" in desk.text
            }
            desk.do(Request(action="set", edits=there, force=True))
            if desk.text != past[-1]:
                past.append(desk.text)
                future.clear()
        assert desk.text == past[-1]
    for text in reversed(past[:-1]):
        desk.undo()
        assert desk.text == text


UNSHRUNK = settings(phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
"""An example is many writes: making it smaller would take minutes."""


@settings(UNSHRUNK, max_examples=10)
@given(st.lists(STEP, min_size=4, max_size=10))
def test_undo_restores_the_bytes_of_any_edits(
    tmp_path_factory: pytest.TempPathFactory, steps: list[TomlValue]
) -> None:
    walk(Desk(tmp_path_factory.mktemp("desk"), TEXT), steps)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(UNSHRUNK, max_examples=500)
@given(st.lists(STEP, min_size=20, max_size=20))
def test_undo_restores_the_bytes_of_ten_thousand_edits(
    tmp_path_factory: pytest.TempPathFactory, steps: list[TomlValue]
) -> None:
    walk(Desk(tmp_path_factory.mktemp("desk"), TEXT), steps)


def test_secrets_are_in_no_record_and_come_back_all_the_same(desk: Desk) -> None:
    """Finding H4."""
    desk.path.write_text(TEXT + '[wandb]\napi_key = "old-secret"\n# token = "a-third"\n')
    before = desk.text
    desk.set(wandb__api_key="new-secret", max_steps=30)
    assert desk.words() == ('max_steps 20 → 30, wandb.api_key "(hidden)" → "(hidden)"', None)
    proposal = desk.document.proposed(Request(action="undo"))
    journal = desk.control.journal_file.read_text()
    told = [
        journal,
        proposal.diff,
        repr([change.keys for change in proposal.changes.values()]),
        desk.document.knob_table({}).to_json().decode(),
    ]
    assert not any(word in each for each in told for word in ("old-secret", "new-secret", "a-third"))
    assert '-api_key = "(hidden)"\n+api_key = "(hidden)"\n' in proposal.diff
    desk.path.write_text(desk.text + "# mine\n")
    desk.reopen()
    desk.undo()
    assert desk.text == before + "# mine\n"
    with pytest.raises(ConfigError, match="is a secret and not shown"):
        desk.set(wandb__api_key="(hidden)")
    base = desk.document.base()
    desk.path.write_text(desk.text.replace("old-secret", "their-secret"))
    request = Request(action="set", edits={"wandb.api_key": "new-secret"}, base=base)
    with pytest.raises(ConflictError) as caught:
        desk.do(request)
    assert "-secret" not in str(caught.value)
    desk.path.write_text('max_steps = 20\ntoken = "a-secret\n')
    with pytest.raises(ConfigError) as broken:
        desk.document.load()
    assert "a-secret" not in str(broken.value)


def test_a_secret_that_was_not_kept_is_set_by_hand(desk: Desk) -> None:
    desk.path.write_text(TEXT + 'token = "old"\n')
    desk.set(env__1__token="new")
    desk.path.write_text(desk.text + "# mine\n")
    desk.reopen()
    for path in (desk.control.path / "backups").iterdir():
        path.unlink()
    with pytest.raises(ConfigError, match=r"env\.1\.token is a secret: its value was not saved"):
        desk.undo()
