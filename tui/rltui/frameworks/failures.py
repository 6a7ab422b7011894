"""Patterns of failures in the output of programs of every framework. A framework module puts its own in
front.
"""

from __future__ import annotations

from functools import partial

from rltui.base.text import duration
from rltui.core.logs.failure_cause import Confidence, FailurePattern, Groups
from rltui.frameworks.memory import MEMORY

_REFUSED = r"(?<!\d)\d{1,6} validation error(?:\(s\)|s)? for \w*(?:Config|Args|Arguments|Settings)\b"
"""pydantic's heading. Other models, such as an unexpected answer, are no configs."""
_GAP = r"[^\w<]{0,400}+"
"""Separates two texts of a report: line ends, blanks, the sides of a box, the dashes of an option."""
_WHAT = r"(?P<what>[^\n│]+?)(?: \[type=|[│\n]|\Z)"
"""A text up to pydantic's own remark, the side of a box, or the end of its line."""
_MARGIN = r"^[^\w\n]{0,40}"
"""Precedes a heading: the corner or the side of its box."""

_rejects = partial(FailurePattern, hopeless=True, code="config_rejected")
_CONFIG: tuple[FailurePattern, ...] = (
    _rejects(
        "F_PYDANTIC_ROOT",
        rf"{_REFUSED}{_GAP}(?:<root>{_GAP}(?:Value error, )?|Value error, ){_WHAT}",
        "config error: {what}",
    ),
    _rejects(
        "F_PYDANTIC",
        rf"{_REFUSED}{_GAP}(?P<key>[\w<][^\n│]*+)[^\n]*+\n{_GAP}(?:Value error, )?{_WHAT}",
        "config error: {key}: {what}",
    ),
    _rejects(
        "F_MEDARC",
        r"^(?P<what>(?:RL|SFT) config validation failed):",
        "config error: {what}; see the end of the log",
        weight=Confidence.BROAD,
    ),
    _rejects(
        "F_PRIME_RL",
        r"Failed to validate config:",
        "config error: prime-rl rejects the config; see the end of the log",
        weight=Confidence.BROAD,
    ),
    _rejects(
        "F_BOX",  # tyro's and prime-rl's rounded boxes
        rf"{_MARGIN}(?P<title>Config file error|Unrecognized options|Required options|Parsing error"
        rf"|Value error) ─[^\n]*+\n{_GAP}{_WHAT}",
        "config error: {title}: {what}",
        weight=Confidence.BROAD,
    ),
    _rejects(
        "F_ARGPARSE",
        r"^(?:\(\w+ pid=\d+\) )?[\w./ -]{1,80}: error: (?P<what>(?:argument|unrecognized arguments|"
        r"the following arguments are required|ambiguous option|one of the arguments|invalid choice)[^\n]*)$",
        "config error: {what}",
    ),
    _rejects(
        "F_CLICK",
        rf"{_MARGIN}(?:Error: )?(?P<what>(?:Invalid value for|No such option:|Missing argument"
        r"|Missing option) [^\n│]+)",
        "config error: {what}",
    ),
    _rejects(
        "F_UNEXPECTED",
        r"TypeError: (?P<what>\w*(?:Config|Args|Arguments)\.__init__\(\) got an unexpected keyword argument"
        r" '[^']+')",
        "config error: {what}",
    ),
    _rejects("F_TOML", r"TOMLDecodeError: (?P<what>[^\n]+)$", "config error: {what}"),
    _rejects(
        "F_PRIME_RL_PORTS",
        r"(?P<what>orchestrator\.(?:model\.)?client\.base_url port \(\S+?\) does not match[^\n]+)$",
        "config error: {what}",
    ),
    FailurePattern(
        "F_RUN_FOLDER",
        r"already contains (?:checkpoints|artifacts) from a previous run",
        "the run folder holds an earlier run; resume it, or choose another output_dir",
        hopeless=True,
        code="folder_used",
    ),
    FailurePattern(
        "F_MODEL_NAME",
        r"OSError: (?P<name>\S+) is not a local folder and is not a valid model identifier",
        "config error: the model {name} is neither a local folder nor downloadable",
        hopeless=True,
        code="model_missing",
    ),
    FailurePattern(
        "F_MODEL_ACCESS",
        r"(?P<what>RepositoryNotFoundError|GatedRepoError)",
        "config error: the model cannot be downloaded ({what}); check its name, and `hf auth login`",
        hopeless=True,
        weight=Confidence.BROAD,
        code="model_missing",
    ),
    _rejects(
        "F_SLEEP",
        r"Sleep mode is not supported on current platform",
        "config error: sleep mode does not work on this machine; remove enable_sleep_mode",
    ),
    _rejects(
        "F_DUP_GPU",
        r"Duplicate GPU detected",
        "config error: two ranks share one GPU; NCCL weight broadcast needs one GPU for each",
    ),
    FailurePattern(
        "F_PRIME_LOGIN",
        r"not authenticated with prime - run `prime login`",
        "config error: this harness uses Prime's sandboxes, which need `prime login`; tasks without tools"
        " can run without: --env.agent.harness.id null --env.agent.runtime.type subprocess",
        hopeless=True,
        code="no_login",
    ),
    FailurePattern(
        "F_GPU_COUNT",
        r"RuntimeError: (?P<what>Expected \d+ visible GPUs[^\n]*)$",
        "config error: {what}",
        hopeless=True,
        code="gpu_missing",
    ),
)

