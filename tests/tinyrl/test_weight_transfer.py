from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.waiting import ready_process

from rltui.tinyrl import TinyrlError, presence, weight_transfer
from rltui.tinyrl.model import copy_model_files, load_model
from rltui.tinyrl.presence import PairingGuard, Peer, Presence
from rltui.tinyrl.weight_transfer import (
    TrainingSequence,
    complete_steps,
    keep_newest,
    new_half,
    resolve_resume_step,
)

SEQUENCES = [
    TrainingSequence([3, 7, 8], [False, True, True], [0.0, -0.5, -0.25], 0.5, 1.0),
    TrainingSequence([4, 9], [False, True], [0.0, -1.5], -0.5, 2.0),
]


def test_batch_survives_the_trip(tmp_path: Path) -> None:
    weight_transfer.write_batch(tmp_path, 1, "mine", SEQUENCES)
    weight_transfer.remove_batches_through(tmp_path, 0)
    assert weight_transfer.read_batch(tmp_path, 1, "mine") == SEQUENCES
    weight_transfer.remove_batches_through(tmp_path, 1)
    assert weight_transfer.read_batch(tmp_path, 1, "mine") is None


def test_batches_of_another_session_are_not_taken(tmp_path: Path) -> None:
    weight_transfer.write_batch(tmp_path, 1, "earlier", SEQUENCES)
    assert weight_transfer.read_batch(tmp_path, 1, "mine") is None
    assert weight_transfer.read_batch(tmp_path, 2, "mine") is None


def test_broadcasts_need_session_and_stable(tmp_path: Path, tiny_model: Path) -> None:
    model = load_model(tiny_model)
    for version, session_id in ((3, "mine"), (4, "mine"), (9, "earlier")):
        with weight_transfer.new_broadcast(tmp_path, version, session_id) as folder:
            copy_model_files(model, tiny_model, folder)
    assert weight_transfer.latest_broadcast(tmp_path, "mine") == 4
    (weight_transfer.broadcast_folder(tmp_path, 4) / "STABLE").unlink()
    assert weight_transfer.latest_broadcast(tmp_path, "mine") == 3
    weight_transfer.remove_broadcasts_through(tmp_path, 4)
    assert weight_transfer.latest_broadcast(tmp_path, "mine") is None
    load_model(weight_transfer.broadcast_folder(tmp_path, 9))


def test_checkpoint_is_complete_with_both_halves(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        with new_half(tmp_path, step, "trainer") as folder:
            (folder / "state.json").touch()
    for step in (10, 20):
        with new_half(tmp_path, step, "orchestrator"):
            assert step not in complete_steps(tmp_path)
    assert complete_steps(tmp_path) == [10, 20]
    assert resolve_resume_step(tmp_path, -1) == 20
    assert resolve_resume_step(tmp_path, 10) == 10
    with pytest.raises(
        TinyrlError, match=r"resume_step = 30: no complete checkpoint .* complete steps: 10, 20"
    ):
        resolve_resume_step(tmp_path, 30)
    keep_newest(tmp_path, 1)
    assert complete_steps(tmp_path) == [20]


def test_interrupted_half_does_not_count(tmp_path: Path) -> None:
    with new_half(tmp_path, 10, "orchestrator"):
        pass
    with pytest.raises(SystemExit), new_half(tmp_path, 10, "trainer"):
        raise SystemExit(143)
    assert complete_steps(tmp_path) == []
    assert resolve_resume_step(tmp_path, -1) == 0


def test_a_role_is_held_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rltui.tinyrl.presence._LOCK_TIMEOUT_S", 0.05)
    first = Presence(tmp_path, "trainer", 0)
    with pytest.raises(TinyrlError, match="another trainer is running"):
        Presence(tmp_path, "trainer", 0)
    first.close()
    Presence(tmp_path, "trainer", 0).close()


def test_peer_sees_the_living_and_remembers_the_ended(tmp_path: Path) -> None:
    peer = Peer(tmp_path, "trainer")
    assert peer.look() is None
    first = Presence(tmp_path, "trainer", 4)
    assert peer.look() == first.session
    assert peer.is_alive
    first.close()
    assert peer.look() == first.session
    assert not peer.is_alive
    assert Peer(tmp_path, "trainer").look() is None
    second = Presence(tmp_path, "trainer", 4)
    assert peer.look() == second.session
    second.close()


def test_a_killed_process_leaves_no_claim(tmp_path: Path) -> None:
    code = (
        "import sys, signal, pathlib\n"
        "from rltui.tinyrl.presence import Presence\n"
        "presence = Presence(pathlib.Path(sys.argv[1]), 'trainer', 0)\n"
        "print('up', flush=True)\n"
        "signal.pause()\n"
    )
    with ready_process([sys.executable, "-c", code, str(tmp_path)], "up") as process:
        assert Peer(tmp_path, "trainer").look() is not None
        os.kill(process.pid, signal.SIGKILL)
    assert Peer(tmp_path, "trainer").look() is None


def test_guard_takes_only_a_peer_at_the_same_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = PairingGuard(Peer(tmp_path, "trainer"), "trainer")
    assert guard.session(0) is None
    wrong = Presence(tmp_path, "trainer", 7)
    assert guard.session(0) is None
    monkeypatch.setattr(presence, "_MISMATCH_TIMEOUT_S", -1.0)
    with pytest.raises(TinyrlError, match=r"same --ckpt\.resume-step"):
        guard.session(0)
    wrong.close()
    right = Presence(tmp_path, "trainer", 0)
    assert guard.session(0) == right.session
    right.close()
    assert guard.session(5) == right.session
