"""What is taken along, and where to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.experiment import NOW, FakeExperiment, gpu_report, knob_table, running_status
from tests.fakes.rollouts import write_flat_run
from tests.fakes.runs import FakeRuns, run_row
from tests.ui.checkpoint_cases import with_checkpoints
from tests.ui.conftest import Opener, make_app, press, said, screen_text, settle, until
from textual.events import MouseMove
from textual.pilot import Pilot
from textual.widget import Widget

from rltui.core.experiment.journal import JournalEntry
from rltui.core.rollouts.batches import Conversation, Message, Sample, Transcript
from rltui.ui.copying import CopyRequested, may_keep_it, rows_text
from rltui.ui.dialogs.base import MessageDialog
from rltui.ui.dialogs.description import DescriptionDialog
from rltui.ui.widgets.transcript_view import TranscriptView, transcript_text


async def test_what_is_under_the_cursor_is_copied_on_every_list(
    open_app: Opener, copied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = with_checkpoints()
    experiment.entries = [JournalEntry(at=NOW, kind="note", text="hello")]
    experiment.push(running_status())
    experiment.push(gpu_report())
    experiment.push(knob_table())
    runs = FakeRuns(run_row("one"), run_row("two"))
    async with open_app(experiment, runs=runs) as pilot:
        await settle(pilot)

        async def copy(*keys: str) -> str:
            before = len(copied)
            await press(pilot, *keys, "y")
            await until(pilot, lambda: len(copied) > before)
            return copied[-1]

        assert await copy("ctrl+k") == "orchestrator.batch_size = 64"
        assert await copy("6", "down") == "orchestrator.group_size = 16"
        assert "H200" in await copy("3")
        assert (await copy("9")).startswith("/")
        assert await copy("7") in ("/runs/one", "/runs/two")
        assert await copy("8") == "hello"
        assert said(pilot)[-1] == "Copied the note"


async def test_where_there_is_no_row_it_is_said(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        await press(pilot, "8", "y")
        assert said(pilot)[-1] == "Nothing to copy under the cursor"


@pytest.mark.parametrize(
    ("environ", "text", "words"),
    [
        ({}, "abc", "Copied “abc”"),
        (
            {"TMUX": "x"},
            "abc",
            "Copied “abc”; if tmux blocks the clipboard, see",
        ),
        ({"TERM": "linux"}, "abc", "see /state/rltui/copied.txt"),
        ({}, "x" * 80_000, "Too large for the clipboard: "),
    ],
    ids=["terminal", "tmux", "console", "too much"],
)
async def test_a_copy_that_may_not_arrive_lies_in_a_file_too(
    environ: dict[str, str],
    text: str,
    words: str,
    copied: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    runs = FakeRuns()
    async with make_app(None, runs=runs).run_test() as pilot:
        await settle(pilot)
        pilot.app.post_message(CopyRequested(text))
        await until(pilot, lambda: said(pilot))
        assert words in said(pilot)[-1]
        assert runs.kept_copy == (text if "copied.txt" in said(pilot)[-1] else None)
        assert copied == ([] if "Too large" in words else [text])


async def test_a_tmux_that_takes_it_needs_no_file(copied: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "x")
    runs = FakeRuns()
    runs.has_tmux = True
    async with make_app(None, runs=runs).run_test() as pilot:
        await settle(pilot)
        pilot.app.post_message(CopyRequested("abc"))
        await until(pilot, lambda: said(pilot))
        assert said(pilot) == ["Copied “abc”; also in tmux's buffer"]
        assert (runs.given_to_tmux, runs.kept_copy, copied) == ("abc", None, ["abc"])


def test_who_keeps_a_copy_is_known_by_the_environment() -> None:
    assert may_keep_it({"TERM": "xterm-256color"}) == ""
    assert may_keep_it({"TERM": "screen-256color", "TMUX": "x"}) == "tmux"
    assert may_keep_it({"TERM": "screen", "STY": "x"}) == "screen"
    assert may_keep_it({"TERM": "tmux-256color"}) == "tmux", "beyond ssh"
    assert may_keep_it({"TERM": "linux"}) == "this terminal"


def test_rows_lose_the_sign_of_the_cursor_and_what_fills_them() -> None:
    assert rows_text(["▸ a   1   ", "    below"]) == "a   1\n  below"


def test_a_sample_is_copied_unwrapped_and_without_controls() -> None:
    messages = (
        Message("user", "long " * 100),
        Message("assistant", "ans\x1b[31mwer", sampled=True),
    )
    sample = Sample(where=0)
    transcript = Transcript(sample, (Conversation("", messages),))
    assert transcript_text(transcript) == f"user:\n{'long ' * 100}\n\nassistant:\nanswer"


async def drag(pilot: Pilot[None], widget: Widget, start: tuple[int, int], end: tuple[int, int]) -> None:
    """With the button down, from cell to cell."""
    await pilot.mouse_down(widget, offset=start)
    await pilot._post_mouse_events([MouseMove], widget, end, button=1)
    await pilot.mouse_up(widget, offset=end)
    await settle(pilot)


async def test_words_of_a_dialog_are_selected_by_mouse(
    experiment: FakeExperiment, open_app: Opener, copied: list[str]
) -> None:
    async with open_app(experiment) as pilot:
        pilot.app.push_screen(MessageDialog("something went wrong", ()))
        await settle(pilot)
        await drag(pilot, pilot.app.screen.query_one(".body"), (0, 0), (8, 0))
        await press(pilot, "ctrl+c")
        await until(pilot, lambda: copied)
        assert copied == ["something"]


@pytest.mark.slow
async def test_a_transcript_is_copied_whole_or_what_the_mouse_has_selected(
    experiment: FakeExperiment, open_app: Opener, copied: list[str], tmp_path: Path
) -> None:
    write_flat_run(tmp_path)
    experiment.rollouts = tmp_path
    async with open_app(experiment, size=(130, 40)) as pilot:
        await press(pilot, "5")
        view = pilot.app.screen.query_one(TranscriptView)
        await until(pilot, lambda: view.transcript is not None and view._lines)
        await press(pilot, "y")
        await until(pilot, lambda: copied)
        assert copied[-1].startswith("user:\n")
        row = next(at for at, line in enumerate(view._lines) if "answer" in line.plain)
        first = view._lines[row].plain.index("answer")
        await drag(pilot, view, (first, row), (first + 5, row))
        strip = view.render_line(row)
        assert "".join(each.text for each in strip if each.style and each.style.reverse) == "answer"
        await press(pilot, "y")
        await until(pilot, lambda: len(copied) > 1)
        assert copied[-1] == "answer"


async def test_a_component_is_described_line_by_line(open_app: Opener) -> None:
    """Its command comes first and is copied by one key more."""
    async with open_app(FakeExperiment(), (80, 24)) as pilot:
        await press(pilot, "t", "I")
        await until(pilot, lambda: isinstance(pilot.app.screen, DescriptionDialog))
        await settle(pilot)
        seen = screen_text(pilot)
        words = (
            "trainer of reverse-text",
            "python -m trainer @ rl.toml --note 'a b'",
            "/work",
            "HF_TOKEN=(hidden)",
        )
        assert [word for word in words if word not in seen] == []
        await press(pilot, "enter")
        assert any("Copied the command" in text for text in said(pilot))
        await press(pilot, "end")
        assert "run" in screen_text(pilot)
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, DescriptionDialog)


async def test_a_run_of_the_list_is_described_with_all_components(open_app: Opener) -> None:
    runs = FakeRuns(run_row("base"))
    async with open_app(None, (120, 36), runs=runs) as pilot:
        await press(pilot, "I")
        await until(pilot, lambda: isinstance(pilot.app.screen, DescriptionDialog))
        assert runs.opened == ["id-base"]
        await until(pilot, lambda: "orchestrator" in screen_text(pilot))