_INDEX = "index out of range on the GPU"
_INDEX_REMEDY = (
    "check that tokenizer and model have the same vocabulary size and that the sequence length suits the"
    " model; CUDA_LAUNCH_BLOCKING=1 shows the line"
)


def _exception_text(groups: Groups) -> str:
    """An exception, with its location if it has no message."""
    what = _message(groups).rstrip(":")
    return what if ":" in what or groups["frame"] == "?" else f"{what} in {groups['file']}:{groups['line']}"


def _message(groups: Groups) -> str:
    """The message of an exception, even if it begins on the next line."""
    what, more = groups["what"], groups["more"]
    return what if more == "?" else f"{what.rstrip(': ')}: {more}"


def _timeout_text(groups: Groups) -> str:
    return (
        f"communication between GPUs timed out: {groups['what']} waited"
        f" {duration(int(groups['ms']) / 1000)} for another rank; check the other ranks first"
    )


def _rank_ended(groups: Groups) -> str:
    """Text about a rank in torchrun's report: one without output, or whose output is not displayed."""
    if groups["signal"] == "?":
        return (
            f"rank {groups['rank']} exited {groups['code']}; its output is in its own file under torchrun/"
            " in the logs folder"
        )
    return (
        f"rank {groups['rank']} was killed by {groups['signal']}; unless you killed it, check the"
        " host's memory"
    )


