"""How far a start is, by the lines that vLLM (0.10 to 0.32) and prime-rl print. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rltui.core.failure_cause import LONGEST_LINE

_PHASES = tuple(
    (re.compile(regex), words)
    for regex, words in (
        (r"non-default args: \{", "reads its arguments"),
        (r"Resolved architecture: ", "reads the model's config"),
        (r"Initializing a V1 LLM engine \(v", "starts its engine"),
        (r"Time spent downloading weights for ", "weights downloaded"),
        (r"Starting to load model ", "loads the model"),
        (r"Loading (?:safetensors|pt) checkpoint shards: +(?P<percent>\d{1,3})% Completed", "loads weights"),
        (r"Loading weights took [\d.]+ seconds", "weights loaded"),
        (r"Model loading took -?[\d.]+ GiB", "model loaded"),
        (r"Dynamo bytecode transform time: |Warming up model for the compilation", "compiles"),
        (r"torch\.compile (?:takes|took) [\d.]+ s in total|Warming up done\.", "compiled"),
        (r"Available KV cache memory: |Profiling CUDA graph memory: ", "measures its memory"),
        (r"[A-Z]{3} KV cache size: [\d,]+ tokens", "KV cache made"),
        (
            r"Capturing CUDA graphs?(?: shapes)?(?: \([^)]{0,60}\))?: +(?P<percent>\d{1,3})%",
            "captures CUDA graphs",
        ),
        (r"Graph capturing finished in ", "CUDA graphs captured"),
        (r"init engine \(profile, create kv cache, warmup model\) took ", "engine ready"),
        (r"Starting vLLM (?:API )?server(?: \d+)? on ", "opens its port"),
        (r"Waiting for (?:policy )?inference pool to be ready", "waits for inference"),
        (r"[Ii]nference pool ready", "inference is there"),
        (r"Loading (?:train(?:ing)?|eval) environments?\b", "waits for the env servers"),
        (r"Syncing inference to the trainer's startup broadcast", "waits for the trainer's weights"),
        (r"Still waiting for .{1,80} after \d+s", "waits for its partner"),
    )
)


def phase_of(lines: Sequence[str]) -> str | None:
    """What the newest of `lines` (sanitised, oldest first) that tells a phase says: `loads weights 50 %`."""
    for line in reversed(lines):
        for regex, words in _PHASES:
            if found := regex.search(line[:LONGEST_LINE]):
                percent = found.groupdict().get("percent")
                return f"{words} {percent} %" if percent else words
    return None
