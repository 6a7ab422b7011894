"""How programs of every framework say why they failed. A framework module puts its own texts in front."""

from __future__ import annotations

from rltui.core.failure_cause import FailurePattern, Weight
from rltui.frameworks.config_failures import CONFIG
from rltui.frameworks.memory_failures import MEMORY

_ENVIRONMENT: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_PORT",
        r"\[Errno 98\] (?:Address already in use|error while attempting to bind on address)[^\n]*?"
        r"[:,] ?(?P<port>\d{2,5})\b",
        "port {port} is taken by another process; end it, or change the port",
    ),
    FailurePattern(
        "F_PORT_TORCH",
        r"failed to listen on any local network address\.[^\n]*?\bport: (?P<port>\d+)[^\n]*EADDRINUSE",
        "port {port} is taken by another process; end it, or change the port",
    ),
    FailurePattern(
        "F_PORT_ANY",
        r"\[Errno 98\]|EADDRINUSE|[Aa]ddress already in use",
        "its port is taken by another process; end it, or change the port",
        weight=Weight.BROAD,
    ),
    FailurePattern(
        "F_DISK",
        r"\[Errno 28\] No space left on device|\[Errno 122\] Disk quota exceeded",
        "the disk is full; free some space",
    ),
    FailurePattern(
        "F_COMM",
        r"Weight update group already initialized",
        "the inference server still holds the connection of an earlier trainer; restart both together",
    ),
    FailurePattern(
        "F_CUDA",
        r"(?P<what>CUDA driver initialization failed|no CUDA-capable device is detected"
        r"|CUDA error: [\w ,-]+)",
        "the GPU or its driver failed: {what}; see nvidia-smi and dmesg",
        weight=Weight.BROAD,
    ),
    FailurePattern(
        "F_NCCL",
        r"(?P<what>ncclInternalError|ncclSystemError|ncclUnhandledCudaError|ncclRemoteError|NCCL error)",
        "communication between GPUs failed: {what}; look at the other ranks first",
        weight=Weight.BROAD,
    ),
)
"""What the next start may not meet again."""

CHILD_KILLED = (
    r"Worker proc \S+ died unexpectedly \(exit code: -9\)"
    r"|Signal 9 \(SIGKILL\) received by PID|exitcode *: -9\b|died with <Signals\.SIGKILL"
)
"""A child was killed, the program cannot know by whom: vLLM's, torchrun's and subprocess' words."""

_GENERIC: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_WORKER",
        r"Worker proc (?P<name>\S+) died unexpectedly(?: \(exit code: (?P<code>[^)]+)\))?",
        "its worker {name} died (exit code {code}); look above in the log, and at the host's memory",
        weight=Weight.GENERIC,
    ),
    FailurePattern(
        "F_TIMEOUT",
        r"Timed out waiting for engine|TimeoutError[^\n]*engine core|VLLM_ENGINE_READY_TIMEOUT_S",
        "the engine did not start in time; raise VLLM_ENGINE_READY_TIMEOUT_S",
        weight=Weight.GENERIC,
    ),
    FailurePattern(
        "F_MODULE",
        r"^(?:.*\s)?ModuleNotFoundError: (?P<what>[^\n]+)\s*\Z",
        "{what}; install it where the framework runs",
        hopeless=True,
        weight=Weight.GENERIC,
    ),
    FailurePattern(
        "F_ENGINE_ERROR",
        r"^\((?:EngineCore|Worker)\w* pid=\d+\) (?:ERROR [^\]\n]*\] )?"
        r"(?P<what>[A-Za-z_][\w.]*(?:Error|Exception): [^\n]+)$",
        "{what}",
        weight=Weight.GENERIC,
    ),
    FailurePattern(
        "F_INIT",
        r"Engine core initialization failed\. See root cause above|EngineCore failed to start\.",
        "the engine did not start; look above in the log",
        weight=Weight.GENERIC,
    ),
    FailurePattern(
        "F_DEAD",
        r"EngineDeadError|EngineCore encountered a(?:n issue| fatal error)",
        "the engine died while it served; look above in the log, and at the host's memory",
        weight=Weight.GENERIC,
    ),
    FailurePattern(
        "F_INFERENCE",
        r"(?:Inference server is not ready after|The vLLM server can't be reached at)[^\n]+",
        "the inference server was not reached in time",
        weight=Weight.GENERIC,
    ),
    FailurePattern(
        "F_EXCEPTION",
        r"^(?:\(\w+ pid=\d+\) )?(?P<what>(?!KeyboardInterrupt|SystemExit)"
        r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?::[^\n]*)?)$",
        "{what}",
        weight=Weight.GENERIC,
    ),
)
"""Told where nothing better is known; the first is told rather than the last."""

COMMON: tuple[FailurePattern, ...] = (*MEMORY, *CONFIG, *_ENVIRONMENT, *_GENERIC)
"""Of every framework."""
