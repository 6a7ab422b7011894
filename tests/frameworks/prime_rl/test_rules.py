"""Each rule between keys, of all generations: what it takes, and what it refuses with which words."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.prime_rl.runs import framework

from rltui.core.config_report import Problem
from rltui.core.toml.values import split_key
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, SPLIT, snapshots

FIXTURES = Path(__file__).parents[2] / "data" / "prime_rl"
C_RL, C_SFT, D_RL = "era_c/rl", "era_c/sft", "era_d/rl"
"""Real files, as bases."""
GONE = object()
SOURCE = "orchestrator.train.source"
ONE = {"env": {"taskset": {"id": "a"}}}


def files_of(base: str, edits: Mapping[str, Any]) -> ConfigFiles:
    """A real file with these values; `GONE` takes one out."""
    data: dict[str, Any] = copy.deepcopy(tomllib.loads((FIXTURES / f"{base}.toml").read_text()))
    for key, value in edits.items():
        *above, leaf = split_key(key)
        at: Any = data
        for name in above:
            at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
        if value is GONE:
            del at[leaf]
        else:
            at[leaf] = value
    role = base.partition("/")[2]
    return {role: ConfigFile(role, f"/{role}.toml", data)}


def problems(base: str, edits: Mapping[str, Any]) -> tuple[Problem, ...]:
    return framework(CURRENT).check(files_of(base, edits))


def texts(**found: str) -> ConfigFiles:
    return {role: ConfigFile(role, f"/c/{role}.toml", tomllib.loads(text)) for role, text in found.items()}


def told(generation: str, **found: str) -> list[Problem]:
    return [each for each in framework(generation).check(texts(**found)) if each.severity != "hint"]


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (
        C_RL,
        {"orchestrator.batch_size": 100},
        "orchestrator.batch_size",
        "divisible by orchestrator.group_size (16): nearest valid batch_size is 96 or 112",
    ),
    (C_RL, {"orchestrator.batch_size": "100"}, "orchestrator.batch_size", "must be divisible by"),
    (
        C_RL,
        {"orchestrator.batch_size": GONE, "orchestrator.group_size": 5},
        "orchestrator.batch_size",
        "(128)",
    ),
    (C_RL, {"orchestrator.token_batch_size": 4096}, "orchestrator.token_batch_size", "exactly one of"),
    (
        C_RL,
        {"orchestrator.concurrency": {"initial_inflight": 2000}},
        "orchestrator.concurrency.max_inflight",
        "(1024) must be at least orchestrator.concurrency.initial_inflight (2000)",
    ),
    (
        C_RL,
        {"orchestrator.concurrency": {"min_inflight": 9, "max_inflight": 8}},
        "orchestrator.concurrency.max_inflight",
        "at least orchestrator.concurrency.min_inflight (9)",
    ),
    (
        C_RL,
        {"orchestrator.concurrency": {"max_inflight": 8}},
        "orchestrator.concurrency.max_inflight",
        "nearest valid max_inflight is 16",
    ),
    (
        C_RL,
        {"orchestrator.concurrency": {"initial_inflight": 8}},
        "orchestrator.concurrency.initial_inflight",
        "at least orchestrator.group_size",
    ),
    (
        C_RL,
        {"seq_len": GONE, "trainer.model": {"seq_len": 1024}},
        "trainer.model.seq_len",
        "at least orchestrator.seq_len (2048)",
    ),
    (C_RL, {"orchestrator.seq_len": 1024}, "orchestrator.seq_len", "remove one of them"),
    (C_RL, {"max_steps": GONE, "trainer.max_steps": 5}, "trainer.max_steps", "must be the same"),
    (
        C_RL,
        {"deployment": {"num_train_gpus": 5, "num_infer_gpus": 4}},
        "deployment.num_train_gpus",
        "= 9 is more than deployment.gpus_per_node (8)",
    ),
    (
        C_RL,
        {"deployment": {"num_infer_gpus": 3}, "inference": {"vllm": {"tensor_parallel_size": 2}}},
        "deployment.num_infer_gpus",
        "nearest valid num_infer_gpus is 2 or 4",
    ),
    (
        C_RL,
        {"deployment": {"num_infer_gpus": 0}, "trainer.weight_broadcast": {"type": "nccl"}},
        "deployment.num_train_gpus",
        "at least 2 GPUs",
    ),
    (
        C_RL,
        {"trainer.rollout_transport": {"type": "filesystem"}},
        "trainer.rollout_transport.type",
        "set rollout_transport.type to",
    ),
    (
        C_RL,
        {"trainer.model": {"lora": {}}, "weight_broadcast": {"type": "nccl"}},
        "weight_broadcast.type",
        "set it to filesystem",
    ),
    (
        C_RL,
        {"trainer.model": {"lora": {"rank": 8}}, "orchestrator.model": {"lora": {"rank": 4}}},
        "orchestrator.model.lora.rank",
        "(8)",
    ),
    (
        C_RL,
        {
            "inference": {
                "kv_cache_offload": {"type": "native", "cpu": {"num_bytes": 1}},
                "vllm": {"enable_prefix_caching": False},
            }
        },
        "inference.kv_cache_offload",
        "enable_prefix_caching",
    ),
    (C_RL, {"inference": {"vllm": {"max_lora_rank": 600}}}, "inference.vllm.max_lora_rank", "512"),
    (
        C_RL,
        {"inference": {"server": {"port": 9000}}},
        "orchestrator.model.client.base_url",
        "must name the port of inference.server.port (9000)",
    ),
    (
        C_RL,
        {"inference": {"backend_port": 5555}},
        "rollout_transport.port",
        "takes port 5555, as inference.backend_port (engine) does",
    ),
    (
        C_RL,
        {"orchestrator.env_server_base_port": 29501},
        "orchestrator.env_server_base_port",
        "weight_broadcast.port",
    ),
    (C_RL, {"trainer.metrics_server": {}}, "trainer.metrics_server.port", "takes port 8000"),
    (
        C_RL,
        {"trainer.model": {"fsdp_cpu_offload": True}},
        "trainer.model.fsdp_cpu_offload",
        "set trainer.model.optim_cpu_offload = false",
    ),
    (
        C_RL,
        {"trainer.model": {"full_offload": True}},
        "trainer.model.full_offload",
        "set trainer.model.optim_cpu_offload = false",
    ),
    (
        C_RL,
        {
            "trainer.model": {"full_offload": True, "optim_cpu_offload": False},
            "trainer.optim": {"type": "muon"},
        },
        "trainer.model.full_offload",
        "adamw",
    ),
    (
        C_RL,
        {
            "trainer.model": {"fsdp_cpu_offload": True, "optim_cpu_offload": False},
            "trainer.optim": {"type": "muon"},
        },
        "trainer.optim.type",
        "fsdp_cpu_offload",
    ),
    (C_RL, {"trainer.model": {"impl": "hf"}}, "trainer.model.attn", "flash_attention_2"),
    (
        C_RL,
        {"trainer.model": {"impl": "hf", "attn": "flash_attention_2", "cp": 2}},
        "trainer.model.cp",
        "custom",
    ),
    (
        C_RL,
        {"trainer.model": {"impl": "custom", "trust_remote_code": True}},
        "trainer.model.trust_remote_code",
        '"hf" or "auto", not "custom"',
    ),
    (
        C_RL,
        {"trainer.scheduler": {"type": "linear", "warmup_steps": 15}},
        "trainer.scheduler.warmup_steps",
        "= 25 must be at most max_steps (20)",
    ),
    (
        C_RL,
        {"trainer.scheduler": {"type": "linear", "warmup_steps": 0, "decay_steps": 0}},
        "trainer.scheduler.type",
        "constant",
    ),
    (
        C_RL,
        {"max_steps": GONE, "trainer.scheduler": {"type": "cosine"}},
        "trainer.scheduler.type",
        "needs max_steps",
    ),
    (
        C_RL,
        {"trainer.optim.momentum": 0.9},
        "trainer.optim.momentum",
        'belongs to type sgd, but trainer.optim.type is "adamw"',
    ),
    (C_RL, {"ckpt": GONE, "trainer.ckpt": {}}, "trainer.ckpt", "one half"),
    (C_RL, {"resume": {"step": 3, "dir": "x/step_3"}}, "resume.step", "both set"),
    (C_RL, {"resume": {"dir": "x/latest"}}, "resume.dir", "step_<number>"),
    (C_RL, {"trainer.resume": {}}, "trainer.resume", "one [resume] at the top"),
    (C_RL, {"monitors.wandb.offline": True}, "monitors.wandb.offline", "cannot be true"),
    (
        C_RL,
        {"trainer.env_vars": {"CUDA_VISIBLE_DEVICES": "0"}},
        "trainer.env_vars.CUDA_VISIBLE_DEVICES",
        "set by the launcher",
    ),
    (C_RL, {"env_vars": {"A": 1}}, "env_vars.A", "quotes"),
    (C_RL, {"orchestrator.eval": {}}, "orchestrator.eval", "[[orchestrator.eval.source]]"),
    (
        C_RL,
        {"orchestrator.train.source": [{"name": "a"}]},
        "orchestrator.train.source.0.env",
        "env.taskset.id",
    ),
    (
        C_RL,
        {"orchestrator.train.source": [{"env": {"taskset": {"id": "a"}}}, {"env": {"taskset": {"id": "a"}}}]},
        "orchestrator.train.source.0.name",
        "another source",
    ),
    (
        C_RL,
        {"orchestrator.train.source": [{"env": {"taskset": {"id": "a"}}, "name": "agg"}]},
        "orchestrator.train.source.0.name",
        "agg",
    ),
    (C_RL, {"deployment": {"type": "multi_node", "num_train_nodes": 2}}, "deployment.type", "[slurm]"),
    (
        C_SFT,
        {"data.batch_size": 10, "data.micro_batch_size": 4},
        "sft.data.batch_size",
        "nearest valid batch_size is 8 or 12",
    ),
    (
        C_SFT,
        {"data.batch_size": 4, "data.micro_batch_size": 8},
        "sft.data.batch_size",
        "lower micro_batch_size to 4",
    ),
    (C_SFT, {"deployment.num_train_gpus": 3}, "sft.data.batch_size", "num_train_gpus (3)"),
    (C_SFT, {"model.cp": 2, "data.micro_batch_size": 2}, "sft.data.micro_batch_size", "must be 1"),
    (C_SFT, {"model.cp": 2, "data.seq_len": 4097}, "sft.data.seq_len", "divisible by sft.model.cp (2)"),
    (
        C_SFT,
        {"val": {"data": {"batch_size": 3, "micro_batch_size": 2}}},
        "sft.val.data.batch_size",
        "divisible",
    ),
    (C_SFT, {"eval": GONE}, "sft.inference", "add [eval]"),
    (
        C_SFT,
        {"deployment.num_train_gpus": 8, "data.batch_size": 8},
        "sft.deployment.num_train_gpus",
        "= 9 is more than",
    ),
    (C_SFT, {"renderer": {"name": "default"}}, "sft.renderer.name", "typed one"),
    (C_SFT, {"weight_broadcast": {"type": "nixl"}}, "sft.weight_broadcast.type", "nccl or filesystem"),
    (C_SFT, {"eval.retrigger_on_resume": True}, "sft.eval.retrigger_on_resume", "filesystem"),
    (C_SFT, {"inference": {"vllm": {"model": "b/c"}}}, "sft.inference.vllm.model", "must be the same"),
    (
        C_RL,
        {"weight_broadcast": {"type": "nixl"}, "trainer.model": {"lora": {}}},
        "weight_broadcast.type",
        "cannot carry",
    ),
    (
        C_RL,
        {"inference": {"vllm": {"gpu_memory_utilization": 1.5}}},
        "inference.vllm.gpu_memory_utilization",
        "vLLM refuses",
    ),
    (
        C_RL,
        {"rollout_transport": {"type": "zmq"}, "trainer.rollout_transport": {"type": "filesystem"}},
        "trainer.rollout_transport",
        "remove one of them",
    ),
    (C_RL, {"orchestrator.monitors": {"wandb": "None"}}, "trainer.monitors.wandb", "one half of the metrics"),
    (
        D_RL,
        {"orchestrator.batch_size": 100},
        "orchestrator.batch_size",
        "source.0.group_size (16): nearest valid batch_size is 96 or 112",
    ),
    (
        D_RL,
        {f"{SOURCE}.0.group_size": 24},
        "orchestrator.batch_size",
        "(24): nearest valid batch_size is 120 or 144",
    ),
    (
        D_RL,
        {"orchestrator.concurrency": {"max_inflight": 8}},
        "orchestrator.concurrency.max_inflight",
        "nearest valid max_inflight is 16",
    ),
    (
        D_RL,
        {f"{SOURCE}.0.group_size": 64, "orchestrator.concurrency": {"initial_inflight": 32}},
        "orchestrator.concurrency.initial_inflight",
        "nearest valid initial_inflight is 64",
    ),
    (
        D_RL,
        {"orchestrator.train.sampling": {"top_p": 0.9, "temperature": 0.0}},
        "orchestrator.train.sampling.temperature",
        "above 0",
    ),
    (
        D_RL,
        {"orchestrator.train.sampling": {"top_k": 600}},
        "orchestrator.train.sampling.top_k",
        "at most 512",
    ),
    (
        D_RL,
        {"orchestrator.train.sampling": {"extra_body": {"top_k": 5}}},
        "orchestrator.train.sampling.extra_body",
        "cannot hold",
    ),
    (D_RL, {"orchestrator.eval": {}}, "orchestrator.eval", "[[orchestrator.eval.source]]"),
    (D_RL, {"resume": {"step": 3, "dir": "x/step_3"}}, "resume.step", "both set"),
]


@pytest.mark.parametrize(
    ("base", "edits", "key", "words"), REFUSED, ids=[f"{row[2]}-{at}" for at, row in enumerate(REFUSED)]
)
def test_rule_refuses_and_names_the_way_out(base: str, edits: dict[str, Any], key: str, words: str) -> None:
    errors = [problem for problem in problems(base, edits) if problem.severity == "error"]
    assert any(problem.key == key and words in problem.message for problem in errors), errors


TAKEN: list[tuple[str, dict[str, Any]]] = [
    (C_RL, {}),
    (C_RL, {"orchestrator.batch_size": GONE, "orchestrator.token_batch_size": 100000}),
    (C_RL, {"orchestrator.concurrency": {"initial_inflight": 5000, "max_inflight": "None"}}),
    (C_RL, {"orchestrator.concurrency": {"min_inflight": 16, "max_inflight": 16}}),
    (C_RL, {"trainer.model": {"seq_len": 2048}}),
    (C_RL, {"seq_len": GONE, "trainer.model": {"seq_len": 4096}}),
    (C_RL, {"deployment": {"num_train_gpus": 4, "num_infer_gpus": 4}}),
    (C_RL, {"trainer.model": {"full_offload": True, "optim_cpu_offload": False}}),
    (C_RL, {"trainer.model": {"full_offload": False}}),
    (C_RL, {"trainer.model": {"ep": "auto", "fused_lm_head_token_chunk_size": "disabled"}}),
    (C_RL, {"trainer.model": {"impl": "hf", "attn": "flash_attention_2"}}),
    (C_RL, {"trainer.model": {"lora": {}}}),
    (C_RL, {"trainer.model": {"compile": "None", "ac": "None", "ac_offloading": "None"}}),
    (C_RL, {"inference": {"router": "None"}}),
    (
        C_RL,
        {
            "inference": {"server": {"port": 9000}},
            "orchestrator.model": {"client": {"base_url": "http://localhost:9000/v1"}},
        },
    ),
    (C_RL, {"inference": {"vllm": {"max_num_seqs": 64, "compilation_config": {"a": 1}}}}),
    (C_RL, {"rollout_transport": {"port": 6000}}),
    (C_RL, {"orchestrator.train.sampling.extra_body": {"anything": {"goes": 1}}}),
    (
        C_RL,
        {
            "orchestrator.train.source.0.env.taskset.whatever": 1,
            "orchestrator.train.source.0.serve": {"pool": 3},
        },
    ),
    (C_RL, {"orchestrator.train.source.0.group_size": 5}),
    (
        C_RL,
        {
            "orchestrator.train.source": [
                {"env": {"taskset": {"id": "a"}}},
                {"env": {"taskset": {"id": "a"}}, "name": "again"},
            ]
        },
    ),
    (C_RL, {"orchestrator.algo": {"type": "rae", "decay": 0.5}}),
    (C_RL, {"env_vars": {"A": "1"}}),
    (C_RL, {"trainer.output_dir": "outputs/x", "run": {"name": "x"}}),
    (C_SFT, {}),
    (C_SFT, {"data": {"type": "fake", "length": "variable"}, "renderer": {"name": "default"}}),
    (C_SFT, {"deployment": {"num_eval_gpus": 2}}),
    (C_SFT, {"eval": GONE, "inference": GONE}),
    (C_SFT, {"val": {"data": {}}}),
    (C_RL, {"orchestrator.algo": {"type": "rae"}, "orchestrator.group_size": 1}),
    (D_RL, {}),
    (D_RL, {"orchestrator.train.group_size": 1, f"{SOURCE}.0.group_size": 64}),
    (D_RL, {"orchestrator.train.sampling": {"top_p": 0.9, "top_k": 512}}),
]


@pytest.mark.parametrize(("base", "edits"), TAKEN, ids=map(str, range(len(TAKEN))))
def test_sound_config_is_taken(base: str, edits: dict[str, Any]) -> None:
    assert [problem.text for problem in problems(base, edits) if problem.severity == "error"] == []


DOUBTFUL: list[tuple[str, dict[str, Any], str, str, str]] = [
    (C_RL, {"trainer.model": {"ac": "None"}}, "warning", "trainer.model.ac_offloading", "stays on"),
    (C_RL, {"orchestrator.renderer": GONE}, "warning", "orchestrator.renderer.name", "not among the models"),
    (
        C_RL,
        {"inference": {"vllm": {"max_num_seq": 5}}},
        "warning",
        "inference.vllm.max_num_seq",
        "did you mean max_num_seqs?",
    ),
    (C_RL, {"inference": {"vllm": {"frobnicate": 5}}}, "hint", "inference.vllm.frobnicate", "unchecked"),
    (
        C_RL,
        {"inference": {"vllm": {"data_parallel_size": 4}}},
        "warning",
        "inference.vllm.data_parallel_size",
        "is not read",
    ),
    (
        C_RL,
        {"inference": {"vllm": {"max_model_len": 1024}}},
        "hint",
        "inference.vllm.max_model_len",
        "at least orchestrator.seq_len",
    ),
    (C_RL, {"trainer.weight_broadcast": {"type": "nccl"}}, "warning", "weight_broadcast.type", "is not read"),
    (C_RL, {"deployment": {"num_infer_gpus": 0}}, "warning", "weight_broadcast.type", "set it to filesystem"),
    (
        C_RL,
        {"orchestrator.train.source.0.group_size": 5},
        "warning",
        "orchestrator.train.source.0.group_size",
        "does not divide",
    ),
    (
        C_RL,
        {"orchestrator.train.source.0.group_size": 1},
        "warning",
        "orchestrator.train.source.0.group_size",
        "alone in its group",
    ),
    (
        C_RL,
        {"orchestrator.train.sampling.max_completion_tokens": 2048},
        "warning",
        "orchestrator.train.sampling.max_completion_tokens",
        "no room for a prompt",
    ),
    (C_SFT, {"inference": GONE}, "hint", "sft.eval", "starts no server"),
    (
        D_RL,
        {"trainer.weight_broadcast": {"type": "nccl", "inference_world_size": 4}},
        "warning",
        "trainer.weight_broadcast.inference_world_size",
        "is not read",
    ),
]


@pytest.mark.parametrize(
    ("base", "edits", "severity", "key", "words"), DOUBTFUL, ids=[f"{row[3]}-{row[2]}" for row in DOUBTFUL]
)
def test_doubtful_config_is_written_but_told(
    base: str, edits: dict[str, Any], severity: str, key: str, words: str
) -> None:
    found = problems(base, edits)
    assert not [problem for problem in found if problem.severity == "error"]
    assert any(
        (problem.severity, problem.key) == (severity, key) and words in problem.message for problem in found
    )


OLDER: list[tuple[str, str, str, str, str, str]] = [
    (
        MERGED,
        "rl",
        "orchestrator.batch_size = 96",
        "orchestrator.batch_size = 100",
        "error",
        "orchestrator.rollouts_per_example (16): nearest valid batch_size is 96 or 112",
    ),
    (
        MERGED,
        "rl",
        "orchestrator.token_batch_size = 65536\norchestrator.max_inflight_rollouts = 64",
        "orchestrator.token_batch_size = 65536",
        "error",
        (
            "max_inflight_rollouts must be set when orchestrator.token_batch_size "
            "(65536) is: at least orchestrator.rollouts_per_example (16), for example 128"
        ),
    ),
    (
        MERGED,
        "rl",
        "orchestrator.batch_size = 64",
        (
            "orchestrator.batch_size = 64\norchestrator.token_batch_size "
            "= 65536\norchestrator.max_inflight_rollouts = 64"
        ),
        "error",
        "set exactly one of orchestrator.batch_size (64) or orchestrator.token_batch_size (65536)",
    ),
    (
        MERGED,
        "rl",
        "orchestrator.oversampling_factor = 2",
        (
            "orchestrator.token_batch_size = 65536\norchestrator.max_inflight_rollouts "
            "= 64\norchestrator.oversampling_factor = 2"
        ),
        "error",
        "orchestrator.oversampling_factor (2) can only be set when orchestrator.batch_size is set",
    ),
    (
        MERGED,
        "rl",
        "orchestrator.oversampling_factor = 2\norchestrator.max_inflight_rollouts = 256",
        "orchestrator.oversampling_factor = 2\norchestrator.max_inflight_rollouts = 255",
        "error",
        "conflicts with orchestrator.oversampling_factor (2) * orchestrator.batch_size (128)",
    ),
    (
        MERGED,
        "rl",
        "orchestrator.max_inflight_rollouts = 128",
        "orchestrator.max_inflight_rollouts = 64",
        "warning",
        "orchestrator.max_inflight_rollouts (64) is less than orchestrator.batch_size (128)",
    ),
    (
        MERGED,
        "rl",
        "orchestrator.token_batch_size = 99\norchestrator.max_inflight_rollouts = 16",
        "orchestrator.token_batch_size = 99\norchestrator.max_inflight_rollouts = 8",
        "error",
        "orchestrator.rollouts_per_example (16): nearest valid max_inflight_rollouts is 16",
    ),
    (
        MERGED,
        "rl",
        "orchestrator.max_concurrent = 16",
        "orchestrator.max_concurrent = 15",
        "error",
        "orchestrator.max_concurrent (15) must be at least orchestrator.rollouts_per_example (16)",
    ),
    (
        MERGED,
        "rl",
        "seq_len = 4096",
        "orchestrator.seq_len = 4096",
        "error",
        "trainer.model.seq_len (2048) must be at least orchestrator.seq_len (4096)",
    ),
    (
        MERGED,
        "rl",
        "orchestrator.max_steps = 9\ntrainer.max_steps = 9",
        "orchestrator.max_steps = 9",
        "error",
        (
            "trainer.max_steps (not set) and orchestrator.max_steps "
            "(9) must be the same: remove both and set max_steps to 9"
        ),
    ),
    (
        MERGED,
        "rl",
        "trainer.model.name = 'a'\norchestrator.model.name = 'a'",
        "trainer.model.name = 'a'",
        "error",
        'trainer.model.name ("a") and orchestrator.model.name ("Qwen/Qwen3-0.6B") must be the same',
    ),
    (MERGED, "rl", "[ckpt]", "[trainer.ckpt]", "error", "[trainer.ckpt] needs [orchestrator.ckpt] too"),
    (
        MERGED,
        "rl",
        "ckpt.interval = 5",
        "trainer.ckpt.interval = 5\norchestrator.ckpt.interval = 6",
        "error",
        "remove both and set ckpt.interval to 5 or 6",
    ),
    (
        MERGED,
        "rl",
        "trainer.model = { cp = 2, attn = 'flash_attention_2' }",
        "trainer.model = { cp = 2, attn = 'sdpa' }",
        "error",
        "trainer.model.cp (2) needs flash attention",
    ),
    (
        MERGED,
        "rl",
        "trainer.model = { ep = 2 }",
        "trainer.model = { ep = 2, impl = 'hf' }",
        "error",
        'trainer.model.ep (2) needs trainer.model.impl to be "custom" or "auto", not "hf"',
    ),
    (
        MERGED,
        "rl",
        "deployment = { num_infer_gpus = 4, num_train_gpus = 4 }",
        "deployment = { num_infer_gpus = 4, num_train_gpus = 5 }",
        "error",
        "= 9 is more than deployment.gpus_per_node (8)",
    ),
    (
        MERGED,
        "rl",
        "deployment = { type = 'multi_node', num_train_nodes = 1, num_infer_nodes = 1 }\n[slurm]",
        "deployment = { type = 'multi_node', num_train_nodes = 1, num_infer_nodes = 1 }",
        "error",
        "deployment.type (multi_node) needs [slurm]",
    ),
    (
        MERGED,
        "rl",
        "[inference]\nserver.port = 8000",
        "[inference]\nserver.port = 8001",
        "error",
        "must name the port of inference.server.port (8001)",
    ),
    (
        MERGED,
        "rl",
        "[inference]\ngpu_memory_utilization = 0.5",
        "[inference]\ngpu_memory_utilization = 1.5",
        "error",
        "vLLM refuses to start",
    ),
    (
        MERGED,
        "rl",
        "[inference]\nparallel.tp = 1",
        "[inference]\nparallel.tp = 2",
        "error",
        "must be divisible by inference.parallel.tp (2): nearest valid num_infer_gpus is 2",
    ),
    (
        MERGED,
        "rl",
        "[inference]\nmax_lora_rank = 512",
        "[inference]\nmax_lora_rank = 513",
        "error",
        "the largest allowed is 512",
    ),
    (
        MERGED,
        "sft",
        "data.batch_size = 32\ndata.micro_batch_size = 4",
        "data.batch_size = 2\ndata.micro_batch_size = 4",
        "error",
        "sft.data.batch_size (2) must be at least sft.data.micro_batch_size (4)",
    ),
    (
        MERGED,
        "sft",
        "model.cp = 2",
        "model.cp = 2\ndata.micro_batch_size = 2",
        "error",
        "sft.data.micro_batch_size (2) must be 1",
    ),
    (
        MERGED,
        "sft",
        "model.cp = 2",
        "model.cp = 2\ndata.seq_len = 129",
        "error",
        "must be divisible by sft.model.cp (2)",
    ),
    (
        MERGED,
        "sft",
        "model.cp = 2",
        "model.cp = 2\ndata.pack_function = 'stack'\ndata.seq_len = 512",
        "error",
        'must be "cat"',
    ),
    (
        MERGED,
        "sft",
        "deployment.num_gpus = 4",
        "deployment.num_gpus = 3",
        "error",
        "nearest valid batch_size is 126 or 129",
    ),
    (
        MERGED,
        "sft",
        "deployment.num_gpus = 8",
        "deployment.num_gpus = 16",
        "error",
        "is more than sft.deployment.gpus_per_node (8)",
    ),
    (
        SPLIT,
        "orchestrator",
        "batch_size = 96",
        "batch_size = 100",
        "error",
        (
            "orchestrator.batch_size (100) must be divisible by "
            "orchestrator.rollouts_per_example (16): nearest valid batch_size is 96 or 112"
        ),
    ),
    (
        SPLIT,
        "orchestrator",
        "max_concurrent = 16",
        "max_concurrent = 8",
        "warning",
        "orchestrator.max_concurrent (8) must be at least orchestrator.rollouts_per_example (16)",
    ),
    (
        SPLIT,
        "orchestrator",
        "max_async_level = 1\nweight_broadcast.type = 'nccl'",
        "max_async_level = 2\nweight_broadcast.type = 'nccl'",
        "error",
        "orchestrator.max_async_level (2) must be 1 while orchestrator.weight_broadcast.type is nccl",
    ),
    (
        SPLIT,
        "inference",
        "gpu_memory_utilization = 1",
        "gpu_memory_utilization = 1.5",
        "error",
        "inference.gpu_memory_utilization (1.5) must be greater than 0 and at most 1: vLLM refuses",
    ),
    (
        SPLIT,
        "trainer",
        "model.impl = 'hf'\nmodel.trust_remote_code = true",
        "model.impl = 'custom'\nmodel.trust_remote_code = true",
        "error",
        'trainer.model.trust_remote_code (true) needs trainer.model.impl to be "hf", not "custom"',
    ),
    (
        SPLIT,
        "trainer",
        "optim.type = 'muon'",
        "optim.type = 'muon'\nmodel.fsdp_cpu_offload = true",
        "error",
        "trainer.optim.type (muon) does not work with trainer.model.fsdp_cpu_offload",
    ),
    (
        SPLIT,
        "trainer",
        "max_steps = 20\nscheduler.type = 'cosine'",
        "max_steps = 10\nscheduler.type = 'cosine'",
        "warning",
        "never reaches its full size",
    ),
    (
        SPLIT,
        "sft",
        "data.micro_batch_size = 4",
        "data.micro_batch_size = 3",
        "error",
        (
            "sft.data.batch_size (128) must be divisible by "
            "sft.data.micro_batch_size (3): nearest valid batch_size is 126 or 129"
        ),
    ),
    (
        SPLIT,
        "sft",
        "data.pack_function = 'stack'\ndata.seq_len = 512",
        "data.pack_function = 'stack'\ndata.seq_len = 500",
        "error",
        (
            "sft.data.seq_len (500) must be divisible by 256 while "
            "sft.data.pack_function is stack: nearest valid seq_len is 256 or 512"
        ),
    ),
    (
        SPLIT,
        "sft",
        "data.pack_function = 'stack'\ndata.seq_len = 512\nmodel.cp = 2",
        "model.cp = 2",
        "error",
        'sft.data.pack_function ("cat") must be "stack" while sft.model.cp (2) is above 1',
    ),
    (
        MERGED,
        "rl",
        "max_async_level = 1\nmax_steps = 20",
        "max_async_level = 1\nmax_steps = 20\norchestrator.max_steps = 5",
        "warning",
        "orchestrator.max_steps (5) is not read, since the shared max_steps (20) goes before it",
    ),
    (MERGED, "rl", "[wandb]", "wandb = { offline = true, shared = true }", "error", "needs a connection"),
    (
        MERGED,
        "rl",
        "max_async_level = 1",
        "max_async_level = 2\nweight_broadcast.type = 'nccl'\n[deployment]\nnum_train_gpus = 2",
        "error",
        "must be 1 while trainer.weight_broadcast.type is nccl",
    ),
    (
        MERGED,
        "rl",
        "trainer.model.lora = {}",
        (
            "trainer.model.lora = {}\n[trainer.weight_broadcast]\ntype "
            "= 'nccl'\n[orchestrator.weight_broadcast]\ntype = 'nccl'"
        ),
        "error",
        "(nccl) cannot carry trainer.model.lora",
    ),
    (
        MERGED,
        "rl",
        "",
        "trainer.weight_broadcast.type = 'nccl'\ndeployment.num_infer_gpus = 0",
        "error",
        "needs at least 2 GPUs",
    ),
    (
        MERGED,
        "rl",
        "trainer.model.optim_cpu_offload = true",
        "trainer.model = { fsdp_cpu_offload = true, optim_cpu_offload = true }",
        "error",
        "cannot be used together: set trainer.model.optim_cpu_offload = false",
    ),
    (
        MERGED,
        "rl",
        "max_steps = 5",
        "max_steps = 5\n[trainer.wandb]",
        "warning",
        "[trainer.wandb] needs [orchestrator.wandb] too",
    ),
    (
        MERGED,
        "rl",
        "seq_len = 512",
        "seq_len = 512\ntrainer.model.seq_len = 1024",
        "warning",
        "are both set, to different values",
    ),
]
GROUPED = "rollouts_per_example = 16\n"
NEEDED = {
    (MERGED, "rl"): "orchestrator.rollouts_per_example = 16\ntrainer.optim.lr = 1e-6\n",
    (SPLIT, "orchestrator"): GROUPED,
}
"""What goes before, for both tables to be there and batches to be whole."""


@pytest.mark.parametrize(
    ("generation", "role", "good", "bad", "severity", "words"), OLDER, ids=map(str, range(len(OLDER)))
)
def test_rule_of_an_older_generation(
    generation: str, role: str, good: str, bad: str, severity: str, words: str
) -> None:
    start = NEEDED.get((generation, role), "")
    assert told(generation, **{role: start + good}) == []
    found = told(generation, **{role: start + bad})
    assert any(words in problem.message and problem.severity == severity for problem in found), found


SOUND = {"trainer": "", "orchestrator": GROUPED, "inference": ""}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"trainer": "max_steps = 20"}, "trainer.max_steps (20) and orchestrator.max_steps (not set)"),
        ({"trainer": "max_async_level = 2"}, "trainer.max_async_level (2) and orchestrator."),
        ({"trainer": "output_dir = 'a'"}, 'trainer.output_dir ("a") and orchestrator.output_dir ("outputs")'),
        ({"trainer": "[model]\nname = 'm'\n"}, "trainer.model.name"),
        ({"trainer": "[ckpt]"}, "[trainer.ckpt] needs [orchestrator.ckpt] too"),
        (
            {"orchestrator": "rollouts_per_example = 16\n[ckpt]"},
            "[orchestrator.ckpt] needs [trainer.ckpt] too",
        ),
        (
            {"trainer": "ckpt.interval = 5", "orchestrator": "rollouts_per_example = 16\nckpt.interval = 6"},
            "and orchestrator.ckpt.interval (6) must be the same: set both to 5 or 6",
        ),
        (
            {
                "trainer": "wandb.project = 'a'",
                "orchestrator": "rollouts_per_example = 16\nwandb.project = 'b'",
            },
            "wandb.project",
        ),
        ({"inference": "[model]\nname = 'm'\n"}, "inference.model.name"),
        ({"inference": "server.port = 8001"}, "must name the port of inference.server.port (8001)"),
        (
            {"inference": "weight_broadcast.type = 'nccl'"},
            'inference.weight_broadcast.type ("nccl") and orchestrator.weight_broadcast.type ("filesystem")',
        ),
    ],
    ids=map(str, range(11)),
)
def test_rule_between_three_files(changed: dict[str, str], words: str) -> None:
    assert told(SPLIT, **SOUND) == []
    (found,) = told(SPLIT, **{**SOUND, **changed})
    assert words in found.message


@pytest.mark.parametrize(
    "text",
    [
        "trainer = {}\norchestrator.seq_len = 8192\ntrainer_gpu_ids = [1]",
        "orchestrator = {}\n[trainer.model]\nname = 'Jackmin108/Qwen3-30B-A3B-Fast'",
    ],
)
def test_what_an_early_file_may_say_is_not_refused(text: str) -> None:
    assert [each.text for each in told(MERGED, rl=text) if each.severity == "error"] == []


@pytest.mark.parametrize(
    ("generation", "era"), [(SPLIT, "era_a"), (MERGED, "era_b"), (CURRENT, "era_c"), (CURRENT, "era_d")]
)
def test_real_files_are_sound(generation: str, era: str) -> None:
    names = {"train": "trainer", "orch": "orchestrator", "infer": "inference"}
    files = {names.get(path.stem, path.stem): path.read_text() for path in (FIXTURES / era).glob("*.toml")}
    assert [each.text for each in told(generation, **files) if "renderer" not in (each.key or "")] == []


ODD: tuple[Any, ...] = (
    0,
    -1,
    7,
    0.5,
    "64",
    "None",
    "",
    True,
    [],
    ["a"],
    {},
    {"a": 1},
    [{"a": 1}],
    [3],
    float("nan"),
    10**30,
)


def _holding(place: str, value: object) -> dict[str, Any]:
    """A config with that value there, in the first entry of each array on the way."""
    name, _, below = place.partition(".")
    held = _holding(below, value) if below else value
    return {name.removesuffix("[]"): [held] if name.endswith("[]") else held}


@pytest.mark.parametrize(
    ("generation", "role"),
    [
        (CURRENT, "rl"),
        (CURRENT, "sft"),
        (MERGED, "rl"),
        (SPLIT, "trainer"),
        (SPLIT, "orchestrator"),
        (SPLIT, "inference"),
    ],
)
def test_nothing_that_a_file_may_hold_breaks_the_check(generation: str, role: str) -> None:
    """Nor the defaults and figures."""
    schema = snapshots(generation, role)[-1]
    known = framework(generation).with_schemas({role: schema})
    for at, place in enumerate(sorted(schema.keys)):
        if at % 7 == 0:
            data = _holding(place, ODD[at // 7 % len(ODD)])
            files = {role: ConfigFile(role, "/x.toml", data)}
            assert all(problem.message for problem in known.check(files))
            known.derive(files)


@pytest.mark.parametrize(
    ("base", "name", "edits", "expected"),
    [
        (C_RL, "orchestrator.batch_size", {"orchestrator.batch_size": GONE}, 128),
        (C_RL, "orchestrator.batch_size",
         {"orchestrator.batch_size": GONE, "orchestrator.token_batch_size": 9}, None),
        (C_RL, "orchestrator.seq_len", {"orchestrator.seq_len": 32}, 32),
        (C_RL, "inference.backend_port", {"inference": {"server": {"port": 8005}}}, 8105),
        (C_RL, "inference.vllm.data_parallel_size", {"deployment": {"num_infer_gpus": 4}}, 4),
        (C_RL, "inference.vllm.api_server_count", {"deployment": {"num_infer_gpus": 4}}, 4),
        (C_RL, "inference.vllm.data_parallel_size",
         {"deployment": {"num_infer_gpus": 4}, "inference": {"vllm": {"tensor_parallel_size": 2}}}, 2),
        (C_RL, "orchestrator.num_train_workers",
         {"deployment": {"num_train_gpus": 4}, "trainer.model": {"cp": 2}}, 2),
        (C_RL, "orchestrator.pad_to_multiple_of", {"trainer.model": {"cp": 2}}, 2),
        (C_RL, "weight_broadcast.type", {}, "nccl"),
        (C_RL, "weight_broadcast.type", {"inference": GONE}, "filesystem"),
        (C_RL, "weight_broadcast.type", {"trainer.model": {"lora": {}}}, "filesystem"),
        (C_RL, "trainer.weight_broadcast.type", {}, "nccl"),
        (C_RL, "inference.vllm.enable_lora", {"trainer.model": {"lora": {"rank": 12}}}, True),
        (C_RL, "inference.vllm.max_lora_rank", {"trainer.model": {"lora": {"rank": 12}}}, 16),
        (C_RL, "orchestrator.model.lora.rank", {"trainer.model": {"lora": {"rank": 12}}}, 12),
        (C_RL, "trainer.optim.betas2", {"trainer.optim": {"type": "muon"}}, 0.95),
        (C_RL, "rollout_transport.type", {"trainer.rollout_transport": {"type": "filesystem"}}, "filesystem"),
        (C_RL, f"{SOURCE}.0.group_size", {}, 16),
        (C_RL, f"{SOURCE}.0.group_size", {f"{SOURCE}.0.group_size": 4}, 4),
        (C_RL, "trainer.model.ac.freq", {}, 1),
        (C_RL, "trainer.model.ac.freq", {"trainer.model": {"ac": "None"}}, None),
        (C_RL, "orchestrator.concurrency.max_inflight",
         {"orchestrator.concurrency": {"max_inflight": "None"}}, None),
        (C_SFT, "sft.weight_broadcast.type", {}, "nccl"),
        (C_SFT, "sft.weight_broadcast.type", {"inference": GONE}, "filesystem"),
        (D_RL, f"{SOURCE}.0.group_size", {}, 16),
        (D_RL, f"{SOURCE}.0.sampling.temperature",
         {"orchestrator.train.sampling": {"temperature": 0.7}}, 0.7),
    ],
)  # fmt: skip
def test_default_follows_from_other_values(
    base: str, name: str, edits: dict[str, Any], expected: object
) -> None:
    assert framework(CURRENT).values(files_of(base, edits))[name] == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "orchestrator.max_inflight_rollouts",
            "max_async_level = 1\norchestrator.oversampling_factor = 2",
            256,
        ),
        ("orchestrator.max_inflight_rollouts", "max_async_level = 1\norchestrator.batch_size = 64", 64),
        (
            "orchestrator.batch_size",
            "orchestrator.token_batch_size = 9\norchestrator.max_inflight_rollouts = 8",
            None,
        ),
        ("inference.parallel.dp", "deployment.num_infer_gpus = 4\n[inference.parallel]\ntp = 2", 2),
        ("trainer.ckpt.interval", "ckpt.interval = 5", 5),
    ],
)
def test_default_of_an_older_generation(name: str, text: str, expected: object) -> None:
    assert framework(MERGED).values(texts(rl=NEEDED[MERGED, "rl"] + text))[name] == expected


def test_router_needs_a_port_for_its_metrics() -> None:
    """The real one, of August 2026, ends with an overflow."""
    client = {"base_url": "http://localhost:50000/v1"}
    data = {
        "trainer": {},
        "orchestrator": {"model": {"client": client}},
        "inference": {"server": {"port": 50000}},
    }
    (problem,) = [
        each
        for each in framework(CURRENT).check({"rl": ConfigFile("rl", "/rl.toml", data)})
        if each.severity == "error"
    ]
    assert "no port for the metrics of the router, which would be 71000: lower it by 5465" in problem.message


def test_rules_follow_the_name_that_the_file_uses() -> None:
    """One release takes both names of the group size."""
    schema = next(each for each in snapshots(MERGED, "rl") if each.has("orchestrator.group_size")
                  and each.has("orchestrator.rollouts_per_example"))  # fmt: skip
    for name in ("group_size", "rollouts_per_example"):
        data = {"trainer": {}, "orchestrator": {name: 7}}
        found = (
            framework(MERGED).with_schemas({"rl": schema}).check({"rl": ConfigFile("rl", "/rl.toml", data)})
        )
        (problem,) = [each for each in found if each.severity == "error"]
        assert f"must be divisible by orchestrator.{name} (7)" in problem.message
        assert problem.instead == {f"orchestrator.{name}": "4 or 8"}
