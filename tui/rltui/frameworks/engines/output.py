"""What an engine prints while it starts: vLLM, 0.10 to 0.32 (`facts/vllm.md`)."""

from __future__ import annotations

import re

from rltui.core.stalls import StartPhases

START_PHASES: StartPhases = tuple(
    (re.compile(regex), words)
    for regex, words in (
        (r"non-default args: \{", "reading arguments"),
        (r"Resolved architecture: ", "reading the model's config"),
        (r"Initializing a V1 LLM engine \(v", "starting the engine"),
        (r"Time spent downloading weights for ", "weights downloaded"),
        (r"Starting to load model ", "loading the model"),
        (
            r"Loading (?:safetensors|pt) checkpoint shards: +(?P<percent>\d{1,3})% Completed",
            "loading weights",
        ),
        (r"Loading weights took [\d.]+ seconds", "weights loaded"),
        (r"Model loading took -?[\d.]+ GiB", "model loaded"),
        (r"Warming up model for the compilation", "warming up"),  # CPU builds, eager ones too
        (r"Warming up done\.", "warmed up"),
        (r"Dynamo bytecode transform time: ", "compiling"),
        (r"torch\.compile (?:takes|took) [\d.]+ s in total", "compiled"),
        (r"Available KV cache memory: |Profiling CUDA graph memory: ", "measuring memory"),
        (r"[A-Z]{3} KV cache size: [\d,]+ tokens", "KV cache ready"),
        (
            r"Capturing CUDA graphs?(?: shapes)?(?: \([^)]{0,60}\))?: +(?P<percent>\d{1,3})%",
            "capturing CUDA graphs",
        ),
        (r"Graph capturing finished in ", "CUDA graphs captured"),
        (r"init engine \(profile, create kv cache, warmup model\) took ", "engine ready"),
        (r"Starting vLLM (?:API )?server(?: \d+)? on ", "opening the port"),
    )
)
