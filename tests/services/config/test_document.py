from __future__ import annotations

import difflib
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rltui.base.toml.scan import scan
from rltui.core.config.report import KnobInfo, KnobTable
from rltui.errors import ConfigError, ConflictError, ExitCode, NotFoundError, RltuiError
from rltui.frameworks import registry
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.config.document import ConfigDocument
from rltui.services.config.files import read_snapshot, write_passed

RL = """\
# my run
max_steps = 20   # short

[orchestrator]
batch_size = 128
rollouts_per_example = 16

[trainer.optim]
lr = 3e-6
"""
DATA = Path(__file__).parents[2] / "data" / "prime_rl"
SFT = "[data]\nbatch_size = 32\nmicro_batch_size = 8\n"


@pytest.fixture
def rl(tmp_path: Path) -> Path:
    path = tmp_path / "rl.toml"
    path.write_text(RL)
    (tmp_path / "sft.toml").write_text(SFT)
    return path


@pytest.fixture
def document(rl: Path) -> ConfigDocument:
    return ConfigDocument([rl], TINYRL)


def row(table: KnobTable, key: str) -> KnobInfo:
    return next(knob for knob in table.knobs if knob.key == key)


def test_a_missing_file_is_a_slip_in_a_command_line_but_of_a_run_a_broken_config(rl: Path) -> None:
    rl.unlink()
    with pytest.raises(NotFoundError, match=r"^file not found: ") as typed:
        ConfigDocument([rl], TINYRL).load()
    with pytest.raises(
        ConfigError, match=r"^file not found: .*\n→ the run reads this file: restore it$"
    ) as recorded:
        ConfigDocument([rl], TINYRL, recorded=True).load()
    assert (typed.value.exit_code, recorded.value.exit_code) == (ExitCode.USAGE, ExitCode.INVALID_CONFIG)


def test_set_changes_one_line(document: ConfigDocument, rl: Path) -> None:
    proposal = document.with_edits({"orchestrator.batch_size": "64"})
    assert rl.read_text() == RL
    assert proposal.readers == {"orchestrator.batch_size": ("orchestrator",)}
    assert proposal.diff == (
        "--- a/rl.toml\n+++ b/rl.toml\n@@ -2,7 +2,7 @@\n max_steps = 20   # short\n \n [orchestrator]\n"
        "-batch_size = 128\n+batch_size = 64\n rollouts_per_example = 16\n \n [trainer.optim]\n"
    )
    document.commit(proposal)
    assert rl.read_text() == RL.replace("128", "64")
    assert document.files["rl"].data["orchestrator"]["batch_size"] == 64


def test_set_reaches_every_file_at_once(document: ConfigDocument, rl: Path) -> None:
    proposal = document.with_edits({"trainer.optim.lr": 1e-5, "micro_batch_size": "16"})
    document.commit(proposal)
    assert "lr = 1e-5" in rl.read_text()
    assert "micro_batch_size = 16" in (rl.parent / "sft.toml").read_text()
    assert list(proposal.readers) == ["trainer.optim.lr", "sft.data.micro_batch_size"]
    assert "b/sft.toml" in proposal.diff


def test_a_learning_rate_far_from_the_last_one_is_a_warning(document: ConfigDocument) -> None:  # B1
    far = document.with_edits({"trainer.optim.lr": 0.6})
    assert [
        (problem.severity, problem.message) for problem in far.problems if problem.severity == "warning"
    ] == [("warning", "trainer.optim.lr: 0.6 is 200,000 times higher than 3e-06; is that intended?")]
    assert not far.blocked
    assert not document.with_edits({"trainer.optim.lr": 1e-5}).problems


def test_preview_counts_what_runs_as_a_change(document: ConfigDocument, tmp_path: Path) -> None:
    running = {"orchestrator": document.snapshot(tmp_path / "snap")}
    document.commit(document.with_edits({"orchestrator.batch_size": 64}))
    assert document.with_edits({"orchestrator.batch_size": 64}).readers == {}
    again = document.with_edits({"orchestrator.batch_size": 64}, running=running)
    assert list(again.readers) == ["orchestrator.batch_size"]


def test_what_runs_is_what_the_process_got(document: ConfigDocument, rl: Path, tmp_path: Path) -> None:
    """Finding A7: a port of rltui's choice, the checkpoint, the folder of the run."""
    document.snapshot(tmp_path / "snap")
    write_passed(tmp_path / "snap", {"rl": {"inference.server.port": 8001, "ckpt.resume_step": 500}})
    got = read_snapshot(tmp_path / "snap", TINYRL)
    running = {"inference": got, "orchestrator": got, "trainer": got}
    table = document.knob_table(running)
    port, step = row(table, "inference.server.port"), row(table, "ckpt.resume_step")
    assert (port.value, port.running, port.overridden, port.changed) == (8000, 8001, True, False)
    assert (step.value, step.running, step.overridden, step.changed) == (None, 500, True, False)
    assert document.pending(running) == (), "no restart would change that"
    batch = row(table, "orchestrator.batch_size")
    assert (batch.running, batch.overridden) == (128, False)

    document.commit(document.with_edits({"inference.server.port": 8005, "ckpt.resume_step": 420}))
    table = document.knob_table(running)
    port = row(table, "inference.server.port")
    assert (port.value, port.running, port.overridden, port.changed) == (8005, 8001, False, True)
    pending = {each.key: each.running for each in document.pending(running)}
    assert pending["inference.server.port"] == 8001
    assert pending["ckpt.resume_step"] == 500
    again = document.with_edits({"ckpt.resume_step": 420}, running=running)
    assert again.readers == {"ckpt.resume_step": ("orchestrator", "trainer")}, "it may be asked for again"


