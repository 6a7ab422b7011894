"""Each rule of today's generation: what it takes, and what it refuses with which words."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rltui.core.config_report import Problem
from rltui.core.toml_values import split_key
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.prime_rl.current.check import check

FIXTURES = Path(__file__).parents[2] / "data" / "prime_rl" / "era_c"
GONE = object()
SOURCE = "orchestrator.train.source"
ONE = {"env": {"taskset": {"id": "a"}}}


def changed(role: str, edits: Mapping[str, Any]) -> dict[str, Any]:
    """The real file of that role with these values."""
    data = copy.deepcopy(tomllib.loads((FIXTURES / f"{role}.toml").read_text()))
    for key, value in edits.items():
        *above, leaf = split_key(key)
        at: Any = data
        for name in above:
            at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
        if value is GONE:
            del at[leaf]
        else:
            at[leaf] = value
    return data


def problems(role: str, edits: Mapping[str, Any]) -> tuple[Problem, ...]:
    return check({role: ConfigFile(role, f"/{role}.toml", changed(role, edits))})


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "rl",
        {"orchestrator.batch_size": 100},
        "orchestrator.batch_size",
        "divisible by orchestrator.group_size (16): nearest valid batch_size is 96 or 112",
    ),
    ("rl", {"orchestrator.batch_size": "100"}, "orchestrator.batch_size", "must be divisible by"),
    (
        "rl",
        {"orchestrator.batch_size": GONE, "orchestrator.group_size": 5},
        "orchestrator.batch_size",
        "(128)",
    ),
    ("rl", {"orchestrator.token_batch_size": 4096}, "orchestrator.token_batch_size", "exactly one of"),
    (
        "rl",
        {"orchestrator.concurrency": {"initial_inflight": 2000}},
        "orchestrator.concurrency.max_inflight",
        "(1024) must be at least orchestrator.concurrency.initial_inflight (2000)",
    ),
    (
        "rl",
        {"orchestrator.concurrency": {"min_inflight": 9, "max_inflight": 8}},
        "orchestrator.concurrency.max_inflight",
        "at least orchestrator.concurrency.min_inflight (9)",
    ),
    (
        "rl",
        {"orchestrator.concurrency": {"max_inflight": 8}},
        "orchestrator.concurrency.max_inflight",
        "nearest valid max_inflight is 16",
    ),
    (
        "rl",
        {"orchestrator.concurrency": {"initial_inflight": 8}},
        "orchestrator.concurrency.initial_inflight",
        "at least orchestrator.group_size",
    ),
    (
        "rl",
        {"seq_len": GONE, "trainer.model": {"seq_len": 1024}},
        "trainer.model.seq_len",
        "at least orchestrator.seq_len (2048)",
    ),
    ("rl", {"orchestrator.seq_len": 1024}, "orchestrator.seq_len", "remove one of them"),
    ("rl", {"max_steps": GONE, "trainer.max_steps": 5}, "trainer.max_steps", "must be the same"),
    (
        "rl",
        {"deployment": {"num_train_gpus": 5, "num_infer_gpus": 4}},
        "deployment.num_train_gpus",
        "= 9 is more than deployment.gpus_per_node (8)",
    ),
    (
        "rl",
        {"deployment": {"num_infer_gpus": 3}, "inference": {"vllm": {"tensor_parallel_size": 2}}},
        "deployment.num_infer_gpus",
        "nearest valid num_infer_gpus is 2 or 4",
    ),
    (
        "rl",
        {"deployment": {"num_infer_gpus": 0}, "trainer.weight_broadcast": {"type": "nccl"}},
        "deployment.num_train_gpus",
        "at least 2 GPUs",
    ),
    (
        "rl",
        {"trainer.rollout_transport": {"type": "filesystem"}},
        "trainer.rollout_transport.type",
        "set rollout_transport.type to",
    ),
    (
        "rl",
        {"trainer.model": {"lora": {}}, "weight_broadcast": {"type": "nccl"}},
        "weight_broadcast.type",
        "set it to filesystem",
    ),
    (
        "rl",
        {"trainer.model": {"lora": {"rank": 8}}, "orchestrator.model": {"lora": {"rank": 4}}},
        "orchestrator.model.lora.rank",
        "(8)",
    ),
    (
        "rl",
        {"weight_broadcast": {"type": "nccl", "quantize_in_weight_transfer": True}},
        "weight_broadcast.quantize_in_weight_transfer",
        "custom",
    ),
    (
        "rl",
        {"inference": {"vllm": {"enable_eplb": True}}},
        "inference.vllm.enable_eplb",
        "quantize_in_weight_transfer",
    ),
    (
        "rl",
        {
            "inference": {
                "kv_cache_offload": {"type": "native", "cpu": {"num_bytes": 1}},
                "vllm": {"enable_prefix_caching": False},
            }
        },
        "inference.kv_cache_offload",
        "enable_prefix_caching",
    ),
    ("rl", {"inference": {"kv_cache_offload": {"type": "native"}}}, "inference.kv_cache_offload", "cpu"),
    (
        "rl",
        {"inference": {"vllm": {"gpu_memory_utilization": 1.5}}},
        "inference.vllm.gpu_memory_utilization",
        "≤ 1",
    ),
    ("rl", {"inference": {"vllm": {"max_lora_rank": 600}}}, "inference.vllm.max_lora_rank", "512"),
    ("rl", {"inference": {"router": {"type": "llm-d"}}}, "inference.router.type", "vllm-router"),
    (
        "rl",
        {"inference": {"server": {"port": 9000}}},
        "orchestrator.model.client.base_url",
        "must name the port of inference.server.port (9000)",
    ),
    (
        "rl",
        {"inference": {"backend_port": 5555}},
        "rollout_transport.port",
        "takes port 5555, as inference.backend_port (engine) does",
    ),
    (
        "rl",
        {"orchestrator.env_server_base_port": 29501},
        "orchestrator.env_server_base_port",
        "weight_broadcast.port",
    ),
    ("rl", {"trainer.metrics_server": {}}, "trainer.metrics_server.port", "takes port 8000"),
    (
        "rl",
        {"trainer.model": {"fsdp_cpu_offload": True}},
        "trainer.model.fsdp_cpu_offload",
        "set trainer.model.optim_cpu_offload = false",
    ),
    (
        "rl",
        {"trainer.model": {"full_offload": True}},
        "trainer.model.full_offload",
        "set trainer.model.optim_cpu_offload = false",
    ),
    (
        "rl",
        {
            "trainer.model": {"full_offload": True, "optim_cpu_offload": False},
            "trainer.optim": {"type": "muon"},
        },
        "trainer.model.full_offload",
        "adamw",
    ),
    (
        "rl",
        {
            "trainer.model": {"fsdp_cpu_offload": True, "optim_cpu_offload": False},
            "trainer.optim": {"type": "muon"},
        },
        "trainer.optim.type",
        "fsdp_cpu_offload",
    ),
    ("rl", {"trainer.model": {"impl": "hf"}}, "trainer.model.attn", "flash_attention_2"),
    (
        "rl",
        {"trainer.model": {"impl": "hf", "attn": "flash_attention_2", "cp": 2}},
        "trainer.model.cp",
        "custom",
    ),
    (
        "rl",
        {"trainer.model": {"impl": "custom", "trust_remote_code": True}},
        "trainer.model.trust_remote_code",
        "hf or auto",
    ),
    (
        "rl",
        {"trainer.model": {"ep": 1, "ep_comm_backend": "deepep"}},
        "trainer.model.ep_comm_backend",
        "above 1",
    ),
    (
        "rl",
        {"trainer.model": {"ep": 2, "ep_comm_backend": "deepep", "quantization": {"type": "mxfp8"}}},
        "trainer.model.quantization.type",
        "torch",
    ),
    (
        "rl",
        {"model.vlm": {"vision_encoder_attr": "a", "language_model_attr": "b"}},
        "trainer.model.vlm",
        "custom",
    ),
    (
        "rl",
        {"trainer.scheduler": {"type": "linear", "warmup_steps": 15}},
        "trainer.scheduler.warmup_steps",
        "= 25 must be at most max_steps (20)",
    ),
    (
        "rl",
        {"trainer.scheduler": {"type": "linear", "warmup_steps": 0, "decay_steps": 0}},
        "trainer.scheduler.type",
        "constant",
    ),
    (
        "rl",
        {"max_steps": GONE, "trainer.scheduler": {"type": "cosine"}},
        "trainer.scheduler.type",
        "needs max_steps",
    ),
    ("rl", {"trainer.trace_path": "trace"}, "trainer.trace_path", "below 10"),
    (
        "rl",
        {"trainer.optim.momentum": 0.9},
        "trainer.optim.momentum",
        'belongs to type sgd, but trainer.optim.type is "adamw"',
    ),
    ("rl", {"ckpt": GONE, "trainer.ckpt": {}}, "trainer.ckpt", "one half"),
    ("rl", {"resume": {"step": 3, "dir": "x/step_3"}}, "resume.step", "both set"),
    ("rl", {"resume": {"dir": "x/latest"}}, "resume.dir", "step_<number>"),
    ("rl", {"trainer.resume": {}}, "trainer.resume", "one [resume] at the top"),
    ("rl", {"monitors.wandb.offline": True}, "monitors.wandb.offline", "cannot be true"),
    (
        "rl",
        {"trainer.tokenizer": {"chat_template": "x"}},
        "trainer.tokenizer.chat_template",
        "tokenizer.chat_template at the top",
    ),
    ("rl", {"trainer.output_dir": "elsewhere"}, "trainer.output_dir", "remove it"),
    (
        "rl",
        {"trainer.env_vars": {"CUDA_VISIBLE_DEVICES": "0"}},
        "trainer.env_vars.CUDA_VISIBLE_DEVICES",
        "set by the launcher",
    ),
    ("rl", {"env_vars": {"A": 1}}, "env_vars.A", "quotes"),
    ("rl", {"orchestrator.eval": {}}, "orchestrator.eval", "[[orchestrator.eval.source]]"),
    ("rl", {SOURCE: [{"name": "a"}]}, f"{SOURCE}.0.env", "env.taskset.id"),
    ("rl", {SOURCE: [ONE, ONE]}, f"{SOURCE}.0.name", "another source"),
    ("rl", {SOURCE: [{**ONE, "name": "agg"}]}, f"{SOURCE}.0.name", "agg"),
    ("rl", {SOURCE: [{**ONE, "ratio": 0}]}, f"{SOURCE}.0.ratio", "> 0"),
    ("rl", {SOURCE: [{**ONE, "grop_size": 3}]}, f"{SOURCE}.0.grop_size", "did you mean"),
    ("rl", {"deployment": {"type": "multi_node", "num_train_nodes": 2}}, "deployment.type", "[slurm]"),
    ("rl", {"trainer": GONE}, "trainer", "is missing"),
    ("rl", {"model": "None", "trainer.model": "None"}, "trainer.model", '"None" stands for none'),
    (
        "rl",
        {"orchestrator.batch_sise": 3},
        "orchestrator.batch_sise",
        "did you mean orchestrator.batch_size?",
    ),
    (
        "sft",
        {"data.batch_size": 10, "data.micro_batch_size": 4},
        "sft.data.batch_size",
        "nearest valid batch_size is 8 or 12",
    ),
    (
        "sft",
        {"data.batch_size": 4, "data.micro_batch_size": 8},
        "sft.data.batch_size",
        "lower micro_batch_size to 4",
    ),
    ("sft", {"deployment.num_train_gpus": 3}, "sft.data.batch_size", "num_train_gpus (3)"),
    ("sft", {"model.cp": 2, "data.micro_batch_size": 2}, "sft.data.micro_batch_size", "must be 1"),
    ("sft", {"model.cp": 2, "data.seq_len": 4097}, "sft.data.seq_len", "divisible by sft.model.cp (2)"),
    (
        "sft",
        {"val": {"data": {"batch_size": 3, "micro_batch_size": 2}}},
        "sft.val.data.batch_size",
        "divisible",
    ),
    ("sft", {"val": {}}, "sft.val.data", "is missing"),
    ("sft", {"eval": GONE}, "sft.inference", "add [eval]"),
    (
        "sft",
        {"deployment.num_train_gpus": 8, "data.batch_size": 8},
        "sft.deployment.num_train_gpus",
        "= 9 is more than",
    ),
    ("sft", {"renderer": {"name": "default"}}, "sft.renderer.name", "typed one"),
    ("sft", {"weight_broadcast": {"type": "nixl"}}, "sft.weight_broadcast.type", "nccl or filesystem"),
    ("sft", {"eval.retrigger_on_resume": True}, "sft.eval.retrigger_on_resume", "filesystem"),
    ("sft", {"inference": {"vllm": {"model": "b/c"}}}, "sft.inference.vllm.model", "must be the same"),
]


@pytest.mark.parametrize(
    ("role", "edits", "key", "words"), REFUSED, ids=[f"{row[2]}-{at}" for at, row in enumerate(REFUSED)]
)
def test_rule_refuses_and_names_the_way_out(role: str, edits: dict[str, Any], key: str, words: str) -> None:
    errors = [problem for problem in problems(role, edits) if problem.severity == "error"]
    assert any(problem.key == key and words in problem.message for problem in errors), errors


TAKEN: list[tuple[str, dict[str, Any]]] = [
    ("rl", {}),
    ("rl", {"orchestrator.batch_size": GONE, "orchestrator.token_batch_size": 100_000}),
    ("rl", {"orchestrator.concurrency": {"initial_inflight": 5000, "max_inflight": "None"}}),
    ("rl", {"orchestrator.concurrency": {"min_inflight": 16, "max_inflight": 16}}),
    ("rl", {"trainer.model": {"seq_len": 2048}}),
    ("rl", {"seq_len": GONE, "trainer.model": {"seq_len": 4096}}),
    ("rl", {"deployment": {"num_train_gpus": 4, "num_infer_gpus": 4}}),
    ("rl", {"trainer.model": {"full_offload": True, "optim_cpu_offload": False}}),
    ("rl", {"trainer.model": {"full_offload": False}}),
    ("rl", {"trainer.model": {"ep": "auto", "fused_lm_head_token_chunk_size": "disabled"}}),
    ("rl", {"trainer.model": {"impl": "hf", "attn": "flash_attention_2"}}),
    ("rl", {"trainer.model": {"lora": {}}}),
    ("rl", {"trainer.model": {"compile": "None", "ac": "None", "ac_offloading": "None"}}),
    ("rl", {"inference": {"router": "None"}}),
    (
        "rl",
        {
            "inference": {"server": {"port": 9000}},
            "orchestrator.model": {"client": {"base_url": "http://localhost:9000/v1"}},
        },
    ),
    ("rl", {"inference": {"vllm": {"max_num_seqs": 64, "compilation_config": {"a": 1}}}}),
    ("rl", {"rollout_transport": {"port": 6000}}),
    ("rl", {"orchestrator.train.sampling.extra_body": {"anything": {"goes": 1}}}),
    ("rl", {f"{SOURCE}.0.env.taskset.whatever": 1, f"{SOURCE}.0.serve": {"pool": 3}}),
    ("rl", {f"{SOURCE}.0.group_size": 5}),
    ("rl", {SOURCE: [ONE, {**ONE, "name": "again"}]}),
    ("rl", {"orchestrator.algo": {"type": "rae", "decay": 0.5}}),
    ("rl", {"env_vars": {"A": "1"}}),
    ("rl", {"trainer.output_dir": "outputs/x", "run": {"name": "x"}}),
    ("sft", {}),
    ("sft", {"data": {"type": "fake", "length": "variable"}, "renderer": {"name": "default"}}),
    ("sft", {"deployment": {"num_eval_gpus": 2}}),
    ("sft", {"eval": GONE, "inference": GONE}),
    ("sft", {"val": {"data": {}}}),
]


@pytest.mark.parametrize(("role", "edits"), TAKEN, ids=map(str, range(len(TAKEN))))
def test_sound_config_is_taken(role: str, edits: dict[str, Any]) -> None:
    assert [problem.text for problem in problems(role, edits) if problem.severity == "error"] == []


DOUBTFUL: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("rl", {"orchestrator.batch_size": "64"}, "warning", "orchestrator.batch_size", "is read as 64"),
    ("rl", {"trainer.model": {"ac": "None"}}, "warning", "trainer.model.ac_offloading", "stays on"),
    ("rl", {"orchestrator.renderer": GONE}, "warning", "orchestrator.renderer.name", "not among the models"),
    (
        "rl",
        {"orchestrator.renderer.name": "qwen"},
        "warning",
        "orchestrator.renderer.name",
        "did you mean qwen3",
    ),
    (
        "rl",
        {"inference": {"vllm": {"max_num_seq": 5}}},
        "warning",
        "inference.vllm.max_num_seq",
        "did you mean max_num_seqs?",
    ),
    ("rl", {"inference": {"vllm": {"frobnicate": 5}}}, "hint", "inference.vllm.frobnicate", "unchecked"),
    (
        "rl",
        {"inference": {"vllm": {"data_parallel_size": 4}}},
        "warning",
        "inference.vllm.data_parallel_size",
        "is not read",
    ),
    (
        "rl",
        {"inference": {"vllm": {"max_model_len": 1024}}},
        "hint",
        "inference.vllm.max_model_len",
        "at least orchestrator.seq_len",
    ),
    ("rl", {"trainer.weight_broadcast": {"type": "nccl"}}, "warning", "weight_broadcast.type", "is not read"),
    ("rl", {"deployment": {"num_infer_gpus": 0}}, "warning", "weight_broadcast.type", "set it to filesystem"),
    ("rl", {"inference": GONE}, "hint", "orchestrator.model.client.base_url", "starts no server"),
    ("rl", {f"{SOURCE}.0.group_size": 5}, "warning", f"{SOURCE}.0.group_size", "does not divide"),
    ("rl", {f"{SOURCE}.0.group_size": 1}, "warning", f"{SOURCE}.0.group_size", "alone in its group"),
    (
        "rl",
        {"orchestrator.train.sampling.max_completion_tokens": 2048},
        "warning",
        "orchestrator.train.sampling.max_completion_tokens",
        "no room for a prompt",
    ),
    ("sft", {"inference": GONE}, "hint", "sft.eval", "starts no server"),
    ("rl", {"wandb": {"project": "a"}}, "warning", "wandb", "it is [monitors.wandb] in this generation"),
    (
        "rl",
        {"orchestrator.rollouts_per_example": 8},
        "warning",
        "orchestrator.rollouts_per_example",
        "it is called orchestrator.group_size",
    ),
    ("rl", {"inference": {"seed": 5}}, "warning", "inference.seed", "inference.vllm.seed"),
    ("sft", {"data.pack_function": "cat"}, "warning", "sft.data.pack_function", "it is gone"),
    ("rl", {"trainer.frob": {"nicate": 5}}, "warning", "trainer.frob.nicate", "as of 21 August 2026"),
    ("rl", {"trainer.optim.type": "lion"}, "warning", "trainer.optim.type", "one of adamw, sgd, muon"),
    ("rl", {"trainer.loss": {"type": "icepop"}}, "warning", "trainer.loss.type", "of 21 August 2026"),
    (
        "rl",
        {"orchestrator.new": 1, "orchestrator.batch_size": 100},
        "warning",
        "orchestrator.batch_size",
        "nearest valid batch_size is 96",
    ),
]


def test_a_file_of_a_later_generation_is_taken_and_told() -> None:
    """Finding P1: whatever this generation does not know may be known to another."""
    path = FIXTURES.parent / "era_d" / "rl.toml"
    found = check({"rl": ConfigFile("rl", str(path), tomllib.loads(path.read_text()))})
    assert [problem.text for problem in found if problem.severity == "error"] == []
    told = {problem.key for problem in found if "as of 21 August 2026" in problem.message}
    assert {"orchestrator.train.group_size", "orchestrator.constant_trainer_batch_size"} <= told


@pytest.mark.parametrize(
    ("role", "edits", "severity", "key", "words"), DOUBTFUL, ids=[f"{row[3]}-{row[2]}" for row in DOUBTFUL]
)
def test_doubtful_config_is_written_but_told(
    role: str, edits: dict[str, Any], severity: str, key: str, words: str
) -> None:
    found = problems(role, edits)
    assert not [problem for problem in found if problem.severity == "error"]
    assert any(
        (problem.severity, problem.key) == (severity, key) and words in problem.message for problem in found
    )
