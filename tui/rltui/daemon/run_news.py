"""What a person should notice of a run, besides its components' changes of state."""

from __future__ import annotations

from collections.abc import Sequence

from rltui.core.api import Alert, Concern, Progress


def stall_alert(component: str, evidence: str | None) -> Alert:
    """A living component gives no sign of life, by this evidence; `None`: it does again."""
    stalled = evidence is not None
    return Alert(
        kind="stall" if stalled else "recovered",
        severity="warning" if stalled else "information",
        title=f"{component} {'stalled' if stalled else 'goes on'}",
        text=evidence or "it gives signs of life again",
        component=component,
    )


def keeper_alert(component: str, pid: int | None) -> Alert:
    """Its shim was killed: what such a component leaves behind is harder to find."""
    return Alert(
        kind="notice",
        severity="warning",
        title=f"the shim of {component} was killed",
        text=f"{component} goes on as pid {pid}, watched from here. Its next start has a shim again.",
        component=component,
    )


def concern_alert(concern: Concern) -> Alert:
    """The run goes on, and may not learn any more."""
    return Alert(kind="notice", severity="warning", title=concern.word, text=concern.text)


def done_alert(progress: Progress, still_running: Sequence[str] = ()) -> Alert:
    """The run has come to its end; its servers may go on."""
    reward = f", reward {progress.reward:.3f}" if progress.reward is not None else ""
    more = f"; still running: {', '.join(still_running)}" if still_running else ""
    text = f"step {progress.step}/{progress.max_steps}{reward}{more}"
    return Alert(kind="finished", severity="information", title="the run is done", text=text)
