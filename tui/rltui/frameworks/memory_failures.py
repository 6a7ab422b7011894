"""How programs say that memory, of a GPU or of the host, did not suffice.

vLLM 0.10 to 0.32, torch 1.13 to 2.13.
"""

from __future__ import annotations

from rltui.core.failure_cause import FailurePattern, Groups, Weight
from rltui.core.gpu.budget import passing_utilization
from rltui.core.gpu.out_of_memory import size_text
from rltui.frameworks import memory_figures as figures
from rltui.frameworks.memory_figures import COUNT, NUMBER, OF_A_PROCESS, SIZE

_OOM = r"\b(?:CUDA|HIP|XPU|MPS backend) out of memory"
_LONGEST_TRACEBACK = 20_000
"""Characters; vLLM begins each line with process, time and place."""
_SMALLER = (
    "trainer: lower seq_len or the micro batch, or turn on activation checkpointing;"
    " inference: lower gpu_memory_utilization or max_num_seqs"
)


def _too_little_free(groups: Groups) -> str:
    free, total = float(groups["free"]), float(groups["total"])
    fits = passing_utilization(free, total)
    lower = f", or lower it to {fits:.2f}" if fits > 0.05 else ""
    return (
        f"out of GPU memory: {free:g} of {total:g} GiB are free, gpu_memory_utilization {groups['util']}"
        f" asks for {groups['want']} GiB; end what else holds the GPU{lower}"
    )


def _cache_too_small(groups: Groups) -> str:
    length = "max_model_len" if groups["est"] == "?" else f"max_model_len to {groups['est']}"
    return (
        f"out of GPU memory: one request of {groups['len']} tokens needs {groups['need']} GiB of KV cache,"
        f" there are {groups['have']}; lower {length}, or raise gpu_memory_utilization"
    )


def _torch_oom(groups: Groups) -> str:
    """The pids that torch names are those of the host, also inside a container."""
    holders = figures.allocation(groups).holders
    pid, held = max(holders, key=lambda holder: holder[1], default=(None, 0))
    holder = "" if pid is None else f"; pid {pid} of the host holds {size_text(held)}"
    return (
        f"out of GPU memory: {groups['req']} asked for, {groups['free']} of {groups['total']} free"
        f"{holder}; {_SMALLER}"
    )


