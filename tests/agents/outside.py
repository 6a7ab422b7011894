"""What is true of a run, whatever rltui says: files, processes, journal, checkpoints."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACTS = frozenset({"edit", "plan", "resume", "prune", "restore", "promote", "stop", "start", "note", "down"})
"""Kinds of entries that somebody's act leaves; what follows by itself is none of them."""

REWARD = "train/agg/effective/agent/reward/mean"


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def alive(pid: int) -> bool:
    """There is a process of that number that is no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@dataclass(frozen=True)
class Outside:
    """One run of the embedded engine, seen from its folder."""

    folder: Path

    def journal(self, since: int = 0) -> list[dict[str, Any]]:
        """Entries from the `since`-th on."""
        path = self.folder / ".rltui/journal.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines[since:]]

    def rows(self, key: str) -> dict[int, float]:
        """Values of a metric by step."""
        path = self.folder / "metrics.jsonl"
        rows = map(json.loads, path.read_text().splitlines() if path.exists() else [])
        return {row["step"]: row[key] for row in rows if key in row}

    def rewards(self) -> dict[int, float]:
        return self.rows(REWARD)

    def step(self) -> int:
        return max(self.rewards(), default=0)

    def checkpoints(self) -> set[int]:
        return {int(path.parent.name[5:]) for path in self.folder.glob("checkpoints/step_*/STABLE")}

    def checkpoint_shas(self) -> dict[str, str]:
        """Content of every checkpoint, wherever it lies: also of those that were set aside."""
        files = sorted(self.folder.glob("**/checkpoints/step_*/**/model.safetensors"))
        return {path.parent.parent.parent.name: sha(path) for path in files}

    def pids(self) -> dict[str, int]:
        """Component → pid of its newest attempt, of those that live."""
        found = {}
        for path in self.folder.glob(".rltui/components/*/attempt-*/attempt.json"):
            record = json.loads(path.read_text())
            if record["state"] == "running" and record["pid"] and alive(record["pid"]):
                found[record["component"]] = record["pid"]
        return found

    def acts(self, since: int = 0, agent: str = "") -> list[dict[str, Any]]:
        """What was done, from the `since`-th entry on: by this agent, if entries say by whom."""
        return [
            entry
            for entry in self.journal(since)
            if entry["kind"] in ACTS and agent in (entry.get("by") or {}).get("name", agent)
        ]

    def accepted(self) -> set[tuple[str, int]]:
        """Name and pid of those agents whose proposal a person has accepted."""
        proposals = [entry for entry in self.journal() if entry["kind"] == "proposal"]
        by = {entry["data"]["id"]: entry["by"] for entry in proposals if entry["data"]["state"] == "open"}
        ids = [entry["data"]["id"] for entry in proposals if entry["data"]["state"] == "accepted"]
        return {(by[id_]["name"], by[id_]["pid"]) for id_ in ids}

    def lost(self, since: int = 0) -> int:
        """Steps that were done and taken back by resumes, from the `since`-th entry on."""
        lost, newest = 0, 0
        for number, entry in enumerate(self.journal()):
            step = entry.get("step") or 0
            if entry["kind"] == "resume" and number >= since:
                lost += max(0, newest - step)
                newest = step
            newest = max(newest, step)
        return lost
