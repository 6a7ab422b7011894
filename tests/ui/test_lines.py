"""The pure functions below the widgets."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import (
    FAILED,
    NOW,
    ORPHANS,
    SET_PLAN,
    component,
    knob,
    knob_table,
    running_status,
    with_state,
)
from tests.ui.status_cases import done_status
from tests.ui.trouble import (
    EDIT,
    REMEDIES,
    SECOND_LEFTOVER,
    TRAINER_MEMORY,
    out_of_memory_status,
    unwell_status,
)

from rltui.base.text import sparkline
from rltui.cli.status_text import as_text
from rltui.core.config.report import KnobInfo, Problem
from rltui.core.experiment.api import Curve, HealthIssue, Orphan, Plan
from rltui.core.experiment.states import ComponentState, Reason
from rltui.core.rollouts.batches import Sample
from rltui.errors import ConfigError
from rltui.ui import text
from rltui.ui.knob_values import scaled, stepped, typed_value
from rltui.ui.plan_view import diff_lines, plan_content
from rltui.ui.requests import done_text
from rltui.ui.widgets.bars import bar_lines, header_line
from rltui.ui.widgets.knob_table import knob_columns, knob_line, table_note
from rltui.ui.widgets.panes import memory_notes
from rltui.ui.widgets.rollout_lines import sample_heading, sample_line
from rltui.views.knob import by_section, change_text, name_in_section

NASTY = "a\x1b[31mb\x1b]0;title\x07c\x9b2Jd\u202ee\rf[red]"


def test_clean_leaves_nothing_that_acts_on_a_terminal() -> None:
    assert text.clean(NASTY) == "abcdef[red]"
    assert text.clean_line("one\ntwo") == "one two"


def test_a_narrow_list_of_samples_has_the_rewards_of_agents_in_place_of_the_group() -> None:
    sample = Sample(0, group="g7", reward=0.4, output_tokens=128, turns=4, stop="done", agents="a 0.1, b 0.7")
    line = sample_line(sample, 46, is_flat=False, is_marked=False).plain
    assert "a 0.1, b 0.7" in line
    assert "g7" not in line
    assert "agents" in sample_heading(46, has_agents=True).plain
    assert sample_heading(66, has_agents=True).plain.split()[-1] == "agents", "at 200 columns, too"
    assert sample_line(sample, 66, is_flat=False, is_marked=False).plain.split()[-4:] == [
        "a",
        "0.1,",
        "b",
        "0.7",
    ]
    wide = sample_line(sample, 140, is_flat=False, is_marked=False).plain
    assert "g7" in wide
    assert wide.rstrip().endswith("a 0.1, b 0.7")


def test_the_header_of_a_run_without_rewards_has_what_it_learns_by() -> None:
    status = running_status()
    target = Curve(title="teacher KL", points=((1, 0.5), (2, 0.0312)))
    header = header_line(status.replace(progress=status.progress.replace(target=target)), 120).plain
    assert "teacher KL 0.0312" in header
    assert "reward" not in header


@pytest.mark.parametrize(
    ("per_second", "words"), [(640, "640"), (8213, "8.2k"), (12_300, "12k"), (1.1e6, "1.1M")]
)
def test_rate(per_second: float, words: str) -> None:
    assert text.rate(per_second) == words


def test_sparkline_scales_and_skips_gaps() -> None:
    assert sparkline((0.0, 0.5, float("nan"), 1.0), 10) == "▁▅ █"
    assert sparkline((1.0, 1.0), 10) == "▄▄"
    assert sparkline((), 10) == ""
    assert sparkline(tuple(range(20)), 3) == "▇██", "scaled to all values, not to those shown"
    assert sparkline((*[0.98] * 20, 0.0, 0.01, 0.02), 3) == "▁▁▁", "B1: a collapse is no climb"


@pytest.mark.parametrize("fraction", [-1, 0.33, 7])
def test_progress_bar_has_its_width(fraction: float) -> None:
    assert sum(map(len, text.progress_bar(fraction, 10))) == 10


@pytest.mark.parametrize("width", [20, 80, 160])
def test_header_fits_and_keeps_the_name(width: int) -> None:
    line = header_line(running_status(), width)
    assert line.cell_length <= max(width, 22)
    assert "reverse-text" in line.plain


def test_header_has_no_stale_figures() -> None:  # B4
    running = running_status()
    assert "tok/s" in header_line(running, 200).plain
    assert "ETA" in header_line(running, 200).plain
    trainer = running.components[-1].replace(state=ComponentState.FAILED)
    failed = with_state(running.replace(components=(*running.components[:-1], trainer)))
    done = done_status()
    assert "✓ done · inference still up" in header_line(done, 100).plain
    several = done.replace(reason=Reason("still_up", "inference and env-eval-reverse-text still up"))
    narrow = header_line(several, 60)
    assert "✓ done · inference and e…" in narrow.plain
    assert narrow.cell_length == 60
    for status in (done, failed, running.replace(state="stopped")):
        line = header_line(status, 200).plain
        assert "tok/s" not in line
        assert "ETA" not in line
        assert "reward" in line


def test_header_says_that_a_run_does_not_learn() -> None:  # B1
    status = running_status()
    concern = HealthIssue(word="reward collapsed", text="…")
    progress = status.progress.replace(concerns=(concern,))
    line = header_line(status.replace(progress=progress), 100).plain
    assert "● running" in line
    assert "⚠ reward collapsed" in line


def test_header_says_who_waits_for_whom_where_there_is_room() -> None:
    assert "trainer waits for a batch 62 %" in header_line(unwell_status(), 200).plain
    assert "waiting for" not in header_line(unwell_status(), 80).plain
    assert "⚠ reward collapsed" in header_line(unwell_status(), 80).plain
    stopped = unwell_status().replace(state="stopped")
    assert "waiting for" not in header_line(stopped, 200).plain, "nobody waits any more"


def test_header_says_what_all_rollouts_got_where_some_are_not_trained_on() -> None:
    status = running_status()
    progress = status.progress.replace(reward=0.135, reward_all=0.0677)
    line = header_line(status.replace(progress=progress), 200).plain
    assert "reward 0.14 · all rollouts 0.07" in " ".join(line.split())


def test_an_end_that_is_nothing_worth_is_told_beside_done() -> None:
    line = header_line(unwell_status().replace(state="done"), 100).plain
    assert "✓ done" in line
    assert "⚠ reward collapsed" in line


def test_a_run_of_others_that_does_not_learn_says_so() -> None:
    line = header_line(unwell_status().replace(observed=True), 140).plain
    assert "● running · observed" in line
    assert "⚠ reward collapsed" in line


@pytest.mark.usefixtures("own_user")
def test_the_command_line_tells_where_to_go_back_to_once() -> None:
    lines = as_text(unwell_status().to_plain(), NOW).splitlines()[2:6]
    heads = ("  ⚠ reward collapsed: ", "  ⚠ KL out of range: ", "    back to ", "  ◌ trainer waits ")
    assert all(line.startswith(head) for line, head in zip(lines, heads, strict=True))
    assert lines[2] == f"    back to checkpoint 40, without {EDIT}: rltui undo --restart --from 40"


def test_the_command_line_says_the_same_word_as_the_header() -> None:
    """Finding B2: a dead trainer beside a living server was `running` there."""
    status = running_status(components=(component("trainer", FAILED), component("inference")))
    told = as_text(status.to_plain(), NOW).splitlines()[0]
    assert "failed: trainer" in told
    assert (status.state, status.alive) == ("failed", True)


def test_servers_that_outlive_the_run_are_told() -> None:
    """Finding P11."""
    text = as_text(done_status().to_plain(), NOW)
    assert "still running: inference; to stop all: rltui down" in text


FIRST = "⚠ 2 leftover processes of inference attempt 1"
HINT = " · K ends them"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (160, f"{FIRST}: pid 4711 VLLM::EngineCore 4m12s 58.0 GiB, pid 4712 python -c worker :8000{HINT}"),
        (110, f"{FIRST}: pid 4711 VLLM::EngineCore 4m12s 58.0 GiB, …{HINT}"),
        (78, f"{FIRST}: 58.0 GiB, :8000{HINT}"),
        (60, f"{FIRST}{HINT}"),
        (40, f"⚠ 2 leftover processes of…{HINT}"),
    ],
)
def test_leftovers_say_what_there_is_room_for(width: int, line: str) -> None:
    assert bar_lines(ORPHANS, width, rows=1, hint=HINT) == [line]
    assert len(line) <= width


def test_leftovers_have_a_line_per_attempt_or_one_for_all() -> None:
    orphans = (*ORPHANS, SECOND_LEFTOVER)
    lines = bar_lines(orphans, 160, rows=3, hint=HINT)
    assert [HINT in line for line in lines] == [False, True]
    assert "trainer attempt 3" in lines[1]
    one = "⚠ 3 leftover processes: 67.8 GiB, :8000 · K ends them"
    assert bar_lines(orphans, 78, rows=1, hint=HINT) == [one]
    assert bar_lines((), 78, rows=1, hint=HINT) == []


def test_what_matters_is_named_first() -> None:  # G12
    tracker = Orphan(
        pid=5, start=1, command="python -c from multiprocessing.resource_tracker import main", component="i"
    )
    engine = Orphan(pid=9, start=1, command="VLLM::EngineCore", component="i")
    (line,) = bar_lines([tracker, engine], 60, rows=1, hint="")
    assert "pid 9 VLLM::EngineCore, …" in line
    holder = Orphan(pid=11, start=1, command="VLLM::Worker", component="i", gpu_bytes=60 << 30)
    (line,) = bar_lines([tracker, engine, holder], 70, rows=1, hint="")
    assert "pid 11 VLLM::Worker" in line


def test_a_plan_to_end_leftovers_tells_all_of_each() -> None:
    words = plan_content(Plan(action="free", free=(ORPHANS[0], SECOND_LEFTOVER))).plain
    for part in (
        "pid 4711 VLLM::EngineCore",
        "running for 4m12s · holds 58.0 GiB of GPU memory",
        "of inference attempt 1: a child of its processes",
        "pid 5120 torchrun --nproc-per-node 8 train.py",
        "of trainer attempt 3: has its tag in the environment",
    ):
        assert part in words


@pytest.mark.parametrize("width", [20, 28, 38, 64, 200])
def test_knob_lines_fill_their_width(width: int) -> None:
    table = knob_table()
    columns = knob_columns(table, width)
    lines = {row: knob_line(row, columns, None) for row in table.knobs}
    assert {line.cell_length for line in lines.values()} == {min(width, 64)}
    if width >= 28:
        assert all(name_in_section(row.key) in line.plain for row, line in lines.items())
        assert all(change_text(row) in line.plain for row, line in lines.items())


@pytest.mark.parametrize(("width", "readers"), [(28, 0), (32, 3), (34, 5), (42, 10)])
def test_readers_give_way_first(width: int, readers: int) -> None:
    assert knob_columns(knob_table(), width).readers == readers


def test_a_long_value_gives_way_to_the_name() -> None:
    row = knob("model.name", "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT", "trainer", kind="str")
    line = knob_line(row, knob_columns(knob_table(knobs=(row,)), 30), None).plain
    assert line == "  name PrimeIntellect/Q… train"


def test_a_long_name_loses_its_first_elements() -> None:
    row = knob("orchestrator.sampling.temperature", 0.5, kind="float")
    line = knob_line(row, knob_columns(knob_table(knobs=(row,)), 20), None).plain
    assert line == "  …temperature   0.5"


def test_sections_keep_together() -> None:
    knobs = tuple(knob(key, 1) for key in ("a", "x.a.b", "y.a", "b", "x.c"))
    assert {section: [each.key for each in rows] for section, rows in by_section(knobs).items()} == {
        "run": ["a", "b"], "x": ["x.a.b", "x.c"], "y": ["y.a"],
    }  # fmt: skip


def test_knob_line_marks_problems_and_changes() -> None:
    row = knob("a.batch_size", 64, "trainer", running=128)
    problem = Problem(key="a.batch_size", message="no")
    line = knob_line(row, knob_columns(knob_table(), 50), problem).plain
    assert line.startswith("✗ batch_size")
    assert "128 → 64" in line


def test_table_note_counts_errors_and_changes() -> None:
    table = knob_table(problems=(Problem(message="x"),))
    assert table_note(table).plain == "✗ 1 error · 1 change needs a restart: A"


@pytest.mark.parametrize(
    ("kind", "typed"), [("int", "1.5"), ("float", "inf"), ("float", "x"), ("bool", "yes")]
)
def test_parse_value_refuses(kind: str, typed: str) -> None:
    row = KnobInfo.from_plain({"key": "a.b", "file": "f", "kind": kind})
    with pytest.raises(ConfigError, match=r"^a.b must be "):
        typed_value(row, typed)


def test_steps_stay_within_bounds() -> None:
    row = knob("a", 64, bounds=(1, 100))
    assert stepped(row, "100", 1) == "100"
    assert scaled(row, "64", 2) == "100"
    assert scaled(row, "1", 0.5) == "1"
    assert stepped(row, "x", 1) == "x"


@pytest.mark.parametrize(
    ("typed", "stepped_up"), [("0.5", "0.51"), ("1e-05", "1.1e-5"), ("0", "0.01"), ("2.5", "2.6")]
)
def test_floats_step_in_their_second_digit(typed: str, stepped_up: str) -> None:
    assert stepped(knob("a", 0.5, kind="float"), typed, 1) == stepped_up


def test_the_verdict_on_memory_stands_in_place_of_the_reason() -> None:
    *_, trainer = out_of_memory_status(*REMEDIES).components
    verdict, first = memory_notes(trainer).plain.split("\n")
    assert verdict.startswith("✗ out of memory on GPU 1: tried to allocate 2.0 GiB")
    assert first == "→ F inference.gpu_memory_utilization 0.7 → 0.6 · or 2 more"
    assert memory_notes(trainer, readonly=True).plain.endswith(f"\n{first.replace('F ', '')}")
    assert not memory_notes(component("trainer", FAILED, reason="exited 1"))
    alone = component("trainer", FAILED, out_of_memory=TRAINER_MEMORY)
    assert "\n" not in memory_notes(alone).plain


def test_plan_says_everything() -> None:
    plan = SET_PLAN.replace(problems=(Problem(severity="hint", message=NASTY),))
    words = plan_content(plan).plain
    for part in ("abcdef[red]", "trainer → orchestrator", "inference (not touched)", "+batch_size = 64"):
        assert part in words


def test_diff_headers_become_the_file_name() -> None:
    assert [line.plain for line in diff_lines("--- a/rl.toml\n+++ b/rl.toml\n+x")] == ["─ rl.toml ─", "+x"]


def test_done_text_names_who_restarts() -> None:
    assert done_text(SET_PLAN) == "Written. Restarting orchestrator and trainer"
    assert done_text(Plan(action="stop", stop=("a", "b"))) == "Stopping a and b"
