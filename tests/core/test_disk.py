from __future__ import annotations

import pytest

from rltui.core.text import GIB
from rltui.services.runs.disk import Checkpoints, disk_forecast, is_pruned, still_to_come

RUN = "/data/run"


def checkpoints(*steps: int, gib: float = 2.0, pruned: bool = False) -> Checkpoints:
    return Checkpoints(steps, int(gib * GIB), pause_s=600.0, newest_age_s=60.0, pruned=pruned)


@pytest.mark.parametrize(
    ("free_gib", "steps", "max_steps", "severity"),
    [
        (100.0, (10, 20), 100, "ok"),
        (4.0, (10, 20), 100, "ok"),
        (3.9, (10, 20), 100, "warning"),
        (1.9, (10, 20), 100, "error"),
        (2.1, (80, 90), 100, "ok"),  # the last one fits
        (1.9, (80, 90), 100, "error"),
        (1.1, (90, 100), 100, "ok"),  # none to come
        (0.9, (90, 100), 100, "warning"),
        (3.9, (10, 20), None, "warning"),
        (1.9, (10,), None, "error"),
    ],
)
def test_severity_by_what_fits(
    free_gib: float, steps: tuple[int, ...], max_steps: int | None, severity: str
) -> None:
    found = disk_forecast(RUN, int(free_gib * GIB), checkpoints(*steps), max_steps)
    assert found.severity == severity
    assert bool(found.text) == (severity != "ok")


def test_pruned_checkpoints_need_room_for_one() -> None:
    assert disk_forecast(RUN, 3 * GIB, checkpoints(40, 50, pruned=True), 100).severity == "ok"
    assert disk_forecast(RUN, 1 * GIB, checkpoints(40, 50, pruned=True), 100).severity == "error"


def test_without_a_checkpoint_only_little_space_is_told() -> None:
    assert disk_forecast(RUN, GIB, Checkpoints(), 100).severity == "ok"
    found = disk_forecast(RUN, GIB // 2, Checkpoints(), 100)
    assert (found.severity, found.text.partition(". ")[0]) == ("warning", "/data/run: 512 MiB free")


def test_the_text_says_where_how_much_when_and_what_to_do() -> None:
    found = disk_forecast(RUN, 3 * GIB, checkpoints(10, 20), 100)
    assert found.text == (
        "/data/run: 3.0 GiB free, a checkpoint takes 2.0 GiB, 8 more to come: full in about 19m. "
        "Make room there (see what is big: du -sh /data/run/* | sort -h), or keep fewer checkpoints "
        "or save them less often"
    )
    assert found.title == "the disk is nearly full"
    worse = disk_forecast(RUN, GIB, checkpoints(10, 20), 100)
    assert worse.title == "the next checkpoint does not fit on the disk"
    assert worse.text.startswith("/data/run: 1.0 GiB free, a checkpoint takes 2.0 GiB, 8 more to come. Make")


@pytest.mark.parametrize(
    ("steps", "max_steps", "left"),
    [
        ((), 100, None),
        ((10,), None, None),
        ((10,), 100, 9),
        ((10, 20), 25, 1),
        ((20,), 20, 0),
        ((0,), 9, None),
    ],
)
def test_still_to_come(steps: tuple[int, ...], max_steps: int | None, left: int | None) -> None:
    assert still_to_come(steps, max_steps) == left


@pytest.mark.parametrize(
    ("before", "steps", "pruned"),
    [
        ((), (), False),
        ((10,), (10, 20), False),
        ((10, 20), (20, 30), True),
        ((10, 20, 30), (10, 20), False),  # moved aside by a resume
        ((), (40, 50), True),
        ((), (40,), False),
        ((10, 20), (), False),
    ],
)
def test_pruning_is_seen(before: tuple[int, ...], steps: tuple[int, ...], pruned: bool) -> None:
    assert is_pruned(before, steps) is pruned
