"""A sample of a rollout in full, and another one beside it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from rltui.core.rollouts.batches import BatchKey, Sample, Transcript
from rltui.ui.found_prompts import FoundPrompt
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.transcript_view import TranscriptView
from rltui.views.rollout import reward_text


class SamplePanes:
    """The two views, each in a box with a title."""

    def __init__(self) -> None:
        self.own, self.other = TranscriptView(), TranscriptView()
        self._own_box = Vertical(id="rollout-reading", classes="rollout-reading")
        self._other_box = Vertical(id="rollout-other", classes="rollout-reading")

    def compose(self) -> ComposeResult:
        with self._own_box:
            yield self.own
        with self._other_box:
            yield self.other

    def clear(self) -> None:
        self.own.show(None)
        self._own_box.border_title = None

    def show_problem(self, problem: str) -> None:
        """Show why the sample cannot be read, in its place."""
        self.own.show(None, note=problem)

    def read(self, transcript: Transcript, title: str, batch: BatchKey, *, at_answer: bool) -> None:
        self.own.show(transcript, at_answer=at_answer)
        self._own_box.border_title = _title(title, batch)

    def compare(self, own_title: str, batch: BatchKey, prompt: FoundPrompt, transcript: Transcript) -> None:
        """Show `transcript`, which is of `prompt`, beside the sample that is read, which is of `batch`."""
        own = self.own.transcript
        assert own is not None, "it is read already"
        self.other.show(transcript)
        self._own_box.border_title = _title(own_title, batch, own.sample)
        self._other_box.border_title = _title(prompt.run or "The other sample", prompt.key, transcript.sample)

    def toggle_raw(self) -> None:
        for view in (self.own, self.other):
            view.is_raw = not view.is_raw
            view.lay_out()

    def toggle_tools(self) -> None:
        for view in (self.own, self.other):
            view.is_folded = not view.is_folded
            view.lay_out()


def _title(text: str, key: BatchKey, sample: Sample | None = None) -> Content:
    reward = "" if sample is None else f" · reward {reward_text(sample.reward)}"
    label = clean_line(key.label)
    step = f"step {label}" if label[:1].isdigit() else label
    return Content.assemble((text, "bold"), (f" · {step}{reward}", FAINT))