_ENVIRONMENT: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_UV_SYNC",
        r"^error: (?:Request failed after|Failed to (?:build|download|fetch|install|prepare))[^\n]*\n"
        r"\s+(?:cause|Caused by): (?P<what>[^\n]{1,300})",
        "uv could not create the environment: {what}; to use the existing one unchanged: UV_NO_SYNC=1",
        hopeless=True,
        code="environment",
    ),
    FailurePattern(
        "F_PORT",
        r"\[Errno 98\] (?:Address already in use|error while attempting to bind on address)[^\n]*?"
        r"[:,] ?(?P<port>\d{2,5})\b",
        "port {port} is in use by another process; change the port, or end that process if it is yours",
        code="port_taken",
    ),
    FailurePattern(
        "F_PORT_TORCH",
        r"failed to listen on any local network address\.[^\n]*?\bport: (?P<port>\d+)[^\n]*EADDRINUSE",
        "port {port} is in use by another process; change the port, or end that process if it is yours",
        code="port_taken",
    ),
    FailurePattern(
        "F_PORT_ANY",
        r"\[Errno 98\]|EADDRINUSE|[Aa]ddress already in use",
        "its port is in use by another process; change the port, or end that process if it is yours",
        weight=Confidence.BROAD,
        code="port_taken",
    ),
    FailurePattern(
        "F_DISK",
        r"\[Errno 28\] No space left on device|\[Errno 122\] Disk quota exceeded",
        "the disk is full; free some space",
        code="disk_full",
    ),
    FailurePattern(
        "F_COMM",
        r"Weight update group already initialized",
        "the inference server still holds the connection of an earlier trainer; restart both together",
        code="gpu_communication",
    ),
    FailurePattern(
        "F_INDEX",
        r"\.cu:\d{1,6}: [^\n]{0,300}?Assertion `(?P<what>[^`\n]{1,200})` failed",
        f"{_INDEX} ({{what}}); {_INDEX_REMEDY}",
        code="gpu_index",
    ),
    FailurePattern(
        "F_INDEX_ANY",
        r"(?:CUDA error: )?device-side assert triggered",
        f"{_INDEX}; {_INDEX_REMEDY}",
        weight=Confidence.BROAD,
        code="gpu_index",
    ),
    FailurePattern(
        "F_NO_GPU",
        r"(?P<what>Found no NVIDIA driver on your system|No CUDA GPUs are available"
        r"|Torch not compiled with CUDA enabled|Unexpected error from cudaGetDeviceCount\(\))",
        "no usable GPU: {what}; check nvidia-smi and CUDA_VISIBLE_DEVICES",
        weight=Confidence.BROAD,
        code="gpu_missing",
    ),
    FailurePattern(
        "F_CUDA",
        r"(?P<what>CUDA driver initialization failed|no CUDA-capable device is detected"
        r"|CUDA error: [\w ,-]+)",
        "the GPU or its driver failed: {what}; check nvidia-smi and dmesg",
        weight=Confidence.BROAD,
        code="gpu_error",
    ),
    FailurePattern(
        "F_NCCL_TIMEOUT",
        r"Watchdog caught collective operation timeout: WorkNCCL\([^\n]{0,200}?OpType=(?P<what>\w{1,40})"
        r"[^\n]{0,300}? ran for (?P<ms>\d{1,12}) milliseconds",
        _timeout_text,
        weight=Confidence.BROAD,
        code="gpu_communication",
    ),
    FailurePattern(
        "F_NCCL",
        r"(?P<what>ncclInternalError|ncclSystemError|ncclUnhandledCudaError|ncclRemoteError|NCCL error)",
        "communication between GPUs failed: {what}; check the other ranks first",
        weight=Confidence.BROAD,
        code="gpu_communication",
    ),
)
"""Failures that the next start may not meet again."""

CHILD_KILLED = (
    r"Worker proc \S+ died unexpectedly \(exit code: -9\)"
    r"|Signal 9 \(SIGKILL\) received by PID|exitcode *: -9\b|died with <Signals\.SIGKILL"
)
"""A child was killed, the program cannot know by whom: vLLM's, torchrun's and subprocess' words."""

_ECHO = (
    r"(?!(?:[\w.]*\.)?(?:KeyboardInterrupt|SystemExit|GeneratorExit|CancelledError|ChildFailedError"
    r"|EngineDeadError|RuntimeError: (?:cancelled|Executor failed|Engine core initialization failed)"
    r"|Exception: WorkerProc initialization failed)\b)"
)
"""Precedes the name of an exception: excludes those that only follow from the end of something else."""
_PROCESS = r"(?:\(\w+ pid=\d+\) | {0,8}\| )?"
"""vLLM's name of the process, or the margin of an exception group."""
_LOGGED = r"(?:ERROR [^\]\n]{0,200}\] )?"
"""Follows that name, if vLLM logs the text."""
_MORE = rf"(?:(?:(?<=:)|(?<=: ))(?:\n{_PROCESS}{_LOGGED}[ \t]{{0,8}}){{1,3}}(?P<more>[^\s|+][^\n]*+))?"
"""Follows an exception with nothing on its line: its message begins with a line feed, and stands below."""
_FRAME = (
    r'(?P<frame>^[ >|]{2,10}File "(?:[^"\n]*/)?(?P<file>[^"/\n]*)", line (?P<line>\d+)[^\n]*\n'
    r"(?:(?! *\| \S)[ |]{4}[^\n]*\n|\n)*+)?"
)
"""The innermost frame of a traceback. What stands behind it is an exception, whatever its name."""

