"""Edits that bring values near each rule between knobs: each maker draws anew, sound or not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.prime_rl_configs.variants import REMOVED, Edit

Maker = Callable[[random.Random], tuple[Edit, ...]]


def some(**choices: Any) -> Maker:
    """Dotted keys with `__` for the dots → what to choose from."""

    def edits(chance: random.Random) -> tuple[Edit, ...]:
        return tuple((key.replace("__", "."), chance.choice(values)) for key, values in choices.items())

    return edits


_SIZES = (REMOVED, 1, 8, 15, 16, 64, 128, "64")
_LENGTHS = (REMOVED, 256, 1024, 2048, 4096)
_MODEL: dict[str, Any] = {
    "impl": ("hf", "custom", "auto"),
    "attn": ("flash_attention_2", "flash_attention_4", "auto"),
    "cp": (1, 2),
    "ep": ("auto", 1, 2),
    "ep_comm_backend": ("torch", "deepep"),
    "trust_remote_code": (True, False),
    "quantization": (REMOVED, {"type": "fp8"}, {"type": "mxfp8"}, {}),
    "ac": (REMOVED, "None", {"mode": "selective"}, {"freq": 2}),
    "ac_offloading": (REMOVED, "None", {}),
    "compile": (REMOVED, "None", {"fullgraph": True}),
    "fsdp_cpu_offload": (True, False),
    "optim_cpu_offload": (True, False),
    "full_offload": (REMOVED, True, False, {}, {"numa_bind": False}, "None"),
    "lora": (REMOVED, {}, {"rank": 8}, "None"),
    "vlm": (REMOVED, {"vision_encoder_attr": "a", "language_model_attr": "b"}, {"language_model_attr": "b"}),
    "optimization_dtype": ("bfloat16", "float32"),
    "reduce_dtype": ("bfloat16", "float32"),
    "cp_style": ("ring", "ulysses"),
    "fused_lm_head_token_chunk_size": (1024, "disabled", "x"),
}


def _of_model(at: str) -> Maker:
    def edits(chance: random.Random) -> tuple[Edit, ...]:
        names = chance.sample(sorted(_MODEL), chance.randint(1, 4))
        return tuple((f"{at}{name}", chance.choice(_MODEL[name])) for name in names)

    return edits


def _trainer(at: str) -> list[Maker]:
    pre = at.replace(".", "__")
    return [
        _of_model(f"{at}model."),
        _of_model(f"{at}model."),
        some(
            **{
                f"{pre}optim__type": ("adamw", "sgd", "muon", "sign_sgd", "lion", REMOVED),
                f"{pre}optim__betas1": (REMOVED, 0.8),
                f"{pre}optim__momentum": (REMOVED, 0.8),
                f"{pre}model__fsdp_cpu_offload": (True, False),
                f"{pre}model__optim_cpu_offload": (False,),
            }
        ),
        some(
            **{
                f"{pre}scheduler__type": ("constant", "linear", "cosine", REMOVED),
                f"{pre}scheduler__warmup_steps": (REMOVED, 0, 5, 60),
                f"{pre}scheduler__decay_steps": (REMOVED, 0, 50),
                "max_steps": (REMOVED, 20, 100),
            }
        ),
        some(**{f"{pre}trace_path": ("trace",), "max_steps": (REMOVED, 5, 20)}),
        some(resume__step=(REMOVED, 3), resume__dir=(REMOVED, "x/step_5", "x/latest")),
        some(**{f"{pre}ckpt": (REMOVED, {}, {"interval": 5}, {"skip_optimizer": True}, "None")}),
    ]


_UNKNOWN = ("batch_sise", "lrr", "micro-batch-size", "group-size", "seqlen", "zzz")


def _unknown(*tables: str) -> Maker:
    def edits(chance: random.Random) -> tuple[Edit, ...]:
        table = chance.choice(tables)
        key = chance.choice(_UNKNOWN)
        return ((f"{table}.{key}" if table else key, chance.choice((1, "a", True, {"b": 1}, [{"c": 1}]))),)

    return edits


_INFERENCE: list[Maker] = [
    some(
        deployment__num_infer_gpus=(0, 1, 2, 4, 6),
        deployment__num_train_gpus=(1, 2, 5),
        deployment__gpus_per_node=(REMOVED, 1, 2, 8),
        inference__vllm__tensor_parallel_size=(1, 2, 3, 4),
        inference__vllm__data_parallel_size=(REMOVED, 1, 2),
    ),
    some(
        inference__kv_cache_offload=(
            REMOVED,
            {"type": "native"},
            {"type": "native", "cpu": {"num_bytes": 9}},
            {"type": "mooncake", "cpu": {"num_bytes": 9}},
            {"cpu": {"num_bytes": 9}},
            {"type": "native", "disk": {"path": "x"}},
        ),
        inference__vllm__enable_prefix_caching=(REMOVED, True, False),
    ),
    some(
        inference__router=(REMOVED, "None", {"type": "vllm-router"}, {"type": "llm-d"}, {"policy": "x"}, {})
    ),
    some(inference__vllm__max_lora_rank=(REMOVED, 8, 9, 512, 600), inference__vllm__max_num_seq=(REMOVED, 5)),
    some(
        inference__deployment=(
            {"type": "multi_node"},
            {"type": "single_node"},
            {"type": "disaggregated"},
            {},
        ),
        slurm=(REMOVED, {}, {"time": "1"}),
    ),
    some(
        inference__env_vars=({"A": "1"}, {"A": 1}, {"CUDA_VISIBLE_DEVICES": "0"}),
        inference__server__port=(8000,),
    ),
]
RL: list[Maker] = [
    some(
        orchestrator__batch_size=_SIZES,
        orchestrator__token_batch_size=(REMOVED, REMOVED, 4096),
        orchestrator__group_size=_SIZES,
    ),
    some(
        orchestrator__batch_size=_SIZES,
        orchestrator__group_size=_SIZES,
        orchestrator__train__source__0__group_size=(REMOVED, 5, 16, 0),
    ),
    some(
        orchestrator__group_size=(4, 16),
        orchestrator__concurrency__initial_inflight=(REMOVED, 2, 8, 2000),
        orchestrator__concurrency__min_inflight=(REMOVED, 1, 64, 3000),
        orchestrator__concurrency__max_inflight=(REMOVED, 2, 32, 4096, "None"),
    ),
    some(seq_len=_LENGTHS, trainer__model__seq_len=_LENGTHS, orchestrator__seq_len=_LENGTHS),
    some(
        max_steps=(REMOVED, 20),
        trainer__max_steps=(REMOVED, 20, 30),
        orchestrator__max_steps=(REMOVED, 20, "20"),
    ),
    some(
        model__name=(REMOVED, "Qwen/Qwen3-0.6B"),
        trainer__model__name=(REMOVED, "Qwen/Qwen3-0.6B", "b/c"),
        orchestrator__model__name=(REMOVED, "Qwen/Qwen3-0.6B"),
        inference=(REMOVED, {}, {"vllm": {"model": "b/c"}}),
    ),
    some(
        rollout_transport=(
            REMOVED,
            {"type": "filesystem"},
            {"type": "zmq", "port": 6000},
            {"port": 6000},
            {},
        ),
        trainer__rollout_transport=(REMOVED, {"type": "filesystem"}, {"type": "zmq"}),
        orchestrator__rollout_transport=(REMOVED, {"type": "filesystem"}),
    ),
    some(
        weight_broadcast=(
            REMOVED,
            {"type": "nccl"},
            {"type": "filesystem"},
            {"type": "nixl"},
            {"port": 1},
            "None",
            {"type": "nccl", "quantize_in_weight_transfer": True},
            {"type": "filesystem", "port": 3},
        ),
        trainer__model__lora=(REMOVED, {}),
        trainer__model__impl=("auto", "custom"),
        inference=(REMOVED, {}, {"vllm": {"enable_eplb": True}}),
    ),
    some(
        trainer__weight_broadcast=({"type": "nccl"}, {"type": "nixl"}, {"type": "filesystem"}, {}),
        deployment__num_infer_gpus=(0, 1),
        trainer__model__lora=(REMOVED, {}),
    ),
    some(
        trainer__model__lora=(REMOVED, {"rank": 8}, {}),
        orchestrator__model__lora=({}, {"rank": 8}, {"alpha": 3}),
    ),
    some(
        ckpt=(REMOVED, {}, {"interval": 5}, {"interval": 0}, "None"),
        trainer__ckpt=(REMOVED, {}, {"interval": 7}),
        orchestrator__ckpt=(REMOVED, {"keep_last": 3}, "None", {"interval": 5}),
    ),
    some(
        monitors=(
            REMOVED,
            {},
            {"wandb": {}},
            {"wandb": {"project": "a"}},
            {"wandb": "None"},
            {"wandb": {"offline": True}},
        ),
        trainer__monitors__wandb=(REMOVED, {}, {"project": "b"}),
        orchestrator__monitors__wandb=(REMOVED, {}),
    ),
    some(
        trainer__resume=(REMOVED, {}, {"step": 3}),
        orchestrator__resume=(REMOVED, {}, {"step": 3}),
        resume=(REMOVED, REMOVED, {}, {"step": 0}),
    ),
    some(
        tokenizer=(REMOVED, {"chat_template": "x"}),
        trainer__tokenizer=(REMOVED, {"chat_template": "y"}),
        inference__vllm__chat_template=(REMOVED, "x", "y"),
    ),
    some(trainer__output_dir=(REMOVED, "outputs/run", "elsewhere"), run__name=(REMOVED, "run")),
    some(
        orchestrator__eval=(
            {},
            {"interval": 5},
            {"source": []},
            "None",
            REMOVED,
            {"source": [{"env": {"taskset": {"id": "a"}}}], "interval": 5},
        )
    ),
    some(
        orchestrator__train__source=(
            [],
            REMOVED,
            [{}],
            [{"name": "a"}],
            [{"env": {"taskset": {"id": "agg"}}}],
            [{"env": {"taskset": {"id": "a"}}}, {"env": {"taskset": {"id": "a"}}}],
            [{"env": {"taskset": {"id": "a"}}, "ratio": 0}, {"name": "b", "env": {"taskset": {"id": "a"}}}],
            [{"env": {"taskset": {"id": "a"}}, "sampling": {"temperature": "None", "x": 1}}],
            [{"env": {"taskset": {"id": "a"}}, "algo": {}}],
            [{"env": {"taskset": {"id": "a"}}, "algo": {"type": "rae"}}],
            [{"env": {"taskset": {"id": "a"}}, "grop_size": 3}],
            {"env": {}},
            [3],
        )
    ),
    some(
        orchestrator__algo=(
            {"type": "grpo"},
            {"type": "rae", "decay": 0.5},
            {"type": "grpo", "decay": 0.5},
            {"type": "ppo"},
            {},
            {"type": "grpo", "length_penalty": {"x": 1}},
        )
    ),
    some(
        trainer__env_vars=({"A": "1"}, {"A": 1}, {"WANDB_RUN_ID": "x"}),
        env_vars=({"A": "b"}, {"PRL_RUN_ID": "x"}),
    ),
    some(
        trainer__loss=(
            {"type": "ipo"},
            {"type": "ipo", "dppo_mask_low": 1.0},
            {"type": "custom"},
            {},
            {"adv_tau": 2},
            {"type": "default", "ipo_threshold": 1.0},
        )
    ),
    some(
        trainer__enable_router_replay=(True,),
        inference__kv_cache_offload=(REMOVED, {"type": "native", "cpu": {"num_bytes": 9}}),
    ),
    some(trainer=(REMOVED, {}), orchestrator=({}, {})),
    some(
        deployment=(
            {"type": "multi_node", "num_train_nodes": 1},
            {"type": "multi_node"},
            {"type": "single_node"},
            {"type": "other"},
            {"num_train_nodes": 1},
        )
    ),
    some(wandb=({"project": "a"},)),
    some(orchestrator__rollouts_per_example=(16,)),
    _unknown(
        "",
        "trainer",
        "trainer.optim",
        "trainer.model",
        "orchestrator",
        "orchestrator.train",
        "orchestrator.train.sampling",
        "inference",
        "inference.server",
        "monitors",
        "deployment",
        "ckpt",
    ),
    _unknown(
        "inference.vllm",
        "orchestrator.train.sampling.extra_body",
        "orchestrator.train.source.0",
        "orchestrator.train.source.0.env.taskset",
        "trainer.model.debug",
    ),
    *_INFERENCE,
    *_trainer("trainer."),
]
SFT: list[Maker] = [
    some(
        data__batch_size=(REMOVED, 8, 12, 32),
        data__micro_batch_size=(REMOVED, 1, 3, 4, 64),
        model__cp=(1, 1, 2),
    ),
    some(data__seq_len=(REMOVED, 127, 128), model__cp=(1, 2, 3)),
    some(
        data__subsets=(REMOVED, ["a"], ["a", "b"]),
        data__splits=(REMOVED, ["x"], ["x", "y"]),
        data__probabilities=(REMOVED, [1.0], [0.5, 0.5]),
    ),
    some(
        data=({"type": "fake"}, {"type": "fake", "name": "x"}, {"length": "fixed"}, {"type": "sft"}, {}),
        renderer=(REMOVED, {"name": "default"}, {"name": "qwen3"}, {"name": "auto"}),
    ),
    some(
        val=(
            REMOVED,
            {},
            {"data": {}},
            {"data": {"batch_size": 3, "micro_batch_size": 2}},
            {"interval": 0, "data": {}},
            {"data": {"type": "fake"}},
            {"data": {"seq_len": 127}},
        ),
        model__cp=(1, 2),
    ),
    some(eval=(REMOVED, {}, {"interval": 5}), inference=(REMOVED, {})),
    some(
        weight_broadcast=(REMOVED, {"type": "nccl"}, {"type": "filesystem"}, {"type": "nixl"}, {}),
        model__lora=(REMOVED, {}),
        eval__retrigger_on_resume=(REMOVED, True),
    ),
    some(
        eval__client__base_url=(REMOVED, "http://localhost:8000/v1", "http://localhost:9000/v1"),
        inference__server__port=(REMOVED, 8000, 9000),
    ),
    some(
        eval__concurrency__initial_inflight=(REMOVED, 5, 5000),
        eval__concurrency__min_inflight=(REMOVED, 2000),
    ),
    some(inference__vllm__model=(REMOVED, "b/c"), model__name=("Qwen/Qwen3-0.6B", "b/c")),
    some(
        deployment__num_eval_gpus=(REMOVED, 2, 8),
        deployment__num_train_gpus=(1, 4, 9),
        deployment__num_infer_gpus=(REMOVED,),
    ),
    some(env_vars=({"A": "1"}, {"A": 1}, {"CUDA_VISIBLE_DEVICES": "0"})),
    some(deployment__num_gpus=(1,)),
    some(data__pack_function=("cat",)),
    _unknown(
        "", "data", "optim", "scheduler", "model", "val", "eval", "deployment", "inference.vllm", "monitors"
    ),
    *_INFERENCE,
    *_trainer(""),
]
MAKERS = {"rl": RL, "sft": SFT}
