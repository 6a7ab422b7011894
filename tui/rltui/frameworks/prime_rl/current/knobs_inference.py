"""Knobs of the inference server: in RL files, and in SFT files with online evals."""

from __future__ import annotations

from rltui.core.knobs import Knob
from rltui.frameworks.prime_rl.current.knobs_shared import INFERENCE as _I
from rltui.frameworks.prime_rl.current.knobs_shared import O
from rltui.frameworks.prime_rl.knob_tables import Place

KNOBS = (
    Knob(
        "inference.vllm.gpu_memory_utilization", "float", _I,
        "Share of a GPU's memory that vLLM takes, for weights and KV cache together.",
        0.9, above=0, maximum=1, unit="of the GPU", control="fraction",
    ),
    Knob(
        "inference.vllm.max_model_len", "int", _I,
        "Longest context that the server accepts; without it, the model's own.",
        nullable=True, unit="tokens", control="doubling",
    ),
    Knob(
        "inference.vllm.enforce_eager", "bool", _I,
        "No CUDA graphs: slower answers, but some memory and start-up time saved.",
        False,
    ),
    Knob(
        "inference.vllm.tensor_parallel_size", "int", _I,
        "GPUs that share one copy of the model.",
        1, minimum=1, unit="GPUs",
    ),
    Knob(
        "inference.vllm.data_parallel_size", "int", _I,
        "Copies of the model; the rl launcher makes them fill deployment.num_infer_gpus.",
        1, minimum=1, unit="copies",
    ),
    Knob(
        "inference.vllm.api_server_count", "int", _I,
        "Processes that take requests; at least one per copy of the model.",
        1, minimum=0, unit="processes",
    ),
    Knob(
        "inference.vllm.max_num_seqs", "int", _I,
        "Most sequences in one batch of the engine; fewer leave more of the KV cache to each.",
        nullable=True, minimum=1, unit="sequences", control="doubling",
    ),
    Knob(
        "inference.vllm.enable_prefix_caching", "bool", _I,
        "Keep the KV cache of common beginnings; without it, vLLM decides.",
        nullable=True,
    ),
    Knob(
        "inference.vllm.quantization", "str", _I,
        "Quantise weights while serving, such as fp8; without it, as the checkpoint says.",
        nullable=True,
    ),
    Knob(
        "inference.vllm.dtype", "enum", _I,
        "Number format of weights and activations.",
        "auto", choices=("auto", "float16", "bfloat16", "float32"),
    ),
    Knob("inference.vllm.seed", "int", _I, "Start of the server's random numbers.", 0),
    Knob(
        "inference.vllm.model", "str", _I,
        "The shared model.name for inference alone; the orchestrator must ask for the same.",
        "Qwen/Qwen3-0.6B",
    ),
    Knob(
        "inference.vllm.trust_remote_code", "bool", _I,
        "Run code that comes with the model.",
        False,
    ),
    Knob(
        "inference.vllm.tool_call_parser", "str", _I,
        "How tool calls are found in answers; auto goes by the model.",
        "auto", nullable=True,
    ),
    Knob(
        "inference.vllm.reasoning_parser", "str", _I,
        "How thinking is told from the answer; auto goes by the model.",
        "auto", nullable=True,
    ),
    Knob(
        "inference.vllm.enable_expert_parallel", "bool", _I,
        "Spread the experts of a mixture-of-experts model over the GPUs.",
        False,
    ),
    Knob(
        "inference.vllm.enable_eplb", "bool", _I,
        "Move experts between GPUs so that all are equally busy.",
        False,
    ),
    Knob(
        "inference.vllm.enable_lora", "bool", _I,
        "Serve LoRA adapters; switched on by itself when the trainer trains one.",
        False,
    ),
    Knob(
        "inference.vllm.max_lora_rank", "int", _I,
        "Largest LoRA rank that can be served; rounded up to what vLLM has kernels for.",
        nullable=True, maximum=512,
    ),
    Knob(
        "inference.vllm.data_parallel_rpc_port", "int", _I,
        "Port on which the copies of the model talk to each other.",
        13345, minimum=1, maximum=65535,
    ),
    Knob(
        "inference.server.port", "int", (*_I, O),
        "Port for requests: the router's, or the engine's where there is no router.",
        8000, minimum=1, maximum=65535,
    ),
    Knob(
        "inference.server.host", "str", _I,
        "Address on which the server listens; without it, all of the machine's.",
        nullable=True,
    ),
    Knob(
        "inference.backend_port", "int", (*_I, O),
        "Port of the engine behind the router; without it, server.port + 100.",
        8100, minimum=1, maximum=65535,
    ),
    Knob(
        "inference.router.type", "enum", _I,
        "What stands before the engines and spreads the requests.",
        "vllm-router", choices=("vllm-router", "llm-d"),
    ),
    Knob(
        "inference.enable_fp32_lm_head", "bool", _I,
        "Last layer in full precision: log-probabilities closer to the trainer's.",
        True,
    ),
    Knob(
        "inference.use_deep_gemm", "bool", _I,
        "DeepGEMM kernels, for models with FP8 weights in blocks.",
        False,
    ),
    Knob(
        "inference.kv_cache_offload.cpu.num_bytes", "int", _I,
        "Host memory for KV cache that the GPU has no room for.",
        above=0, unit="bytes",
    ),
    Knob("inference.log.level", "str", _I, "Least important log lines of the server.", "info"),
)  # fmt: skip

SFT_KNOBS = Place(("sft",), file="sft", namespace="sft").put(KNOBS)
