"""Real texts of the programs that are run, word for word."""
# ruff: noqa: E501

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltui.core import failure_cause
from rltui.core.failure_cause import LONGEST_LINE, FailurePattern, find_cause
from rltui.frameworks.failures import COMMON
from rltui.frameworks.prime_rl.log_lines import FAILURES as PRIME_RL
from rltui.frameworks.tinyrl import TINYRL

FREE = (
    "(EngineCore_DP0 pid=71) ERROR 11-20 23:32:46 [core.py:708] ValueError: Free memory on device cuda:2"
    " (5.31/23.56 GiB) on startup is less than desired GPU memory utilization (0.8, 18.85 GiB). Decrease GPU"
    " memory utilization or reduce GPU memory used by other processes."
)
START_UP_ECHO = """\
(EngineCore_DP0 pid=71) ERROR 11-20 23:32:46 [core.py:708] EngineCore failed to start.
(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"""
BOX = """\
╭─ Config file error ──────────────────────────────────────────────────────────╮
│ Failed to validate config:                                                   │
│                                                                              │
│ 4 validation error(s) for RLConfig                                           │
│                                                                              │
│ --orchestrator.rollouts-per-example                                          │
│   Extra inputs are not permitted                                             │
╰──────────────────────────────────────────────────────────────────────────────╯"""
BOX_ROOT = """\
│ 1 validation error(s) for RLConfig                                           │
│ <root>                                                                       │
│   Set exactly one of batch_size or token_batch_size                          │"""
PYDANTIC = """\
Traceback (most recent call last):
pydantic_core._pydantic_core.ValidationError: 2 validation errors for RLConfig
orchestrator.batch_size
  Input should be a valid integer, unable to parse string [type=int_parsing, input_value='x', input_type=str]
    For further information visit https://errors.pydantic.dev/2.11/v/int_parsing"""
