"""Health of today's algorithms, from what prime-rl's programs write to what a person reads and types."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import prime_box
from tests.following import follow
from tests.waiting import retry_until

from rltui.core import hints

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]


def concern(box: Box, rule: str) -> dict[str, Any] | None:
    concerns = box.status()["progress"]["concerns"]
    return next((concern for concern in concerns if concern["id"] == rule), None)


def test_what_goes_wrong_with_agents_of_a_game_is_told_once_with_its_knobs(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(box.env, "STANDIN_SHOWS", "discards,seats,mismatch")
    prime = prime_box(box, "D")
    prime.up("prime-rl")
    prime.wait_for_steps("trainer", 12)
    discarded = retry_until(lambda: concern(box, "discarded"))
    assert "(62 % stale, 8 % errored" in discarded["evidence"]
    assert "(orchestrator.max_off_policy_steps" in discarded["advice"]
    stale = box.json("metrics", "stale")["series"]
    assert [(series["name"], series["values"][-1]) for series in stale] == [("train/discarded/stale", 0.625)]
    status = box.status()
    assert status["progress"]["beside"]["title"] == "discarded: stale"
    assert abs(status["reward"] - 0.5) < 1e-6, "the mean of two rivals; a judge does not count"
    assert status["progress"]["served"] >= status["step"] - 2
    assert "engine serves v" in box.run("status").stdout
    assert "the engine serves v" in box.run("describe").stdout
    seats = {series["label"]: series["name"] for series in box.json("metrics", "seat_reward")["series"]}
    assert seats == {
        f"seat_reward player{number}": f"train/agg/effective/player{number}/reward/mean" for number in (0, 1)
    }
    assert concern(box, "resume-mismatch") is None

    prime.done("restart", "-c", "trainer", "--yes", "--wait")
    prime.wait_for_steps("trainer", 4, attempt=2)
    mismatch = retry_until(lambda: concern(box, "resume-mismatch"))
    assert "went on after step" in mismatch["evidence"]
    follow(box, mismatch["text"], hints.RESTART_INFERENCE, "--yes", "--wait", code=0, name=None)
    assert prime.attempt("inference") == 2
    assert prime.attempt("trainer") == 3, "they get their weights from one another"
    prime.assert_down_leaves_nothing()


def test_a_distillation_shows_its_teacher_instead_of_a_reward(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(box.env, "STANDIN_SHOWS", "teacher")
    prime = prime_box(box, "C")
    algo = '\n[orchestrator.algo]\ntype = "opsd"\n'  # its teacher is the policy itself
    prime.config.write_text(prime.config.read_text() + algo)
    prime.up("prime-rl")
    prime.wait_for_steps("trainer", 14)
    retry_until(lambda: (box.status()["step"] or 0) >= 13)
    status = box.status()
    target = status["progress"]["target"]
    assert target["title"] == "teacher KL"
    assert all(value > 0 for _, value in target["points"])
    assert status["progress"]["concerns"] == [], "no signal, for all that rewards tell"
    assert "teacher KL 0." in box.run("status").stdout
    prime.assert_down_leaves_nothing()
    assert "teacher KL 0." in box.run("status").stdout
    assert "teacher KL 0." in box.run("runs").stdout
