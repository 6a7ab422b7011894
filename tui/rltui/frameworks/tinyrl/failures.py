"""How the embedded engine says why it failed: one line on stderr, exit code 1, and 2 for its usage."""

from __future__ import annotations

from rltui.core.failure_cause import FailurePattern, Weight
from rltui.frameworks.failures import COMMON

_CONFIG = (
    r"^(?:[^\n:]*/)?(?P<what>(?:[\w.-]+\.toml|command line)(?::\d+:\d+)?: [^\n]+)$",
    r"^(?P<what>(?:unexpected argument `|`@|unknown program `)[^\n]+)$",
    r"^(?P<what>model\.name = [^\n]+ is no model folder[^\n]*)$",
    r"^(?P<what>inference\.model\.max_model_len = [^\n]+)$",
    r"^(?P<what>ckpt\.resume_step = \d+: no complete checkpoint[^\n]*)$",
    r"^(?P<what>\S+: only Qwen3 models with tied embeddings[^\n]*)$",
    r"^(?P<what>the embedded engine needs [^\n]+)$",
    r"^(?P<what>the inference server on \S+ serves [^\n]*not model\.name[^\n]*)$",
)

_LAST_WORDS = FailurePattern(
    "F_TINYRL",
    r"^(?!\d\d:\d\d:\d\d |usage: |\(\w+ pid=|(?:DEBUG|INFO|WARNING|ERROR)\b)(?P<what>\S[^\n]*)\Z",
    "{what}",
    weight=Weight.GENERIC,
)
"""Its last line, unless that is one of its log's: what `TinyrlError` says."""

FAILURES: tuple[FailurePattern, ...] = (
    *(FailurePattern("F_TINYRL_CONFIG", regex, "config error: {what}", hopeless=True) for regex in _CONFIG),
    *COMMON,
    _LAST_WORDS,
)