PYDANTIC_ROOT = """\
RL config validation failed:
1 validation error for RLConfig
  Value error, Batch size must be divisible by the number of samples per problem [type=value_error, \
input_value={}, input_type=dict]"""
OOM = (
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity"
    " of 23.56 GiB of which 5.31 GiB is free."
)
OOM_HOLDER = (
    f"{OOM} Process 4711 has 17.20 GiB memory in use. Including non-PyTorch memory, this process has"
    " 1.02 GiB memory in use. Of the allocated memory 512.00 MiB is allocated by PyTorch, and 3.00 MiB is reserved"
    " by PyTorch but unallocated."
)
OOM_2_1 = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity;"
    " 21.00 GiB already allocated; 1.20 GiB free; 21.50 GiB reserved in total by PyTorch)"
)
WARM = f"""\
{OOM}
The above exception was the direct cause of the following exception:
RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering \
`max_num_seqs` or `gpu_memory_utilization` when initializing the engine."""
KV_021 = (
    "ValueError: To serve at least one request with the models's max seq len (40960), (4.38 GiB KV cache is needed,"
    " which is larger than the available KV cache memory (1.05 GiB). Based on the available memory, the estimated"
    " maximum model length is 9808. Try increasing `gpu_memory_utilization`"
)
KV_026 = (
    "ValueError: To serve at least one request with the model's max seq len (40960), (4.38 GiB KV cache is needed,"
    " which is larger than the available KV cache memory (1.05 GiB)."
)
HOPELESS = {
    "free": (f"{FREE}\n{START_UP_ECHO}", "5.31 of 23.56 GiB are free", "lower it to 0.21"),
    "free-0.10": (FREE.replace(" cuda:2", ""), "asks for 18.85 GiB", "gpu_memory_utilization 0.8"),
    "free-0.32-external": (
        (
            "Free memory on device cuda:0 (5.31/23.56 GiB) on startup is less than the engine's budget after excluding"
            " external process's weights (0.8, 18.85 GiB)."
        ),
        "asks for 18.85 GiB",
        "end what else",
    ),
    "free-cpu": (
        "Available memory on node 0 (5.57/6.96 GiB) on startup is less than desired CPU memory utilization (0.999,",
        "out of memory: 5.57 of 6.96 GiB are free on node 0",
        "lower",
    ),
    "no-kv": ("ValueError: No available memory for the cache blocks. Try", "KV cache", "raise"),
    "kv-small-0.21": (KV_021, "40960 tokens needs 4.38 GiB", "lower max_model_len to 9808,"),
    "kv-small-0.26": (KV_026, "there are 1.05", "lower max_model_len, or"),
    "kv-tokens": (
        (
            "The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV cache"
            " (1024). Try"
        ),
        "max_model_len 4096",
        "the 1024 tokens",
    ),
    "verifiers-0.4": (
        "    raise SystemExit(\nSystemExit: not authenticated with prime - run `prime login` or set $PRIME_API_KEY",
        "need `prime login`",
        "--env.agent.harness.id null",
    ),
    "load": ("ERROR Failed to load model - not enough GPU memory. Try lowering", "was loaded", "out of"),
    "warm-up": (WARM, "warm-up with 1024 requests", "lower max_num_seqs"),
    "torch": (OOM, "20.00 MiB asked for, 5.31 GiB of 23.56 GiB free", "; trainer: lower seq_len"),
    "torch-holder": (OOM_HOLDER, "pid 4711 of the host holds 17.2 GiB", "5.31 GiB of 23.56 GiB free"),
    "torch-2.1": (OOM_2_1, "2.00 GiB asked for, 1.20 GiB of 23.69 GiB free", "out of GPU memory"),
    "torch-1.13": (OOM_2_1.replace("torch.cuda.OutOfMemoryError", "RuntimeError"), "1.20 GiB of", "out of"),
    "rocm": ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate", "out of GPU memory", "lower"),
    "async": ("torch.AcceleratorError: CUDA error: out of memory", "as CUDA itself", "out of GPU memory"),
    "cublas": ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", "out of GPU", "as CUDA"),
    "host": (
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you"
            " tried to allocate 400000000000 bytes. Error code 12 (Cannot allocate memory)"
        ),
        "refused 400000000000 bytes",
        "out of memory",
    ),
    "python": ("Traceback (most recent call last):\nMemoryError", "the machine has no more", "out of memory"),
    "pydantic": (
        PYDANTIC,
        "config error: orchestrator.batch_size: Input should be a valid integer",
        "string",
    ),
    "pydantic-root": (PYDANTIC_ROOT, "config error: Batch size must be divisible by", "samples per problem"),
    "box": (BOX, "config error: orchestrator.rollouts-per-example: Extra inputs", "are not permitted"),
    "box-root": (BOX_ROOT, "config error: Set exactly one of batch_size or token_batch_size", "one of"),
    "uv-download": (
        (
            "error: Request failed after 3 retries in 6.7s\n  cause: Failed to download `https://github.com/astral-sh/x`\n"
            "  cause: client error (Connect)"
        ),
        "uv could not make the environment: Failed to download `https://github.com",
        "UV_NO_SYNC=1",
    ),
    "uv-build": (
        (
            "error: Failed to build `prime-pydantic-config @ file:///lab/deps/pydantic-config`\n"
            "  cause: `/lab/deps/pydantic-config` does not appear to be a Python project"
        ),
        "does not appear to be a Python project",
        "UV_NO_SYNC=1",
    ),
    "argparse": (
        "usage: trainer [-h]\ntrainer: error: unrecognized arguments: --model.nam",
        "config error: unrecognized arguments: --model.nam",
        "",
    ),
    "vllm-argparse": (
        "api_server.py: error: argument --max-model-len: invalid value: 'x'",
        "config error: argument --max-model-len",
        "",
    ),
    "tyro": (
        "╭─ Unrecognized options ─────────────╮\n│ Unrecognized options: --max-step    │\n╰────╯",
        "config error: Unrecognized options: Unrecognized options: --max-step",
        "",
    ),
    "click": (
        "Usage: medarc_train rl\nError: Invalid value for 'CONFIG_TOML': no file",
        "CONFIG_TOML",
        "config",
    ),
    "vf-rl": (
        "TypeError: RLConfig.__init__() got an unexpected keyword argument 'lr'",
        "'lr'",
        "config error",
    ),
    "toml": (
        "tomllib.TOMLDecodeError: Expected '=' after a key (at line 3, column 4)",
        "config error: Expected '='",
        "line 3",
    ),
    "run-folder": (
        "FileExistsError: Output directory outputs already contains checkpoints from a previous run.",
        "the run folder holds an earlier run",
        "resume it",
    ),
    "model": (
        "OSError: Qwen/Qwen9 is not a local folder and is not a valid model identifier listed on",
        "the model Qwen/Qwen9",
        "config error",
    ),
    "module": ("ModuleNotFoundError: taskset 'wordle' not found", "taskset 'wordle' not found", "install it"),
}