MEMORY: tuple[FailurePattern, ...] = (
    FailurePattern(
        "F_FREE",
        # What is told has no number of the device: it counts inside CUDA_VISIBLE_DEVICES.
        rf"Free memory on device(?: (?P<dev>[\w:]+))? \((?P<free>{NUMBER})/(?P<total>{NUMBER}) GiB\)"
        r" on startup is less than (?:desired GPU memory utilization|the engine's budget)"
        rf".*?\((?P<util>{NUMBER}), (?P<want>{NUMBER}) GiB\)",
        _too_little_free,
        hopeless=True,
        memory=figures.start_check,
    ),
    FailurePattern(
        "F_FREE_CPU",
        rf"Available memory on node (?P<node>{COUNT}) \((?P<free>{NUMBER})/(?P<total>{NUMBER}) GiB\) on"
        r" (?:startup|kv cache allocation) is less than"
        rf"(?: desired CPU memory utilization \((?P<util>{NUMBER}), (?P<want>{NUMBER}) GiB\))?",
        "out of memory: {free} of {total} GiB are free on node {node}, less than the server asks for;"
        " lower gpu_memory_utilization",
        hopeless=True,
        memory=figures.start_check,
    ),
    FailurePattern(
        "F_NOKV",
        r"No available memory for the cache blocks",
        "out of GPU memory: nothing is left for the KV cache; raise gpu_memory_utilization,"
        " or lower max_model_len or max_num_batched_tokens",
        hopeless=True,
        memory=figures.no_kv_cache,
    ),
    FailurePattern(
        "F_KVSMALL",
        rf"To serve at least one request with the models?'s max seq len \((?P<len>{COUNT})\),"
        rf" \(?(?P<need>{NUMBER}) GiB KV cache is needed, which is larger than the available KV cache memory"
        rf" \((?P<have>{NUMBER}) GiB\)"
        rf"(?:.*?[Ee]stimated maximum model length is (?P<est>{COUNT}))?",
        _cache_too_small,
        hopeless=True,
        memory=figures.small_kv_cache,
    ),
    FailurePattern(
        "F_KVTOKENS",
        rf"max seq len \((?P<len>{COUNT})\) is larger than the maximum number of tokens that can be stored in"
        rf" KV cache \((?P<have>{COUNT})\)",
        "out of GPU memory: max_model_len {len} is more than the {have} tokens that fit into the KV cache;"
        " lower it, or raise gpu_memory_utilization",
        hopeless=True,
        memory=figures.few_kv_tokens,
    ),
    FailurePattern(
        "F_LOAD_OOM",
        r"Failed to load model - not enough GPU memory",
        "out of GPU memory while the model was loaded; end what else holds the GPU, or use more GPUs",
        hopeless=True,
        memory=figures.load,
    ),
    FailurePattern(
        "F_WARM_OOM",
        rf"CUDA out of memory occurred when warming up (?:sampler|pooler) with (?P<n>{COUNT}) dummy requests",
        "out of GPU memory in the warm-up with {n} requests; lower max_num_seqs or gpu_memory_utilization",
        hopeless=True,
        memory=figures.warm_up,
    ),
    FailurePattern(
        "F_GRAPH_OOM",
        # A frame of vLLM's traceback, and its end a few dozen frames below.
        rf"\bin capture_model\b(?:(?!\bin capture_model\b)[\s\S]){{1,{_LONGEST_TRACEBACK}}}?"
        rf"(?:{_OOM}|CUDA error: out of memory)",
        "out of GPU memory while CUDA graphs were captured; lower gpu_memory_utilization,"
        " or turn on enforce_eager",
        hopeless=True,
        memory=figures.graph_capture,
    ),
    FailurePattern(
        "F_OOM",
        # torch 2.1 writes "capacty".
        rf"{_OOM}\. Tried to allocate (?P<req>{SIZE})\. GPU (?P<gpu>{COUNT}) has a total capaci?ty of"
        rf" (?P<total>{SIZE}) of which (?P<free>{SIZE}) is free\.(?P<processes>(?: *{OF_A_PROCESS})*)"
        rf"(?: *{SIZE} allowed;)?(?: *Of the allocated memory (?P<allocated>{SIZE}) is allocated by PyTorch"
        rf"[^\n]*? and (?P<cached>{SIZE}) is reserved)?",
        _torch_oom,
        hopeless=True,
        weight=Weight.BROAD,
        memory=figures.allocation,
    ),
    FailurePattern(
        "F_OOM_BEFORE_TORCH_2_1",
        rf"{_OOM}\. Tried to allocate (?P<req>{SIZE}) \(GPU (?P<gpu>{COUNT}); (?P<total>{SIZE}) total"
        rf" capacity;(?: (?P<allocated>{SIZE}) already allocated;)?.*? (?P<free>{SIZE}) free;"
        rf"(?: (?P<reserved>{SIZE}) reserved)?",
        "out of GPU memory: {req} asked for, {free} of {total} free; " + _SMALLER,
        hopeless=True,
        weight=Weight.BROAD,
        memory=figures.allocation_before_2_1,
    ),
    FailurePattern(
        "F_OOM_ANY",
        rf"(?:{_OOM}\b|RESOURCE_EXHAUSTED: Out of memory)"
        rf"(?:(?:\. Tried| while trying) to allocate (?P<req>{SIZE}))?",
        "out of GPU memory; " + _SMALLER,
        hopeless=True,
        weight=Weight.BROAD,
        memory=figures.unspecified,
    ),
    FailurePattern(
        "F_OOM_ASYNC",
        r"CUDA error: out of memory|(?:CUDA error: )?CUBLAS_STATUS_ALLOC_FAILED"
        r"|NCCL[^\n]{0,300}?out of memory|(?:NCCL error(?:[^\n]*\n){1,6}?[^\n]*)?Cuda failure 2 'out of",
        "out of GPU memory, as CUDA itself reports; lower gpu_memory_utilization by 0.05,"
        " or the trainer's batch",
        hopeless=True,
        weight=Weight.BROAD,
        memory=figures.unspecified,
    ),
    FailurePattern(
        "F_PROFILE",
        rf"Error in memory profiling\. Initial free memory (?P<a>{NUMBER}) GiB, "
        rf"current free memory (?P<b>{NUMBER})",
        "another process gave GPU memory back while vLLM measured it ({a} GiB free, then {b} GiB);"
        " start it again",
    ),
    FailurePattern(
        "F_SHM",
        r"DataLoader worker[^\n]{0,300}?Bus error|out of shared memory",
        "out of shared memory (/dev/shm); make it larger, or use fewer data loader workers",
        hopeless=True,
    ),
    FailurePattern(
        "F_HOST_OOM",
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)[^\n]{0,300}?"
        r"(?<!\d)(?P<req>\d{1,20}) bytes",
        "out of memory: the machine refused {req} bytes; use a smaller batch or model",
        hopeless=True,
        weight=Weight.BROAD,
    ),
    FailurePattern(
        "F_HOST_OOM_PYTHON",
        r"(?<!\S)(?:MemoryError\b|OSError: \[Errno 12\] Cannot allocate memory)"
        r"|_ArrayMemoryError: Unable to allocate",
        "out of memory: the machine has no more to give; use a smaller batch or model",
        hopeless=True,
        weight=Weight.BROAD,
    ),
)