def test_a_broken_rule_is_previewed_but_not_written(document: ConfigDocument, rl: Path) -> None:
    proposal = document.with_edits({"orchestrator.batch_size": 100})
    (problem,) = [problem for problem in proposal.problems if problem.severity == "error"]
    assert (problem.line, problem.column, problem.file) == (5, 1, str(rl))
    assert "96 or 112" in problem.message
    with pytest.raises(ConfigError, match="96 or 112") as caught:
        document.commit(proposal)
    assert caught.value.exit_code == 3
    assert rl.read_text() == RL


def test_what_the_framework_takes_or_a_person_forces_is_written(document: ConfigDocument, rl: Path) -> None:
    edit = {"orchestrator.batch_size": 100}
    refused = document.with_edits(edit)
    assert refused.blocked
    assert not document.with_edits(edit, force=True).blocked
    document.accept(refused.after)
    taken = document.with_edits(edit)
    assert any("accepted by the framework itself" in problem.message for problem in taken.problems)
    document.commit(taken)
    assert "batch_size = 100" in rl.read_text()
    assert document.with_edits({"orchestrator.batch_size": 101}).blocked, "of those contents alone"


def test_a_choice_that_nobody_knows_can_be_forced(tmp_path: Path) -> None:
    rl = tmp_path / "rl.toml"
    rl.write_text((DATA / "era_c" / "rl.toml").read_text())
    document = ConfigDocument([rl], registry.get("prime-rl"))
    with pytest.raises(ConfigError, match="must be one of"):
        document.with_edits({"trainer.optim.type": "lion"})
    document.commit(document.with_edits({"trainer.optim.type": "lion"}, force=True))
    assert 'type = "lion"' in rl.read_text()


