"""`attempt.json` is true, whole and there, whatever the disk does."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.hosts.shim_harness import attempt, program
from tests.waiting import retry_until

from rltui.hosts.shim.record import Record


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "rltui-test", str(folder)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file, suppress(OSError):  # ENOSPC is the aim
        while True:
            file.write(bytes(1024))


def delete(path: Path) -> None:
    """Remove the folder in one step, so that nothing can be written into it meanwhile."""
    away = path.rename(path.with_name("deleted"))
    if away.is_dir():
        shutil.rmtree(away)
    else:
        away.unlink()


def test_the_outcome_is_recorded_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    """A checkpoint that fills the disk is what ended the trainer."""
    with attempt(
        small_disk, ["sh", "-c", "until [ -e go ]; do sleep 0.02; done; exit 4"], cwd=str(tmp_path)
    ) as run:
        run.start()
        run.running()
        retry_until((small_disk / "attempt.reserve").exists)
        fill(small_disk)
        (tmp_path / "go").touch()
        record = run.wait()
    assert (record.state, record.exit_code) == ("exited", 4)
    assert not (small_disk / "attempt.reserve").exists()


def test_a_full_disk_leaves_the_component_alone_and_is_tried_again(tmp_path: Path, small_disk: Path) -> None:
    argv = program("family.py", tmp_path / "pids", "wait", "child", "daemon")
    with attempt(
        small_disk, ["sh", "-c", 'until [ -e go ]; do sleep 0.02; done; exec "$@"', "sh", *argv]
    ) as run:
        run.start()
        run.running()
        retry_until((small_disk / "attempt.reserve").exists)
        (small_disk / "go").touch()
        fill(small_disk)
        retry_until((tmp_path / "pids").exists)
        (small_disk / "filler").unlink()
        retry_until(lambda: len(run.record.descendants) == 3)
        run.signal(signal.SIGTERM)
        assert run.wait().signal == "SIGTERM"


@pytest.mark.parametrize("deleted", ["..", "attempt.json"])
def test_a_deleted_folder_is_made_again_with_the_outcome(tmp_path: Path, deleted: str) -> None:
    folder = tmp_path / "run" / "attempt"
    script = "until [ -e go ]; do sleep 0.02; done; echo lost; exit 4"
    with attempt(folder, ["sh", "-c", script], cwd=str(tmp_path)) as run:
        run.start()
        before = run.running()
        retry_until((folder / "attempt.reserve").exists)
        target = (folder / deleted).resolve()
        delete(target)
        retry_until((folder / "attempt.json").exists)  # while it runs: also by who looks now it is known
        (tmp_path / "go").touch()
        record = run.wait()
    assert (record.state, record.exit_code, record.main) == ("exited", 4, before.main)
    assert not (folder / "attempt.reserve").exists()


def test_a_folder_deleted_with_the_disk_full_still_gets_the_outcome(tmp_path: Path, small_disk: Path) -> None:
    folder = small_disk / "attempt"
    script = "until [ -e go ]; do sleep 0.02; done; exit 4"
    with attempt(folder, ["sh", "-c", script], cwd=str(tmp_path), log=str(tmp_path / "output.log")) as run:
        run.start()
        run.running()
        retry_until((folder / "attempt.reserve").exists)
        delete(folder)
        retry_until((folder / "attempt.reserve").exists)
        fill(small_disk)
        (tmp_path / "go").touch()
        assert run.wait().exit_code == 4


def test_a_folder_deleted_over_and_over_is_survived(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.4 & sleep 0.05; done; exit 5"
    with attempt(folder, ["sh", "-c", script], cwd="/") as run:
        run.start()
        run.running()
        assert run.process is not None
        while run.process.poll() is None:
            shutil.rmtree(folder, ignore_errors=True)
        assert run.process.returncode == 0


def test_a_reader_never_meets_half_a_record(tmp_path: Path) -> None:
    """Children that come and go make the shim rewrite its record, while it is read without a pause."""
    script = "until [ -e enough ]; do sleep 0.4 & sleep 0.1; done; wait"
    with attempt(tmp_path, ["sh", "-c", script], cwd=str(tmp_path)) as run:
        run.start()
        path = tmp_path / "attempt.json"
        retry_until(path.exists)
        texts = set()
        while run.process is not None and run.process.poll() is None:
            text = path.read_text()
            assert json.loads(text)["component"] == "trainer"
            texts.add(text)
            if len(texts) > 3:
                (tmp_path / "enough").touch()
    assert len(texts) > 3


def test_an_unchanged_record_is_not_written_again(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sleep", "1000"]) as run:
        run.start()
        retry_until(lambda: run.record.descendants)
        before = (tmp_path / "attempt.json").stat()
        assert run.process is not None
        ticks = Path(f"/proc/{run.process.pid}/schedstat")
        slices = int(ticks.read_text().split()[2])
        retry_until(lambda: int(ticks.read_text().split()[2]) > slices + 2)
        assert (tmp_path / "attempt.json").stat() == before


def test_a_limit_on_file_size_does_not_end_supervision(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sh", "-c", "exit 3"]) as run:
        run.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
        assert run.process is not None
        assert run.process.wait(20) == 0
    assert not (tmp_path / "attempt.json").exists()


def test_a_damaged_record_is_written_anew(tmp_path: Path) -> None:
    """Finding F2: a damaged record stayed until the next change."""
    with attempt(tmp_path, ["sleep", "1000"]) as run:
        run.start()
        before = retry_until(lambda: run.record if run.record.descendants else None)
        (tmp_path / "attempt.json").write_bytes(b'{"half"')
        assert run.record == before


def test_damage_in_the_moment_of_the_write_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rename = tmp_path / "attempt.json", os.rename

    def damaged(source: str, target: str) -> None:
        rename(source, target)
        path.write_bytes(b"damaged")

    record = Record(str(tmp_path), {"component": "trainer"})
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", damaged)
        record.save()
    record.save()
    assert json.loads(path.read_bytes()) == {"component": "trainer"}


def test_records_are_for_their_user_alone(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sleep", "1000"]) as run:
        run.start()
        run.running()
        retry_until((tmp_path / "attempt.reserve").exists)
        for name in ("attempt.json", "attempt.reserve"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def as_link(spec: Path) -> None:
    spec.rename(spec.with_name("real.json"))
    spec.symlink_to("real.json")


def as_anybodys(spec: Path) -> None:
    spec.chmod(0o666)


def as_another_users(spec: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to give a file away")
    os.chown(spec, 12345, 12345)


@pytest.mark.parametrize("harm", [as_link, as_anybodys, as_another_users])
def test_a_spec_that_is_not_the_users_own_is_not_run(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    """Finding H15: it was run, whoever could write it."""
    with attempt(tmp_path, ["touch", str(tmp_path / "was run")]) as run:
        harm(tmp_path / "spec.json")
        run.start(stderr=subprocess.PIPE)
        assert run.process is not None
        _, output = run.process.communicate(timeout=20)
        assert run.process.returncode == 2
    assert b"spec.json" in output
    assert not (tmp_path / "was run").exists()