@pytest.mark.parametrize(("output", "first", "second"), HOPELESS.values(), ids=HOPELESS)
def test_another_start_would_end_the_same_way(output: str, first: str, second: str) -> None:
    cause = find_cause(output.splitlines(), COMMON)
    assert cause is not None
    assert first in cause.text
    assert second in cause.text
    assert cause.hopeless


MAY_GO_BETTER = {
    "port": (
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
        "port 8000 is taken",
    ),
    "port-unnamed": ("OSError: [Errno 98] Address already in use", "its port is taken"),
    "port-torch": (
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address."
            " port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
        ),
        "port 29500 is taken",
    ),
    "profile": (
        "AssertionError: Error in memory profiling. Initial free memory 21.50 GiB, current free memory 22.75 GiB.",
        "21.50 GiB free, then 22.75 GiB",
    ),
    "worker": (
        f"ERROR Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down.\n{START_UP_ECHO}",
        "its worker VllmWorker-1 was killed (exit code -9)",
    ),
    "worker-exception": (  # P8
        (
            "(Worker_TP0 pid=72) ERROR 11-20 23:32:46 [multiproc_executor.py:708] NotImplementedError: no kernel\n"
            "(EngineCore pid=71) ERROR 11-20 23:32:47 [core.py:708] RuntimeError: cancelled\n"
            f"ERROR Worker proc VllmWorker-0 died unexpectedly, shutting down executor.\n{START_UP_ECHO}"
        ),
        "NotImplementedError: no kernel",
    ),
    "worker-code": (
        "ERROR Worker proc VllmWorker-0 died unexpectedly (exit code: 1), shutting down.",
        "its worker VllmWorker-0 died; look above",
    ),
    "device-assert": (  # B5
        "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously",
        "an index was out of range on the GPU; compare the tokenizer's",
    ),
    "device-assert-kernel": (
        (
            "../aten/src/ATen/native/cuda/Indexing.cu:1284: operator(): block: [3,0,0], thread: [64,0,0] Assertion"
            " `srcIndex < srcSelectDimSize` failed.\nRuntimeError: CUDA error: device-side assert triggered"
        ),
        "an index was out of range on the GPU (srcIndex < srcSelectDimSize)",
    ),
    "no-driver": (
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "no GPU can be used: Found no NVIDIA driver",
    ),
    "init": (START_UP_ECHO, "the engine did not start"),
    "engine-error": (
        "(EngineCore pid=71) ERROR 11-20 23:32:46 [core.py:708] KeyError: 'layers.0'\n" + START_UP_ECHO,
        "KeyError: 'layers.0'",
    ),
    "dead": (
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "the engine died",
    ),
    "cuda": (
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "an illegal memory access",
    ),
    "nccl": ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1", "NCCL error"),
    "disk": ("OSError: [Errno 28] No space left on device: 'x.safetensors'", "the disk is full"),
    "bug": ("Traceback (most recent call last):\n  File x\nKeyError: 'reward'", "KeyError: 'reward'"),
    "answer": (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ChatCompletion\nchoices\n  Field required",
        "ValidationError: 1 validation error for ChatCompletion",
    ),
}


@pytest.mark.parametrize(("output", "text"), MAY_GO_BETTER.values(), ids=MAY_GO_BETTER)
def test_the_next_start_may_go_better(output: str, text: str) -> None:
    cause = find_cause(output.splitlines(), COMMON)
    assert cause is not None
    assert text in cause.text
    assert not cause.hopeless


def test_an_output_without_failure_has_no_cause() -> None:
    lines = [
        "12:00:01    INFO Starting RL trainer in World(world_size=1)",
        "12:00:02 SUCCESS Step 1 | Time: 1.2s | Loss: 0.1 | Error 0.0% | Peak memory: 3 GiB",
        'INFO:     127.0.0.1:41184 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    ]
    assert find_cause(lines, TINYRL.failures) is None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "/tmp/a b/rl.toml: max_step: unknown key. Did you mean max_steps?",
            "config error: rl.toml: max_step: unknown key. Did you mean max_steps?",
        ),
        ("rl.toml:3:1: TOML syntax error: Expected '='", "config error: rl.toml:3:1: TOML syntax error"),
        ("command line: trainer.lr: Input should be greater than 0, got -1", "config error: command line:"),
        ("model.name = 'x' is no model folder (No such file): make it first", "config error: model.name"),
        ("unexpected argument `x`: expected `@ file.toml` or `--some.key value`", "config error: unexpected"),
    ],
)
def test_tinyrl_refuses_its_config(line: str, text: str) -> None:
    cause = find_cause(["12:00:00 \033[1mINFO\033[0m earlier", line, ""], TINYRL.failures)
    assert cause is not None
    assert cause.text.startswith(text)
    assert cause.hopeless