def test_apply_keeps_mode_link_and_line_ends(tmp_path: Path) -> None:
    real = tmp_path / "real" / "shared.toml"
    real.parent.mkdir()
    real.write_bytes(RL.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    link = tmp_path / "rl.toml"
    link.symlink_to(real)
    document = ConfigDocument([link], TINYRL)
    document.commit(document.with_edits({"orchestrator.batch_size": 64}))
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.read_bytes() == RL.replace("128", "64").replace("\n", "\r\n").encode()
    assert [path.name for path in real.parent.iterdir()] == ["shared.toml"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_apply_keeps_the_owner(document: ConfigDocument, rl: Path) -> None:
    os.chown(rl, 12345, 23456)
    document.commit(document.with_edits({"orchestrator.batch_size": 64}))
    assert (rl.stat().st_uid, rl.stat().st_gid) == (12345, 23456)


def test_a_read_only_file_is_respected(
    document: ConfigDocument, rl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(RltuiError, match="the file is read-only"):
        document.commit(document.with_edits({"orchestrator.batch_size": 64}))
    assert rl.read_text() == RL


def test_knob_table_shows_what_runs_beside_the_file(document: ConfigDocument, tmp_path: Path) -> None:
    running = {name: document.snapshot(tmp_path / name) for name in ("orchestrator", "trainer")}
    document.commit(document.with_edits({"orchestrator.batch_size": 64, "max_steps": 30}))
    table = document.knob_table(running)
    batch = row(table, "orchestrator.batch_size")
    assert (batch.value, batch.running, batch.changed, batch.is_set) == (64, 128, True, True)
    assert row(table, "trainer.optim.lr").changed is False
    share = row(table, "inference.gpu_memory_utilization")
    assert (share.is_running, share.running, share.bounds) == (False, None, (0.0, 1.0))
    assert row(table, "max_steps").running == 20
    assert row(table, "sft.data.batch_size").file.endswith("sft.toml")
    newer = {**running, "orchestrator": document.snapshot(tmp_path / "newer")}
    assert row(document.knob_table(newer), "max_steps").running == 20, "the trainer still has the old value"


def test_snapshot_can_be_read_again(document: ConfigDocument, rl: Path, tmp_path: Path) -> None:
    rl.write_text("\ufeff" + RL)
    document.load()
    copies = document.snapshot(tmp_path / "attempt")
    assert Path(copies["rl"].path).read_text() == RL
    assert read_snapshot(tmp_path / "attempt", TINYRL) == copies
    assert read_snapshot(tmp_path / "nothing", TINYRL) == {}
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "attempt" / "config").rglob("*")]
    assert set(modes) == {0o600}, "finding H3: they may hold secrets"


def test_the_last_good_config_stays(document: ConfigDocument, rl: Path) -> None:
    document.load()
    rl.write_text("max_steps = = 5\n")
    with pytest.raises(ConfigError, match=r"rl\.toml:1:13: Invalid value"):
        document.load()
    assert document.files["rl"].data["max_steps"] == 20
    rl.unlink()
    with pytest.raises(ConfigError, match="file not found"):
        document.knob_table({})
    assert document.files["rl"].data["max_steps"] == 20


def test_problems_point_to_the_table_where_the_key_is_absent(document: ConfigDocument, rl: Path) -> None:
    rl.write_text("[orchestrator]\nrollouts_per_example = 100\n")
    document.load()
    assert [
        (problem.key, problem.line) for problem in document.problems() if problem.severity == "error"
    ] == [("orchestrator.batch_size", 1)]


def test_problems_of_the_companion_name_its_file_and_line(document: ConfigDocument, rl: Path) -> None:
    (rl.parent / "sft.toml").write_text("[data]\nbatch_size = 30\nmicro_batch_size = 8\n")
    document.load()
    (problem,) = document.problems()
    assert (problem.key, problem.line) == ("sft.data.batch_size", 2)
    assert problem.file is not None
    assert problem.file.endswith("sft.toml")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = 1\n\xff\xfe", r"rl\.toml:2: is not UTF-8"),
        (b"[other]\nx = 1\n", "is not a config file of tinyrl"),
    ],
)
def test_load_says_what_is_wrong_with_a_file(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "rl.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        ConfigDocument([path], TINYRL).load()


def test_load_asks_for_the_main_file(rl: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs its rl\.toml; .*/sft\.toml is for sft alone") as caught:
        ConfigDocument([rl.parent / "sft.toml"], TINYRL).load()
    assert "sft.toml next to it is found automatically" in caught.value.hint
    with pytest.raises(ConfigError, match="both the 'rl' file"):
        ConfigDocument([rl, rl], TINYRL).load()
    with pytest.raises(ConfigError, match="is a folder"):
        ConfigDocument([rl.parent], TINYRL).load()


def test_the_diff_applies_with_patch(document: ConfigDocument, rl: Path, tmp_path: Path) -> None:
    rl.write_bytes(RL.rstrip("\n").encode())
    proposal = document.with_edits({"trainer.optim.lr": 1e-5, "trainer.optim.weight_decay": 0.1})
    copy = tmp_path / "copy" / "rl.toml"
    copy.parent.mkdir()
    copy.write_bytes(rl.read_bytes())
    document.commit(proposal)
    subprocess.run(["git", "apply", "-"], input=proposal.diff.encode(), cwd=copy.parent, check=True)
    assert copy.read_bytes() == rl.read_bytes()


@pytest.mark.parametrize("kind", ["gone", "pipe", "device", "folder", "socket", "large"])
def test_what_is_no_config_file_is_refused_at_once_and_in_words(
    document: ConfigDocument, rl: Path, kind: str
) -> None:
    """Findings H7 and H19: it became one while a supervisor lives."""
    document.load()
    proposal = document.with_edits({"orchestrator.batch_size": 64})
    rl.unlink()
    words = "is not a regular file"
    match kind:
        case "gone":
            words = "file not found"
        case "pipe":
            os.mkfifo(rl)
        case "device":
            rl.symlink_to("/dev/zero")
        case "folder":
            rl.mkdir()
            words = "is a folder"
        case "socket":
            socket.socket(socket.AF_UNIX).bind(os.path.relpath(rl))
            words = "cannot read .*rl.toml"
        case "large":
            rl.write_text(RL + "# x\n" * 100_000)
            words = "is larger than 256 KiB"
    with pytest.raises(ConfigError, match=words):
        document.load()
    with pytest.raises(ConflictError, match=words):
        document.commit(proposal)


@pytest.mark.parametrize("lines", ["key_{} = 1\n", "[t{}]\na = 1\n"])
def test_work_grows_with_the_file_and_no_faster(
    document: ConfigDocument, rl: Path, lines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding H7: a file is scanned once, and few of its unknown keys are compared with all known ones."""
    calls = []
    real = difflib.get_close_matches

    def counted(*arguments: Any, **options: Any) -> list[Any]:
        calls.append(arguments)
        return list(real(*arguments, **options))

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    scan.cache_clear()
    rl.write_text(RL + "".join(map(lines.format, range(300))))
    table = document.knob_table({})
    assert 50 <= len(table.problems) < 60
    assert any("more than 50 unknown keys" in problem.message for problem in table.problems)
    assert len(calls) < 120
    assert scan.cache_info().misses == 1


def test_advice_is_about_the_edited_knob_first(document: ConfigDocument) -> None:
    """Finding B7."""
    (problem,) = document.with_edits({"orchestrator.rollouts_per_example": 48}).problems
    assert problem.message.endswith(
        "nearest valid rollouts_per_example is 32 or 64, or batch_size is 96 or 144"
    )
    (problem,) = document.with_edits({"orchestrator.batch_size": 100}).problems
    assert problem.message.endswith("nearest valid batch_size is 96 or 112")
