"""Components, and what stands beside them: servers and logs of others, hosts, what is wrong with the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rltui.core.text import duration, quiet_s

if TYPE_CHECKING:
    from rltui.core.api import HealthIssue


LINK_SIGN = "↗"
LOG_SYMBOLS = {"growing": "●", "quiet": "○", "no file yet": "◌"}
"""By the word of `log_state`."""
_SERVER_WORDS = {"unknown": "◌ not asked yet", "ready": "● ready", "down": "✗ down", "refused": "✗ refused"}
"""By the state of a server that somebody else runs."""
_MOST_EDITS = 3
"""Named beside a trouble, the newest."""


def log_state(path: str | None, changed_at: float | None, now: float) -> tuple[str, str]:
    """Of a log file that somebody else writes: its word, and since when it is quiet."""
    if path is None:
        return "no file yet", ""
    quiet = quiet_s(changed_at, now)
    return ("growing", "") if quiet is None else ("quiet", duration(quiet))


def concern_text(concern: HealthIssue) -> str:
    """In a line or two: what is wrong, where to go back to, what was edited since."""
    parts = [f"{concern.word}: {concern.evidence}"]
    if concern.last_good is not None:
        parts.append(f"last good checkpoint {concern.last_good}")
    if concern.edits:
        parts.append(f"edited since: {'; '.join(concern.edits[-_MOST_EDITS:])}")
    return " · ".join(parts)


def failed_text(components: Sequence[str]) -> str:
    """`failed: trainer`."""
    return f"failed: {', '.join(components)}"


def waits_text(waits: str, waits_for: str, share_frac: float) -> str:
    """The bottleneck in short: `trainer waits for a batch 62 %`."""
    return f"{waits} waits for {waits_for} {100 * share_frac:.0f} %"


def server_text(server: Mapping[str, Any]) -> str:
    """Of a `ServerStatus`: `inference (external) ● ready · KV 41 % · http://gpu-2:8000/v1 · serves tiny`."""
    source = server["source"]
    whose = "external" if source in ("config", "--inference") else f"of {source}"
    parts = [f"{server['id']} ({whose}) {_SERVER_WORDS[server['state']]}", *server["facts"], server["url"]]
    if server["reason"]:
        parts.append(server["reason"])
    elif server["models"]:
        wanted = server["model"] if server["model"] in server["models"] else server["models"][0]
        parts.append(f"serves {wanted}")
    return " · ".join(parts)


def host_texts(host: Mapping[str, Any], now: float) -> list[str]:
    """Of a `HostStatus`: `job 1234 on node-[1-2]`, `waits for others, starts about 14:05`, `ends in 12m`."""
    started = f"start {host['starts']}" if host["starts"] > 1 else ""
    texts = [host["where"], host["reason"], started]
    if host["ends_at"] is not None and host["phase"] == "running":
        texts.append(f"ends in {duration(host['ends_at'] - now)}")
    if host["lost_at"] is not None:
        texts.insert(0, f"⚠ no answer for {duration(now - host['lost_at'])}: {host['problem']}")
    return [text for text in texts if text]
