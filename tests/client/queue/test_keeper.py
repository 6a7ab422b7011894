"""What the supervisor of the queue makes of a status."""

from __future__ import annotations

from typing import Any

import pytest

from rltui.client.queue.keeper import verdict


def status(*components: dict[str, Any], **values: Any) -> dict[str, Any]:
    usual = {"kind": "job", "state": "ready", "attempt": 1, "reason": None}
    found = [{"id": f"c{number}", **usual, **each} for number, each in enumerate(components)]
    failed = [each["id"] for each in found if each["state"] == "failed"]
    told = {"done": False, "failed": failed, "down": None, "transaction": None, "evals": []}
    return {**told, "components": found, **values}


SPARE = {"state": "stopped", "attempt": None, "prepares": True}
DOWN = {"by": "ada", "complete": True}


@pytest.mark.parametrize(
    ("found", "living", "expected"),
    [
        (status({}), True, (None, "")),
        (status({"state": "exited"}, done=True), True, ("done", "")),
        (status({"state": "exited"}, done=True, evals=[{}]), True, (None, "")),
        (status({"state": "failed", "reason": "exited 1"}), True, ("failed", "c0: exited 1")),
        (status({"state": "failed"}, transaction="restart"), True, (None, "")),
        (status({"state": "stopping"}, down={**DOWN, "complete": False}), True, (None, "")),
        (status({"state": "stopped"}, down=DOWN), False, ("stopped", "taken down by ada")),
        (status({"state": "exited"}, down=DOWN), False, ("done", "")),
        (status({"state": "exited"}, SPARE), False, ("done", "")),
        (status({"state": "failed", "reason": "killed"}), False, ("failed", "c0: killed")),
        (status({"state": "stopped"}), False, ("failed", "it ended, and nobody saw why")),
        (status({"state": "stopped"}), True, (None, "")),
    ],
)  # fmt: skip
def test_verdict(found: dict[str, Any], *, living: bool, expected: tuple[str | None, str]) -> None:
    assert verdict(found, living=living) == expected
