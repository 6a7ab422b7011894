"""Memory over time, as cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.experiment import GIB, gpu_histories
from tests.ui import gpu_scenarios as scenarios

from rltui.core.gpu.report import GpuHistory, GpuSeries
from rltui.ui.widgets.gpu_chart import chart_lines, columns, in_range, peak_text
from rltui.ui.widgets.gpu_marks import owner_marks

(SHARED_DEVICE,) = scenarios.SHARED.devices
MARKS = owner_marks(scenarios.SHARED)


def history(times: tuple[float, ...], **sizes: tuple[int, ...]) -> GpuHistory:
    series = tuple(GpuSeries(label=label, used_bytes=column) for label, column in sizes.items())
    return GpuHistory(device="/0", times=times, series=series)


def chart(found: GpuHistory | None, width: int = 30, height: int = 13) -> list[str]:
    return [line.plain for line in chart_lines(found, SHARED_DEVICE, width, height, MARKS)]


def test_owners_are_stacked_engine_lowest_with_the_budget_across() -> None:
    half = tuple(int(size * GIB) for size in (0, 8, 8))
    found = history((0.0, 300.0, 600.0), inference=(10 * GIB,) * 3, others=(2 * GIB,) * 3, trainer=half)
    assert chart(found) == [
        "24.0 │                        ",
        "     │                        ",
        "     │ ▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤",
        "     │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒",
        "     │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒",
        "12.0 ┊▁▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒",
        "     │▤▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒",
        *["     │" + "█" * 24] * 4,
        "   0 │" + "█" * 24,
        "      10m ago  5m00s       now",
    ]


def test_the_budget_hides_nobody_on_a_small_chart() -> None:  # B6
    found = history((0.0, 600.0), inference=(12 * GIB,) * 2, trainer=(3 * GIB,) * 2)
    (row,) = [line for line in chart(found, height=6) if line.startswith("12.0")]
    assert set(row) == set("12.0 ┊▒"), "what the trainer holds above it"
    idle = history((0.0, 600.0), inference=(12 * GIB,) * 2)
    (row,) = [line for line in chart(idle, height=6) if line.startswith("12.0")]
    assert set(row) == set("12.0 ┊┄")


def test_the_budget_is_where_its_value_is() -> None:
    """Finding U18: 40.6 was drawn below the line of 39.8."""
    more = history((0.0, 600.0), inference=(int(12.8 * GIB),) * 2)
    for height, line in ((13, "▁"), (12, "┄")):
        rows = chart(more, height=height)
        (budget,) = (row for row in range(len(rows)) if rows[row].startswith("12.0"))
        assert set(rows[budget]) == set(f"12.0 ┊{line}")


def test_the_highest_cell_is_filled_as_far_as_it_is_held() -> None:  # B6
    little = history((0.0, 600.0), inference=(0,) * 2, trainer=(GIB // 5,) * 2)
    *_, lowest, _ = chart(little, height=9)
    assert set(lowest.removeprefix("   0 │")) == {"▁"}, "a row stands for 3 GiB"
    half = history((0.0, 600.0), trainer=(int(4.5 * GIB),) * 2)
    assert [line[-1] for line in chart(half, height=9)[-3:-1]] == ["▒", "▒"], "of one brightness"
    engine = history((0.0, 600.0), inference=(int(4.5 * GIB),) * 2)
    assert [line[-1] for line in chart(engine, height=9)[-3:-1]] == ["▄", "█"]


def test_a_peak_between_columns_is_not_lost() -> None:
    sizes = tuple(20 * GIB if at == 137 else GIB for at in range(600))
    found = history(tuple(map(float, range(600))), trainer=sizes)
    assert max(column[0] for column in columns(found, 24)) == 20 * GIB


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((10, 30, 20), "peak 31.0 GiB 1m00s ago"),
        ((10, 30, 30), "peak 31.0 GiB now"),
        ((), ""),
    ],
)
def test_the_peak_is_told_with_its_time(sizes: tuple[int, ...], text: str) -> None:
    times = tuple(60.0 * number for number in range(len(sizes)))
    trainer = tuple(size * GIB for size in sizes)
    assert peak_text(history(times, trainer=trainer, others=(GIB,) * len(sizes))) == text


def test_range_keeps_the_newest() -> None:
    found = history(tuple(map(float, range(0, 2000, 100))), trainer=tuple(range(20)))
    recent = in_range(found, 600.0)
    assert recent.times == tuple(map(float, range(1300, 2000, 100)))
    assert recent.series[0].used_bytes == tuple(range(13, 20))
    assert in_range(found, None) is found


@pytest.mark.parametrize(
    ("found", "width", "height", "words"),
    [
        (None, 60, 12, "no history yet"),
        (history(()), 60, 12, "no history yet"),
        (history((1.0,), trainer=(GIB,)), 20, 12, "no room for a chart"),
        (history((1.0,), trainer=(GIB,)), 60, 3, "no room for a chart"),
    ],
    ids=["unread", "empty", "narrow", "low"],
)
def test_what_cannot_be_drawn_says_why(found: GpuHistory | None, width: int, height: int, words: str) -> None:
    assert chart(found, width, height) == [words]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80),
    st.integers(24, 120),
    st.integers(4, 40),
)
def test_any_history_fills_its_rectangle(
    samples: list[tuple[int, int, int]], width: int, height: int
) -> None:
    times, at = [], 0.0
    for pause, _, _ in samples:
        at += pause
        times.append(at)
    found = history(
        tuple(times),
        inference=tuple(size * GIB for _, size, _ in samples),
        someone=tuple(size * GIB for _, _, size in samples),
    )
    lines = chart(found, width, height)
    assert len(lines) == height
    assert {len(line) for line in lines[:-1]} == {width}
    assert len(lines[-1]) <= width


def test_the_fakes_histories_are_drawn() -> None:
    (found,) = gpu_histories(scenarios.SHARED).histories
    assert found.device == SHARED_DEVICE.key
    assert "▒" in "".join(chart(found, 70, 12))
