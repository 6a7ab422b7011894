from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.fakes.past_run import write_attempt

from rltui import paths
from rltui.services.experiment import leases
from rltui.services.experiment.files import ExperimentRecord

LAYOUT = paths.shipped_dir("layouts") / "tinyrl.toml"


def record(own_user: Path, name: str, **values: str) -> ExperimentRecord:
    made = ExperimentRecord(
        name, str(own_user / name), str(own_user), (), str(LAYOUT), "tinyrl", 1.0,
        **values,  # type: ignore[arg-type]
    )  # fmt: skip
    made.control.write_record(made)
    return made


def started(one: ExperimentRecord, component: str, at: float) -> None:
    write_attempt(one.control.attempt_dir(component, 1), started_at=at, boot="another")


def test_a_lease_counts_while_its_user_lives_and_says_so_itself(
    own_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = record(own_user, "warm")
    users = [record(own_user, name, inference_of="warm") for name in ("two", "three")]
    gone = record(own_user, "gone")
    assert leases.users_of(owner) == ()
    for user in (*users, gone):
        leases.save_lease(owner, user)
    monkeypatch.setattr(
        leases, "living", lambda one, components=None: () if one.name == "three" else ("trainer",)
    )
    assert [user.name for user in leases.users_of(owner)] == ["two"], (
        "nothing of three lives, gone uses its own"
    )
    (own_user / "two" / ".rltui" / "experiment.toml").unlink()
    (own_user / "state" / "rltui" / "experiments" / "two").unlink()
    assert leases.users_of(owner) == ()


def test_a_server_is_fresh_until_a_run_begins_with_it(own_user: Path) -> None:
    owner = record(own_user, "warm")
    now = time.time()
    started(owner, "inference", now)
    started(owner, "trainer", now - 60)
    assert leases.trained_by(owner) is None, "that was an earlier server"
    user = record(own_user, "two", inference_of="warm")
    leases.save_lease(owner, user)
    assert leases.trained_by(owner) is None
    started(user, "trainer", now + 60)
    assert leases.trained_by(owner) == "two"
    assert leases.living(owner) == leases.training(user) == (), "of another boot"
