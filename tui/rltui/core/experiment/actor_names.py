"""Names of who acts: the variables by which agents are recognised, and an actor in words.

Light: every command needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rltui.base.interpreter import AGENT, AGENT_PROGRAMS

_FLAGS = frozenset({"1", "true", "yes"})
_UNSET = frozenset({"", "0", "false", "no"})
_LONGEST_NAME = 60


def clean_name(name: str) -> str:
    """A name from outside as one printable word."""
    letters = (letter if letter.isprintable() and not letter.isspace() else "-" for letter in name.strip())
    return "".join(letters)[:_LONGEST_NAME]


def assigned_name(environments: Iterable[Mapping[str, str]]) -> str:
    """The name that `RLTUI_AGENT` gives; empty: none.

    `environments`: of a process, its parent and so on. The last one counts: no agent gets out of its name by
    another name for a command of its own.
    """
    names = [name for variables in environments if (name := clean_name(variables.get(AGENT, "")))]
    return names[-1] if names else ""


def marked_name(environments: Iterable[Mapping[str, str]]) -> str:
    """The name of the program that marked a process, or the nearest ancestor, as an agent's; empty: none."""
    for variables in environments:
        for mark, name in AGENT_PROGRAMS.items():
            value = clean_name(variables.get(mark, ""))
            if value.lower() not in _UNSET:
                return name or ("agent" if value.lower() in _FLAGS else value)
    return ""


def actor_text(fields: Mapping[str, Any]) -> str:
    """Describe an actor: `agent night-1 (ada, pid 4711)`; a person: `ada, pid 4711 on pts/3 from 10.0.0.5`.

    `fields`: those of an `Actor`, or what a file has in their place.
    """
    process = f"{fields.get('user')}, pid {fields.get('pid')}"
    if fields.get("kind") == "agent":
        return f"{actor_name(fields)} ({process})"
    terminal, ssh, name = (fields.get(key) for key in ("terminal", "ssh", "name"))
    location = f"{process}{f' on {terminal}' if terminal else ''}{f' from {ssh}' if ssh else ''}"
    return f"{name} ({location})" if name else location


def actor_name(fields: Mapping[str, Any]) -> str:
    """Name an actor: `agent night-1`, or the name that a person goes by."""
    if fields.get("kind") == "agent":
        return f"agent {fields.get('name')}"
    return str(fields.get("name") or fields.get("user"))