_GENERIC: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_WORKER_KILLED",
        r"Worker proc (?P<name>\S+) died unexpectedly \(exit code: (?P<code>-\d+)\)",
        "its worker {name} was killed (exit code {code}); check the host's memory, and the log above",
        weight=Confidence.GENERIC,
        code="worker_killed",
    ),
    FailurePattern(
        "F_ENGINE_ERROR",
        rf"^\((?:EngineCore|Worker)[\w-]* pid=\d+\) {_LOGGED}"
        rf"(?P<what>{_ECHO}[A-Za-z_][\w.]*(?:Error|Exception):(?: [^\n]*)?)${_MORE}",
        _message,
        weight=Confidence.GENERIC,
    ),
    FailurePattern(
        "F_WORKER",
        r"Worker proc (?P<name>\S+) died unexpectedly",
        "its worker {name} exited; check the log above, and the host's memory",
        weight=Confidence.GENERIC,
        code="engine_died",
    ),
    FailurePattern(
        "F_TIMEOUT",
        r"Timed out waiting for engine|TimeoutError[^\n]*engine core|VLLM_ENGINE_READY_TIMEOUT_S",
        "the engine did not start in time; raise VLLM_ENGINE_READY_TIMEOUT_S",
        weight=Confidence.GENERIC,
        code="engine_died",
    ),
    FailurePattern(
        "F_MODULE",
        r"(?<!\S)ModuleNotFoundError: (?P<what>[^\n]+)\Z",
        "{what}; install it in the framework's environment",
        hopeless=True,
        weight=Confidence.GENERIC,
        code="environment",
    ),
    FailurePattern(
        "F_INIT",
        r"Engine core initialization failed\. See root cause above|EngineCore failed to start\.",
        "the engine did not start; check the log above",
        weight=Confidence.GENERIC,
        code="engine_died",
    ),
    FailurePattern(
        "F_DEAD",
        r"EngineDeadError|EngineCore encountered a(?:n issue| fatal error)",
        "the engine died while serving; check the log above, and the host's memory",
        weight=Confidence.GENERIC,
        code="engine_died",
    ),
    FailurePattern(
        "F_INFERENCE",
        r"(?:Inference server is not ready after|The vLLM server can't be reached at)[^\n]+",
        "the inference server did not answer in time",
        weight=Confidence.GENERIC,
        code="server_unusable",
    ),
    FailurePattern(
        "F_EXCEPTION",
        rf"{_FRAME}^{_PROCESS}(?P<what>{_ECHO}"
        rf"(?(frame)(?:[A-Za-z_]\w*\.)*[A-Z]\w*|[A-Za-z_][\w.]*(?:Error|Exception))(?::[^\n]*)?)${_MORE}",
        _exception_text,
        weight=Confidence.GENERIC,
    ),
    FailurePattern(
        "F_TORCHRUN_ERROR",
        rf"^  traceback : Traceback [^\n]*\n(?:   [^\n]*\n)*+  (?P<what>[A-Za-z_][^\n]*)${_MORE}",
        _message,
        weight=Confidence.GENERIC,
    ),
    FailurePattern(
        "F_TORCHRUN",
        r"^Root Cause \(first observed failure\):\n(?:[^\n]*\n){1,4}?  rank +: (?P<rank>\d+)[^\n]*\n"
        r"  exitcode +: (?P<code>-?\d+)[^\n]*?(?:\((?P<signal>SIG\w+)\))?$",
        _rank_ended,
        weight=Confidence.GENERIC,
        code="worker_killed",
    ),
)
"""Used if nothing better is known; the first is preferred to the last."""

COMMON: tuple[FailurePattern, ...] = (*MEMORY, *_CONFIG, *_ENVIRONMENT, *_GENERIC)
