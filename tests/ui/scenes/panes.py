"""Log panes by themselves: colours as they were written, and characters of every kind."""

from __future__ import annotations

from pathlib import Path

from tests.ui.scenes.scene import Scene, scene
from textual.app import App, ComposeResult

from rltui.services.logs.index import LogFile
from rltui.ui.logs.view import LogView

DATA = Path(__file__).parents[2] / "data"
LOGURU = (
    "\x1b[2m23:34:14\x1b[0m \x1b[1m   INFO\x1b[0m \x1b[1m\x1b[22mStarting training loop\x1b[0m\x1b[0m\n"
    "\x1b[2m23:34:20\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[32m\x1b[1m\x1b[22mStep 3 | Time: 3.21s | "
    "Loss: 0.0012\x1b[0m\x1b[0m\n"
    "\x1b[2m23:34:21\x1b[0m \x1b[33m\x1b[1mWARNING\x1b[0m \x1b[33m\x1b[1m\x1b[22mlow memory\x1b[0m\x1b[0m\n"
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n'
    "torch.OutOfMemoryError: CUDA out of memory.\n"
    "\x1b[38;5;208mpalette\x1b[0m \x1b[38;2;90;160;255mtrue\x1b[0m \x1b[7mreverse\x1b[0m \x1b[4munder\x1b[0m "
    "[red]not markup[/red]\t日本語 \x1b]52;c;eA==\x07\x1b[2Jend\n"
    "Generating:   0%|          | 0/16\rGenerating:  50%|█████     | 8/16"
)


class PanesApp(App[None]):
    CSS = "LogView { border: round $primary; }"

    def __init__(self, folder: Path, *, wrap: bool = False) -> None:
        super().__init__()
        self._trainer = folder / "trainer.log"
        self._trainer.write_text(LOGURU, newline="")
        self._wrap = wrap

    def compose(self) -> ComposeResult:
        for title in ("inference ● ready", "orchestrator ○ waiting", "trainer ● running"):
            pane = LogView()
            pane.border_title = title
            yield pane

    def on_mount(self) -> None:
        inference, orchestrator, trainer = self.query(LogView)
        inference.set_source(LogFile(DATA / "vllm-0.32-cpu-startup.log"))
        orchestrator.set_source(None, "waiting for inference")
        trainer.set_source(LogFile(self._trainer))
        for pane in (inference, trainer):
            pane.model.window.wrap = self._wrap


SHOWN = (
    "waiting for inference",
    "23:34:20 S Step 3 | Time: 3.21s | Loss: 0.0012",
    "Generating:  50% ▰▰▰▰▰▱▱▱▱▱  8/16",
    "palette true reverse under [red]not markup[/red]",
)

SCENES: dict[str, Scene] = {
    "log-panes": scene(
        PanesApp, (), *SHOWN, '×3 127.0.0.1:41186 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "日本語 end", "23:33:52 I Run   0 Wait   0 KV   0.0% prompt     0.0 gen     0.0 hit   0.0%", panes=(),
    ),
    "log-panes-wrapped": scene(
        lambda folder: PanesApp(folder, wrap=True), ("pageup", "up"), *SHOWN, "3 lines below, G follows",
        "/inference/v1/abort_requests, Methods: P│", "OST ", "本語 end", narrow=(),
    ),
}  # fmt: skip
