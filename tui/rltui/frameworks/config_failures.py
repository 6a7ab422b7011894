"""How programs refuse what they were given: another start with the same config ends the same way.

pydantic, argparse, tyro, click, vLLM, transformers, prime-rl of 2025 and 2026, medarc, verifiers.
"""

from __future__ import annotations

from rltui.core.failure_cause import FailurePattern, Weight

_REFUSED = r"(?<!\d)\d{1,6} validation error(?:\(s\)|s)? for \w*(?:Config|Args|Arguments|Settings)\b"
"""pydantic's heading. Other models, such as an answer that was not as expected, are no configs."""
_GAP = r"[^\w<]{0,400}+"
"""Between two texts of a report: line ends, blanks, the sides of a box, the dashes of an option."""
_WHAT = r"(?P<what>[^\n│]+?)(?: \[type=|[│\n]|\Z)"
"""A text up to pydantic's own remark, the side of a box, or the end of its line."""
_MARGIN = r"^[^\w\n]{0,40}"
"""Before a heading: the corner or the side of its box."""

CONFIG: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_PYDANTIC_ROOT",
        rf"{_REFUSED}{_GAP}(?:<root>{_GAP}(?:Value error, )?|Value error, ){_WHAT}",
        "config error: {what}",
        hopeless=True,
    ),
    FailurePattern(
        "F_PYDANTIC",
        rf"{_REFUSED}{_GAP}(?P<key>[\w<][^\n│]*+)[^\n]*+\n{_GAP}(?:Value error, )?{_WHAT}",
        "config error: {key}: {what}",
        hopeless=True,
    ),
    FailurePattern(
        "F_MEDARC",
        r"^(?P<what>(?:RL|SFT) config validation failed):",
        "config error: {what}; see the end of the log",
        hopeless=True,
        weight=Weight.BROAD,
    ),
    FailurePattern(
        "F_PRIME_RL",
        r"Failed to validate config:",
        "config error: prime-rl refuses the config; see the end of the log",
        hopeless=True,
        weight=Weight.BROAD,
    ),
    FailurePattern(
        "F_BOX",  # tyro's and prime-rl's rounded boxes
        rf"{_MARGIN}(?P<title>Config file error|Unrecognized options|Required options|Parsing error"
        rf"|Value error) ─[^\n]*+\n{_GAP}{_WHAT}",
        "config error: {title}: {what}",
        hopeless=True,
        weight=Weight.BROAD,
    ),
    FailurePattern(
        "F_ARGPARSE",
        r"^(?:\(\w+ pid=\d+\) )?[\w./ -]{1,80}: error: (?P<what>(?:argument|unrecognized arguments|"
        r"the following arguments are required|ambiguous option|one of the arguments|invalid choice)[^\n]*)$",
        "config error: {what}",
        hopeless=True,
    ),
    FailurePattern(
        "F_CLICK",
        rf"{_MARGIN}(?:Error: )?(?P<what>(?:Invalid value for|No such option:|Missing argument"
        r"|Missing option) [^\n│]+)",
        "config error: {what}",
        hopeless=True,
    ),
    FailurePattern(
        "F_UNEXPECTED",
        r"TypeError: (?P<what>\w*(?:Config|Args|Arguments)\.__init__\(\) got an unexpected keyword argument"
        r" '[^']+')",
        "config error: {what}",
        hopeless=True,
    ),
    FailurePattern("F_TOML", r"TOMLDecodeError: (?P<what>[^\n]+)$", "config error: {what}", hopeless=True),
    FailurePattern(
        "F_PRIME_RL_PORTS",
        r"(?P<what>orchestrator\.(?:model\.)?client\.base_url port \(\S+?\) does not match[^\n]+)$",
        "config error: {what}",
        hopeless=True,
    ),
    FailurePattern(
        "F_RUN_FOLDER",
        r"already contains (?:checkpoints|artifacts) from a previous run",
        "the run folder holds an earlier run; resume it, or choose another output_dir",
        hopeless=True,
    ),
    FailurePattern(
        "F_MODEL_NAME",
        r"OSError: (?P<name>\S+) is not a local folder and is not a valid model identifier",
        "config error: the model {name} is neither a folder here nor one that can be downloaded",
        hopeless=True,
    ),
    FailurePattern(
        "F_MODEL_ACCESS",
        r"(?P<what>RepositoryNotFoundError|GatedRepoError)",
        "config error: the model cannot be downloaded ({what}); check its name, and `hf auth login`",
        hopeless=True,
        weight=Weight.BROAD,
    ),
    FailurePattern(
        "F_SLEEP",
        r"Sleep mode is not supported on current platform",
        "config error: sleep mode does not work on this machine; drop enable_sleep_mode",
        hopeless=True,
    ),
    FailurePattern(
        "F_DUP_GPU",
        r"Duplicate GPU detected",
        "config error: two ranks were given the same GPU; NCCL weight broadcast needs two",
        hopeless=True,
    ),
    FailurePattern(
        "F_GPU_COUNT",
        r"RuntimeError: (?P<what>Expected \d+ visible GPUs[^\n]*)$",
        "config error: {what}",
        hopeless=True,
    ),
)
