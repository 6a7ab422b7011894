"""How severe a log line is, read from the line alone."""

from __future__ import annotations

import re
from enum import StrEnum


class Level(StrEnum):
    """Levels in rising order of severity, under loguru's names."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def severity(self) -> int:
        """Rank among the levels, 0 for the least severe."""
        return _SEVERITY[self]


_SEVERITY = {level: rank for rank, level in enumerate(Level)}
_SYNONYMS = {"WARN": Level.WARNING, "FATAL": Level.CRITICAL, "EXCEPTION": Level.ERROR}
_GLOG = {"I": Level.INFO, "W": Level.WARNING, "E": Level.ERROR, "F": Level.CRITICAL}

_NAME = r"TRACE|DEBUG|INFO|SUCCESS|WARN(?:ING)?|ERROR|EXCEPTION|CRITICAL|FATAL"
_RANK = r"(?:\[[A-Za-z_]\w*\]:\s?){0,3}"
"""torchrun's `[trainer0]:` and torch's own `[rank0]:`."""
_PROCESS = r"(?:\([A-Za-z][^()]{0,80}\bpid=\d+[^()]{0,40}\)\s?)?"
"""vLLM's `(EngineCore_DP0 pid=12) ` and Ray's `(Worker pid=12, ip=10.0.0.1) `."""
_CLOCK = r"\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
_START = re.compile(
    rf"{_RANK}{_PROCESS}\s*(?:{_CLOCK}[\s|-]*(?:[\w.-]{{1,60}} - )?)?"
    rf"\[?\s*(?P<name>{_NAME})\s*(?=[\]:|,\s-]|$)"
)
_JSON = re.compile(rf'"level"\s*:\s*"(?P<name>{_NAME})"', re.IGNORECASE)
_GLOG_START = re.compile(rf"{_RANK}\[?(?P<letter>[IWEF])\d{{4}} \d\d:\d\d")
_EXCEPTION = re.compile(
    rf"{_RANK}{_PROCESS}\s*(?:Traceback \(most recent call last\)"
    r"|(?:[A-Za-z_]\w*\.)*[A-Za-z_]*(?:Error|Exception|Interrupt|ExitGroup)(?:: |:?$))"
)
_PYTHON_WARNING = re.compile(r"\S:\d{1,9}: [A-Za-z]{0,60}Warning: ")


def detect_level(text: str) -> Level | None:
    """Return the level of one sanitised line, or `None` where the line does not say (a continuation)."""
    head = text[:400]
    if found := _START.match(head):
        return parse_level(found["name"])
    if found := _GLOG_START.match(head):
        return _GLOG[found["letter"]]
    if _EXCEPTION.match(head):
        return Level.ERROR
    if '"level"' in head and (found := _JSON.search(head)):
        return parse_level(found["name"])
    return Level.WARNING if _PYTHON_WARNING.search(head) else None


def parse_level(name: str) -> Level | None:
    """Return the level called `name`, in any case and under the usual synonyms, or `None`."""
    upper = name.upper()
    if upper in _SYNONYMS:
        return _SYNONYMS[upper]
    return Level(upper.lower()) if upper in Level.__members__ else None