def test_tinyrl_last_words_are_told() -> None:
    last = "Inference server refused a rollout (HTTP 500): boom"
    cause = find_cause(["12:00:00    INFO Step 3", last, ""], TINYRL.failures)
    assert cause is not None
    assert cause.text == last
    assert not cause.hopeless


FRAME = 'Traceback (most recent call last):\n  File "/srv/env/web.py", line 7, in step\n    get(url)\n    ^^^^^^^^\n'
NAMED_OTHERWISE = {  # G10
    "http": (
        f"{FRAME}http.client.RemoteDisconnected: Remote end closed",
        "http.client.RemoteDisconnected: Remote",
    ),
    "httpx": (f"{FRAME}httpx.ReadTimeout", "httpx.ReadTimeout in web.py:7"),
    "assert": (f"{FRAME}AssertionError", "AssertionError in web.py:7"),
    "interrupted": (f"{FRAME}KeyError: 'a'\n{FRAME}KeyboardInterrupt", "KeyError: 'a'"),
    "group": (
        (
            "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: unhandled errors (1 sub-exception)\n"
            '  +-+---------------- 1 ----------------\n    |   File "/srv/a.py", line 3, in f\n    |     g()\n'
            "    | httpx.ConnectTimeout: no answer\n    +------------------------------------"
        ),
        "httpx.ConnectTimeout: no answer",
    ),
    "loguru": (
        '> File "/srv/a.py", line 3, in f\n    g(x)\n    │ └ 3\n    └ <function g at 0x7f>\n\nzmq.Again: no frame',
        "zmq.Again: no frame",
    ),
    "no-frame": ("Epoch: 3\nDone: all", None),
    "next-line": (  # R4
        f"{FRAME}ImportError: \nLlamaTokenizer requires the protobuf library",
        "ImportError: LlamaTokenizer requires the protobuf library",
    ),
    "after-blanks": (
        f"{FRAME}OSError:\n\n  You are trying to access a gated repo.\nMake sure",
        "OSError: You are trying to access a gated repo.",
    ),
    "no-frame-next-line": ("ValueError: \nx must be above 0\n", "ValueError: x must be above 0"),
    "nothing-follows": (f"{FRAME}ValueError: \n\n", "ValueError in web.py:7"),
    "engine-next-line": (
        (
            "(EngineCore pid=71) ERROR 11-20 23:32:46 [core.py:708] ValueError: \n"
            "(EngineCore pid=71) ERROR 11-20 23:32:46 [core.py:708] no kernel for head size 48"
        ),
        "ValueError: no kernel for head size 48",
    ),
    "group-next-line": (
        '    |   File "/srv/a.py", line 3, in f\n    |     g()\n    | ValueError: \n    | no answer\n    +----',
        "ValueError: no answer",
    ),
}


@pytest.mark.parametrize(("output", "text"), NAMED_OTHERWISE.values(), ids=NAMED_OTHERWISE)
def test_what_stands_behind_a_traceback_is_an_exception_by_any_name(output: str, text: str | None) -> None:
    cause = find_cause(output.splitlines(), COMMON)
    assert (cause.text if cause else None) == text or (cause and text and cause.text.startswith(text))


ROUTER = (
    "12:00:01    INFO Starting router on http://0.0.0.0:8200/v1 (engine on port 8300)\n"
    "2026-11-20 12:00:02  INFO vllm_router: 1 worker\n"
    "thread 'main' panicked at src/metrics.rs:331:10:\n"
)
NO_LISTENER = (
    "failed to install Prometheus metrics exporter: "
    'FailedToCreateHTTPListener("Address already in use (os error 98)")'
)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (
            f"{ROUTER}{NO_LISTENER}",
            "port 29200, of the router's metrics, is taken by another process; end it",
        ),
        (NO_LISTENER, "the port of the router's metrics, inference.server.port + 21000, is taken"),
        (f"{ROUTER}pyo3_runtime.PanicException: {NO_LISTENER}\nRouter exited with code 1", "port 29200, of"),
    ],
    ids=["named", "not-told", "raised"],
)
def test_the_port_of_the_routers_metrics_is_named(output: str, text: str) -> None:  # R3
    cause = find_cause(output.splitlines(), PRIME_RL)
    assert cause is not None
    assert cause.text.startswith(text)


