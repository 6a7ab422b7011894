"""The GPU panel's lines, for all widths and states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.experiment import GIB, NO_GPU, NOW, gpu_device, gpu_process, gpu_report
from tests.ui import gpu_scenarios as scenarios

from rltui.core.gpu.report import GpuBudget, GpuDevice, GpuOwner, GpuReport, GpuReservation, GpuShare
from rltui.ui.widgets.gpu_marks import level_sparkline, mark_cell, memory_bar, owner_marks, share_label
from rltui.ui.widgets.gpu_panel import gpu_lines, gpu_summary, without_times
from rltui.views.gpu.account import freeable, short_name, stale_age_s

WIDTHS = (28, 34, 40, 52, 70, 120)
MANY = 8
TWELVE_LINES = 12


def plain(report: GpuReport | None, width: int, **options: object) -> list[str]:
    return [line.plain for line in gpu_lines(report, width, **options)]  # type: ignore[arg-type]


def bar(device: GpuDevice, width: int) -> str:
    return memory_bar(device, width, owner_marks(GpuReport(available=True, devices=(device,)))).plain


@pytest.mark.parametrize("name", [*scenarios.SCENARIOS, "unread"])
def test_lines_fit(name: str) -> None:
    for width in WIDTHS:
        for line in gpu_lines(scenarios.SCENARIOS.get(name), width, hint=" · K"):
            assert line.cell_length <= width, line.plain


@pytest.mark.parametrize("report", [scenarios.EIGHT, gpu_report(MANY)], ids=["two owners", "three owners"])
def test_eight_devices_take_twelve_lines(report: GpuReport) -> None:
    for width in WIDTHS:
        lines = plain(report, width)
        assert len(lines) <= TWELVE_LINES
        for index, line in enumerate(lines[:MANY]):
            assert line.startswith(f"{index} ")
            assert "/80.0" in line or "/141" in line
        assert "┊" in lines[0]
        assert "█ inference" in "".join(lines[MANY:])
        assert "▒ trainer" in "".join(lines[MANY:])


def test_one_device_in_full() -> None:
    assert plain(scenarios.SHARED, 52)[1:] == [
        "██████████████████▒┊▒▒▒▒▒▒▒▒▒▒▒▨░░░░░░ 20.2/24.0 GiB",
        "█ inference 11.2 · peak 11.7 · budget 0.5 ┊ 12.0",
        "▒ trainer 8.6 · peak 9.1",
        "▨ unattributed 0.4  ░ free 3.8",
    ]
    head = plain(scenarios.SHARED, 52)[0]
    assert head.startswith("0 RTX 4090  ▄")
    assert head.endswith("83 %  312/450 W  66 °C")


def test_budget_of_an_engine_that_does_not_run_is_marked() -> None:
    lines = plain(scenarios.GOOD_VERDICT, 60)
    assert "┊" in lines[1]
    assert "█ inference · budget 0.5 ┊ 12.0" in lines
    assert any(line.startswith("✓ fits: inference takes 12.0") for line in lines)


def test_bad_verdict_is_said_with_its_figures() -> None:
    assert "✗ inference needs 12.0 GiB free, 9.1 are free" in plain(scenarios.BAD_VERDICT, 60)


def test_the_same_verdict_of_several_devices_is_said_once() -> None:
    (verdict,) = scenarios.BAD_VERDICT.verdicts
    verdicts = (verdict, verdict.replace(device=1))
    lines = plain(scenarios.BAD_VERDICT.replace(verdicts=verdicts), 70)
    assert [line for line in lines if "needs" in line] == [
        "✗ GPU 0, 1: inference needs 12.0 GiB free, 9.1 are free"
    ]


def test_a_verdict_that_names_its_device_is_told_as_it_is() -> None:
    (verdict,) = scenarios.BAD_VERDICT.verdicts
    verdicts = tuple(
        verdict.replace(device=index, text=f"inference needs 12.0 GiB free on GPU {index}")
        for index in range(2)
    )
    lines = plain(scenarios.BAD_VERDICT.replace(verdicts=verdicts), 70)
    assert lines[-2:] == [f"✗ {item.text}" for item in verdicts]


@pytest.mark.parametrize(
    ("width", "leftover", "unknown"),
    [
        (80, "⚠ leftover of inference attempt 1: pid 4711 VLLM::EngineCore 9.4 GiB · K",
         "⚠ unknown pid 5120 python 3.0 GiB · K"),
        (50, "⚠ leftover pid 4711 VLLM::EngineCore 9.4 GiB · K", "⚠ unknown pid 5120 python 3.0 GiB · K"),
        (28, "⚠ pid 4711 9.4 GiB · K", "⚠ pid 5120 3.0 GiB · K"),
    ],
)  # fmt: skip
def test_memory_that_could_be_freed_has_rows(width: int, leftover: str, unknown: str) -> None:
    assert [line for line in plain(scenarios.ORPHANS, width, hint=" · K") if line.startswith("⚠")] == [
        leftover,
        unknown,
    ]


def test_a_process_on_two_devices_is_one_row_and_those_of_other_hosts_none() -> None:
    process = gpu_process(7, 2.0, owner="mine", name="python")
    here = (gpu_device(0, [process]), gpu_device(1, [process]))
    report = scenarios.report(*here, gpu_device(0, [process], host="node7"))
    ((found, size),) = freeable(report)
    assert (found.pid, size) == (7, 4 * GIB)


def test_more_than_three_rows_point_to_the_screen() -> None:
    processes = [gpu_process(pid, 1.0, owner="mine", name="python") for pid in range(1, 7)]
    lines = plain(scenarios.report(gpu_device(0, processes)), 60)
    assert "⚠ and 3 more: 3 lists them" in lines


def test_estimates_are_marked() -> None:
    lines = plain(scenarios.ESTIMATES, 60)
    assert any(line.startswith("█ inference ~11.2") for line in lines)


@pytest.mark.parametrize(
    ("report", "words"),
    [(scenarios.UNIFIED, "unified memory"), (scenarios.OLD_DRIVER, "incl. reserved")],
    ids=["unified", "v1"],
)
def test_figures_of_another_meaning_say_so(report: GpuReport, words: str) -> None:
    assert words in plain(report, 60)[0]


def test_slices_have_their_own_names() -> None:
    lines = plain(scenarios.MIG, 60)
    assert lines[0].startswith("0.0 H100 MIG 3g.40gb")
    assert any(line.startswith("0.1 ") for line in lines)


def test_wear_is_said_in_words_and_once() -> None:
    lines = plain(scenarios.WORN, 70)
    assert "⚠ GPU 0, 1: throttled: power brake and thermal slowdown" in lines
    assert "⚠ GPU 0: 3 uncorrected memory errors (ECC)" in lines


def test_other_hosts_have_their_name_above() -> None:
    lines = plain(scenarios.OTHER_HOST, 52)
    at = next(at for at, line in enumerate(lines) if line.startswith("node7 ──"))
    assert lines[at + 1].startswith("0 H100")
    assert lines[-2].startswith("⚠ node8: srun: error")


def test_other_hosts_are_shown_where_there_is_no_gpu_here() -> None:
    device = scenarios.OTHER_HOST.devices[1]
    report = NO_GPU.replace(devices=(device,), sources=scenarios.OTHER_HOST.sources)
    lines = plain(report, 100)
    assert lines[0].startswith("No GPUs: the NVIDIA driver is not installed")
    assert lines[1].startswith("node7 ─")


def test_problem_of_a_device_is_said_in_words() -> None:
    device = GpuDevice(index=3, name="NVIDIA H200", problem="lost: reboot the machine")
    assert plain(GpuReport(available=True, devices=(device,)), 60) == ["⚠ 3 H200: lost: reboot the machine"]


def test_text_from_outside_is_harmless() -> None:
    device = gpu_device(
        0, [gpu_process(1, 1.0, owner="other", user="\x1b[31mev\u202eil\x9b2J")], name="[red]\x1b]0;t\x07X"
    )
    text = "\n".join(plain(scenarios.report(device), 80))
    assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(text)
    assert "[red]X" in text


def test_stale_lines_have_the_same_words_without_colours() -> None:
    fresh, stale = gpu_lines(scenarios.STALE, 60), gpu_lines(scenarios.STALE, 60, is_stale=True)
    assert [line.plain for line in fresh] == [line.plain for line in stale]
    assert all(len({span.style for span in line.spans}) <= 1 for line in stale)


@pytest.mark.parametrize(("age_s", "stale"), [(0, False), (3, False), (3.1, True), (12, True)])
def test_stale_is_three_intervals(age_s: float, stale: bool) -> None:
    assert (stale_age_s(scenarios.TWO, NOW + age_s) is not None) is stale
    assert stale_age_s(NO_GPU, NOW + age_s) is None


def test_time_alone_is_no_news() -> None:
    later = scenarios.OTHER_HOST.replace(sampled_at=NOW + 1)
    assert later != scenarios.OTHER_HOST
    assert without_times(later) == without_times(scenarios.OTHER_HOST)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100 MIG 1g.10gb"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA H200 NVL", "H200 NVL"),
    ],
)
def test_short_name(name: str, short: str) -> None:
    assert short_name(name) == short


def test_summary_names_problems() -> None:
    assert gpu_summary(scenarios.LOST) == "0: 71.2/80.0 GiB 98 % · 1: problem"
    assert gpu_summary(NO_GPU) == "none"
    assert gpu_summary(gpu_report(4)) == "4 · 237/564 GiB · 82 to 97 %"


def test_sparkline_has_a_fixed_scale() -> None:
    assert level_sparkline((0, 50, 100), 10) == "▁▅█"
    assert level_sparkline((50, 50, 50), 2) == "▅▅"
    assert level_sparkline((7,), 0) == ""


def test_bar_shows_every_holder_engines_first() -> None:
    shares = (
        GpuShare(owner="component", component="trainer", used_bytes=90 * GIB),
        GpuShare(owner="component", component="inference", used_bytes=GIB // 4),
    )
    budget = GpuBudget(component="inference", utilization=0.1, budget_bytes=14 * GIB)
    device = GpuDevice(index=0, total_bytes=140 * GIB, used_bytes=92 * GIB, shares=shares, budgets=(budget,))
    assert bar(device, 20) == "█▒┊" + "▒" * 10 + "▨" + "░" * 6
    claim = GpuReservation(experiment="b", component="inference", device="", size_bytes=30 * GIB)
    claimed = device.replace(claims=(claim.replace(left_bytes=28 * GIB),), free_bytes=48 * GIB)
    assert bar(claimed, 20) == "█▒┊" + "▒" * 10 + "▨" + "╌" * 4 + "░" * 2
    for count in (1, MANY):
        lines = plain(GpuReport(available=True, devices=(claimed,) * count), 60)
        assert any(f"╌ +{28 * count}" in line and "b/inference" in line for line in lines)
    unknown = device.replace(claims=(claim.replace(size_bytes=0),))
    assert any(
        "╌ +? b/inference" in line for line in plain(GpuReport(available=True, devices=(unknown,)), 28)
    )


SIZES = st.integers(0, 90 * GIB)


@st.composite
def devices(draw: st.DrawFn) -> GpuDevice:
    owners: list[GpuOwner] = draw(
        st.lists(st.sampled_from(["orphan", "mine", "other", "unknown"]), unique=True)
    )
    shares = [GpuShare(owner=owner, used_bytes=draw(SIZES)) for owner in owners]
    shares += [
        GpuShare(owner="component", component=name, used_bytes=draw(SIZES), peak_bytes=draw(SIZES))
        for name in draw(st.lists(st.sampled_from("abcdef"), unique=True))
    ]
    used = sum(share.used_bytes for share in shares) + draw(SIZES)
    return GpuDevice(
        index=0,
        total_bytes=used + draw(SIZES),
        used_bytes=used,
        shares=tuple(shares),
        budgets=tuple(
            GpuBudget(component=name, utilization=0.5, budget_bytes=draw(SIZES))
            for name in draw(st.lists(st.sampled_from("abc"), unique=True, max_size=2))
        ),
        claims=tuple(
            GpuReservation(experiment=name * 48, device="", left_bytes=draw(SIZES))
            for name in draw(st.lists(st.sampled_from("abc"), unique=True, max_size=2))
        ),
    )


@given(devices(), st.integers(1, 90))
def test_bars_have_their_width(device: GpuDevice, width: int) -> None:
    assert len(bar(device, width)) == width


@given(devices())
def test_everybody_has_a_cell(device: GpuDevice) -> None:
    without_budgets = device.replace(budgets=())
    marks = owner_marks(GpuReport(available=True, devices=(without_budgets,)))
    if device.total_bytes:
        holders = {marks[share_label(share)].glyph for share in device.shares if share.used_bytes}
        assert holders <= set(bar(without_budgets, 90))


@given(devices(), st.sampled_from(WIDTHS))
def test_lines_of_any_device_fit(device: GpuDevice, width: int) -> None:
    report = GpuReport(available=True, devices=(device,))
    assert all(line.cell_length <= width for line in gpu_lines(report, width))


@given(st.integers(0, 200 * GIB), st.integers(1, 100 * GIB), st.integers(1, 200))
def test_marks_lie_on_the_bar(size: int, total: int, cells: int) -> None:
    assert 0 <= mark_cell(size, total, cells) < cells
