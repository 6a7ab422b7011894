"""What a person should notice of a run, besides its components' changes of state."""

from __future__ import annotations

from rltui.core.api import Alert, Progress


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


def done_alert(progress: Progress) -> Alert:
    """The run has come to its end."""
    reward = f", reward {progress.reward:.3f}" if progress.reward is not None else ""
    text = f"step {progress.step}/{progress.max_steps}{reward}"
    return Alert(kind="finished", severity="information", title="the run is done", text=text)