TORCHRUN = {  # P2; written by torchrun of torch 2.13 as prime-rl starts it
    "assert": "AssertionError in prog.py:4",
    "value": "ValueError: num_heads 3 does not divide 8",
    "recorded": "ValueError: num_heads 3 does not divide 8",
    "import": "ImportError: cannot import name 'nothing_there' from 'torch'",
    "module": "No module named 'flash_attn_x'; install it where the framework runs",
    "file": "FileNotFoundError: [Errno 2] No such file or directory: '/nope/checkpoints/step_3/trainer.pt'",
    "timeout": "httpx.ReadTimeout in prog.py:14",
    "chain": "RuntimeError: no rewards in the batch",
    "killed": "rank 0 was killed by SIGKILL; if nobody did, look at the host's memory",
}


@pytest.mark.parametrize(("case", "text"), TORCHRUN.items(), ids=TORCHRUN)
def test_the_rank_s_own_line_goes_before_torchrun_s_report(case: str, text: str) -> None:
    log = Path(__file__).parents[1] / "data" / "torchrun" / f"{case}.log"
    cause = find_cause(log.read_text().splitlines(), PRIME_RL)
    assert cause is not None
    assert cause.text.startswith(text)


REPORT = (Path(__file__).parents[1] / "data" / "torchrun" / "value.log").read_text().partition("\nE1122")[2]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            "[trainer0]:RuntimeError: Found no NVIDIA driver on your system. Please",
            "no GPU can be used: Found no",
        ),
        (
            (
                "[trainer0]:[rank0]:[E1122 02:12:25.943 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective"
                " operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)"
                " ran for 600014 milliseconds before timing out."
            ),
            "communication between GPUs timed out: ALLREDUCE waited 10m",
        ),
        (
            "[trainer0]:[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
            "out of GPU memory",
        ),
        ("12:00:00 INFO nothing to see", "rank 0 exited 1; its output is in its own file"),
    ],
    ids=["driver", "nccl", "memory", "silent"],
)
def test_ranks_say_it_behind_their_prefix(said: str, text: str) -> None:
    cause = find_cause([said, *f"E1122{REPORT}".splitlines()], PRIME_RL)
    assert cause is not None
    assert cause.text.startswith(text)


def _hostile(size: int) -> Iterator[str]:
    """Texts that make careless patterns try again from every place."""
    for unit in (
        "7",
        " ",
        "a",
        "[",
        "([{",
        "-",
        "│ ",
        "a:b: ",
        "Error: ",
        "a.B",
        "\n",
        " \n",
        "│ \n",
        "1.",
        "/a",
        '"',
    ):
        yield (unit * size)[:size]
    for start in (
        "1 validation error for XConfig\n",
        "Free memory on device (1/1 GiB) on startup is less than desired GPU memory utilization ",
        " in capture_model ",
        "CUDA out of memory. Tried to allocate 1 GiB. GPU 1 has a total capacity of 1 GiB of which 1 GiB is free.",
        "ModuleNotFoundError: ",
        "╭─ Value error ─\n",
        '  File "a", line 1\n',
        "NCCL error\n",
        "DefaultCPUAllocator: can't allocate memory",
        "  traceback : Traceback \n",
        "(EngineCore pid=1) ERROR ",
        "rl.toml: ",
        "x.cu:1: ",
        "ValueError: \n",
        "Starting router on http://0.0.0.0:8000/v1\n",
        "failed to install Prometheus metrics exporter ",
    ):
        yield (start * size)[:size]
        for unit in (" ", "7", "│ \n", "a", "    \n"):
            yield start + (unit * size)[:size]


@pytest.mark.slow
def test_patterns_work_in_proportion_to_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        failure_cause, "LONGEST_LINE", 1 << 30
    )  # cutting would hide what they do with long lines
    table = (*TINYRL.failures, *PRIME_RL)

    def cost(text: str) -> float:
        started = time.thread_time()
        find_cause(text.split("\n"), table)
        return time.thread_time() - started

    for short, long in zip(_hostile(4_000), _hostile(32_000), strict=True):
        assert cost(long) < 20 * cost(short) + 0.5, long[:120]  # a square would be 64 times as much


def test_patterns_never_see_more_of_a_line() -> None:
    whole = FailurePattern("F", r"^(?P<what>[^\n]+)$", lambda groups: str(len(groups["what"])))
    cause = find_cause(["7" * 65_000], [whole])
    assert cause is not None
    assert cause.text == str(LONGEST_LINE)
