from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rltui.core.config_report import Problem
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.prime_rl.merged import PRIME_RL_MERGED

ERA_B = Path(__file__).parents[2] / "data" / "prime_rl" / "era_b"
GROUP = "orchestrator.rollouts_per_example = 16\ntrainer.optim.lr = 1e-6\n"
TWO = GROUP + "[inference]\n"


def of(**texts: str) -> ConfigFiles:
    return {role: ConfigFile(role, f"/c/{role}.toml", tomllib.loads(text)) for role, text in texts.items()}


def problems(**texts: str) -> list[Problem]:
    return [problem for problem in PRIME_RL_MERGED.check(of(**texts)) if problem.severity != "hint"]


@pytest.mark.parametrize("name", ["rl", "sft"])
def test_files_of_the_time_are_sound(name: str) -> None:
    assert problems(**{name: (ERA_B / f"{name}.toml").read_text()}) == []


@pytest.mark.parametrize(
    ("good", "bad", "severity", "words"),
    [
        (
            "orchestrator.batch_size = 96",
            "orchestrator.batch_size = 100",
            "error",
            "orchestrator.rollouts_per_example (16): nearest valid batch_size is 96 or 112",
        ),
        (
            "orchestrator.token_batch_size = 65536\norchestrator.max_inflight_rollouts = 64",
            "orchestrator.token_batch_size = 65536",
            "error",
            (
                "max_inflight_rollouts must be set when orchestrator.token_batch_size (65536) is: "
                "at least orchestrator.rollouts_per_example (16), for example 32"
            ),
        ),
        (
            "orchestrator.batch_size = 64",
            (
                "orchestrator.batch_size = 64\norchestrator.token_batch_size = 65536\n"
                "orchestrator.max_inflight_rollouts = 64"
            ),
            "error",
            "set exactly one of orchestrator.batch_size (64) or orchestrator.token_batch_size (65536)",
        ),
        (
            "orchestrator.oversampling_factor = 2",
            (
                "orchestrator.token_batch_size = 65536\norchestrator.max_inflight_rollouts = 64\n"
                "orchestrator.oversampling_factor = 2"
            ),
            "error",
            "orchestrator.oversampling_factor (2) can only be set when orchestrator.batch_size is set",
        ),
        (
            "orchestrator.oversampling_factor = 2\norchestrator.max_inflight_rollouts = 256",
            "orchestrator.oversampling_factor = 2\norchestrator.max_inflight_rollouts = 255",
            "error",
            "conflicts with orchestrator.oversampling_factor (2) * orchestrator.batch_size (128)",
        ),
        (
            "orchestrator.max_inflight_rollouts = 128",
            "orchestrator.max_inflight_rollouts = 64",
            "warning",
            "orchestrator.max_inflight_rollouts (64) is less than orchestrator.batch_size (128)",
        ),
        (
            "orchestrator.token_batch_size = 99\norchestrator.max_inflight_rollouts = 16",
            "orchestrator.token_batch_size = 99\norchestrator.max_inflight_rollouts = 8",
            "error",
            "orchestrator.rollouts_per_example (16): nearest valid max_inflight_rollouts is 16",
        ),
        (
            "orchestrator.max_concurrent = 16",
            "orchestrator.max_concurrent = 15",
            "error",
            "orchestrator.max_concurrent (15) must be at least orchestrator.rollouts_per_example (16)",
        ),
        (
            "seq_len = 4096",
            "orchestrator.seq_len = 4096",
            "error",
            "trainer.model.seq_len (2048) must be at least orchestrator.seq_len (4096)",
        ),
        (
            "orchestrator.sampling.temp_scheduler = { total_steps = 9 }",
            "orchestrator.sampling = { temperature = 1.0, temp_scheduler = { total_steps = 9 } }",
            "error",
            "cannot be used together",
        ),
        (
            "orchestrator.max_steps = 9\ntrainer.max_steps = 9\n[orchestrator.sampling.temp_scheduler]",
            "max_steps = 9\n[orchestrator.sampling.temp_scheduler]",
            "error",
            "temp_scheduler.total_steps must be set while orchestrator.max_steps is not",
        ),
        (
            "orchestrator.buffer = { easy_threshold = 0.9, hard_threshold = 0.1 }",
            "orchestrator.buffer = { easy_threshold = 0.1, hard_threshold = 0.9 }",
            "error",
            "hard_threshold (0.9) must be less than orchestrator.buffer.easy_threshold (0.1)",
        ),
        (
            "orchestrator.buffer.skip_verification = true",
            "orchestrator.buffer = { skip_verification = true, online_difficulty_filtering = true }",
            "error",
            "without it there are no rewards",
        ),
        (
            "trainer.loss.token_mask_low = 0.5",
            "trainer.loss.token_mask_low = 9.0",
            "error",
            "trainer.loss.token_mask_low (9) must be less than trainer.loss.token_mask_high (8)",
        ),
        (
            "orchestrator.max_steps = 9\ntrainer.max_steps = 9",
            "orchestrator.max_steps = 9",
            "error",
            (
                "trainer.max_steps (not set) and orchestrator.max_steps (9) must be the same: "
                "remove both and set max_steps to 9"
            ),
        ),
        (
            "max_steps = 20\norchestrator.max_steps = 20",
            "max_steps = 20\norchestrator.max_steps = 5",
            "warning",
            "orchestrator.max_steps (5) is not read, since the shared max_steps (20) goes before it",
        ),
        (
            "model.name = 'a'\ntrainer.model.name = 'a'",
            "model.name = 'a'\ntrainer.model.name = 'b'",
            "warning",
            'trainer.model.name ("b") is not read, since the shared model.name ("a") goes before it',
        ),
        (
            "trainer.model.name = 'a'\norchestrator.model.name = 'a'",
            "trainer.model.name = 'a'",
            "error",
            'trainer.model.name ("a") and orchestrator.model.name ("Qwen/Qwen3-0.6B") must be the same',
        ),
        (
            "[ckpt]",
            "[trainer.ckpt]",
            "error",
            "[trainer.ckpt] needs [orchestrator.ckpt] too",
        ),
        (
            "ckpt.interval = 5",
            "trainer.ckpt.interval = 5\norchestrator.ckpt.interval = 6",
            "error",
            "remove both and set ckpt.interval to 5 or 6",
        ),
        ("[wandb]", "[trainer.wandb]", "error", "[trainer.wandb] needs [orchestrator.wandb] too"),
        ("seq_len = 4096", "max_model_len = 4096", "warning", "set inference.model.max_model_len"),
        (
            "wandb = { offline = true, shared = false }",
            "wandb = { offline = true, shared = true }",
            "error",
            "does not work with wandb.offline",
        ),
        ("[wandb]", "wandb.offline = true", "warning", "only with wandb.shared = false"),
        (
            "trainer.weight_broadcast.type = 'nccl'\norchestrator.weight_broadcast.type = 'nccl'",
            "weight_broadcast.type = 'nccl'\n[trainer.model.lora]",
            "error",
            "[trainer.model.lora] does not work while trainer.weight_broadcast.type is nccl",
        ),
        (
            "weight_broadcast.type = 'nccl'",
            "weight_broadcast.type = 'nccl'\ndeployment.num_infer_gpus = 0",
            "error",
            "trainer.weight_broadcast.type (nccl) needs at least 2 GPUs, not 1",
        ),
        (
            "trainer.model.fsdp_cpu_offload = true",
            "trainer.model = { fsdp_cpu_offload = true, optim_cpu_offload = true }",
            "error",
            "trainer.model.fsdp_cpu_offload and trainer.model.optim_cpu_offload cannot be used together",
        ),
        (
            "trainer.model.optim_cpu_offload = true",
            "trainer.max_concurrent_runs = 2\ntrainer.model.optim_cpu_offload = true",
            "error",
            "does not work while trainer.max_concurrent_runs (2) is above 1",
        ),
        (
            "trainer.model = { cp = 2, attn = 'flash_attention_2' }",
            "trainer.model = { cp = 2, attn = 'sdpa' }",
            "error",
            "trainer.model.cp (2) needs flash attention",
        ),
        (
            "trainer.model = { attn = 'fa4', impl = 'custom' }",
            "trainer.model = { attn = 'fa4' }",
            "error",
            'trainer.model.attn (fa4) needs trainer.model.impl to be "custom", not "auto"',
        ),
        (
            "trainer.model = { ep = 2 }",
            "trainer.model = { ep = 2, impl = 'hf' }",
            "error",
            'trainer.model.ep (2) needs trainer.model.impl to be "custom" or "auto", not "hf"',
        ),
        (
            "trainer.model = { ep = 2, ep_comm_backend = 'deepep' }",
            "trainer.model.ep_comm_backend = 'deepep'",
            "error",
            "needs trainer.model.ep above 1",
        ),
        (
            "trainer.model.fused_lm_head_chunk_size = 'auto'",
            "trainer.model.fused_lm_head_chunk_size = 256",
            "error",
            "must be at least 512",
        ),
        (
            "trainer.trace_path = 't'\ntrainer.max_steps = 5\norchestrator.max_steps = 5",
            "max_steps = 5\ntrainer.trace_path = 't'",
            "error",
            "trainer.trace_path needs trainer.max_steps (not set) below 10",
        ),
        (
            "orchestrator.teacher_model.model.name = 'm'\ntrainer.loss.teacher_tau = 0.5",
            "trainer.loss.teacher_tau = 0.5",
            "error",
            "trainer.loss.teacher_tau (0.5) needs a teacher",
        ),
        (
            "[trainer.loss]\ntype = 'custom'\nimport_path = 'a.b'",
            "trainer.loss.type = 'custom'",
            "error",
            "needs trainer.loss.import_path",
        ),
        ("trainer.heartbeat.url = 'u'", "[trainer.heartbeat]", "error", "needs trainer.heartbeat.url"),
        (
            "deployment = { num_infer_gpus = 4, num_train_gpus = 4 }",
            "deployment = { num_infer_gpus = 4, num_train_gpus = 5 }",
            "error",
            (
                "deployment.num_train_gpus (5) + deployment.num_infer_gpus (4) = 9 GPUs exceed "
                "deployment.gpus_per_node (8)"
            ),
        ),
        (
            "deployment = { type = 'multi_node', num_train_nodes = 1, num_infer_nodes = 1 }\n[slurm]",
            "deployment = { type = 'multi_node', num_train_nodes = 1, num_infer_nodes = 1 }",
            "error",
            "deployment.type (multi_node) needs [slurm]",
        ),
        (
            "inference_gpu_ids = [0]\ntrainer_gpu_ids = [0]\nmodel.name = 'm'",
            "inference_gpu_ids = [0]\ndeployment.num_train_gpus = 1",
            "error",
            "no release reads both",
        ),
        ("", "orchestrator.concurrency.max_inflight = 64", "warning", "before, it was orchestrator.max_inf"),
        ("", "orchestrator.batchsize = 8", "error", "did you mean orchestrator.batch_size?"),
        ("", "trainer.optim.lrr = 8", "warning", "trainer.optim.lrr is ignored without a word"),
        (
            "orchestrator.env = [{ id = 'x', args = { a = { b = 1 } } }]",
            "orchestrator.env = [{ idd = 'x' }]",
            "error",
            "unknown key orchestrator.env.0.idd",
        ),
    ],
)
def test_rules_of_rl(good: str, bad: str, severity: str, words: str) -> None:
    assert problems(rl=GROUP + good) == []
    found = problems(rl=GROUP + bad)
    assert any(words in problem.message and problem.severity == severity for problem in found)
    assert {problem.file for problem in found} == {"/c/rl.toml"}


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        (
            "server.port = 8000",
            "server.port = 8001",
            (
                "orchestrator.client.base_url (http://localhost:8000/v1) must name the port of "
                "inference.server.port (8001)"
            ),
        ),
        ("gpu_memory_utilization = 0.5", "gpu_memory_utilization = 1.5", "vLLM refuses to start"),
        (
            "parallel.tp = 1",
            "parallel.tp = 2",
            (
                "deployment.num_infer_gpus (1 GPUs) must be divisible by inference.parallel.tp (2): "
                "nearest valid number of GPUs is 2"
            ),
        ),
        ("max_lora_rank = 512", "max_lora_rank = 513", "the largest allowed is 512"),
    ],
)
def test_rules_of_inference(good: str, bad: str, words: str) -> None:
    assert problems(rl=TWO + good) == []
    (found,) = problems(rl=TWO + bad)
    assert found.severity == "error"
    assert words in found.message


def test_the_group_size_may_have_the_name_of_summer() -> None:
    text = "trainer = {}\n[orchestrator]\ngroup_size = "
    figures = {item.name: item.value for item in PRIME_RL_MERGED.derive(of(rl=text + "8"))}
    assert figures["prompts per step"] == 16
    (found,) = problems(rl=text + "7")
    assert "must be divisible by orchestrator.rollouts_per_example (7)" in found.message


def test_both_tables_must_be_there() -> None:
    (found,) = [problem for problem in problems(rl="[trainer]\n") if problem.severity == "error"]
    assert found.message == "[orchestrator] must be there, even if it is empty"


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        (
            "data.batch_size = 32\ndata.micro_batch_size = 4",
            "data.batch_size = 2\ndata.micro_batch_size = 4",
            "sft.data.batch_size (2) must be at least sft.data.micro_batch_size (4)",
        ),
        (
            "model.cp = 2",
            "model.cp = 2\ndata.micro_batch_size = 2",
            "sft.data.micro_batch_size (2) must be 1",
        ),
        ("model.cp = 2", "model.cp = 2\ndata.seq_len = 129", "must be divisible by sft.model.cp (2)"),
        ("model.cp = 2", "model.cp = 2\ndata.pack_function = 'stack'\ndata.seq_len = 512", 'must be "cat"'),
        ("deployment.num_gpus = 4", "deployment.num_gpus = 3", "nearest valid batch_size is 126 or 129"),
        ("deployment.num_gpus = 8", "deployment.num_gpus = 16", "exceeds sft.deployment.gpus_per_node (8)"),
        (
            "model.fused_lm_head_chunk_size = 'disabled'",
            "model.fused_lm_head_chunk_size = 1024",
            "cannot be a number for SFT",
        ),
        ("val.data.name = 'd'", "val.interval = 5", "[sft.val] needs sft.val.data"),
    ],
)
def test_rules_of_sft(good: str, bad: str, words: str) -> None:
    assert problems(sft=good) == []
    found = problems(sft=bad)
    assert any(words in problem.message and problem.severity == "error" for problem in found)


def test_files_from_before_the_trainer_had_a_length_pass() -> None:
    early = "trainer_gpu_ids = [1]\norchestrator.seq_len = 8192\n"
    (found,) = problems(rl=early + GROUP)
    assert found.severity == "warning"


def test_a_mapped_model_may_have_two_names() -> None:
    assert problems(rl=GROUP + "trainer.model.name = 'Jackmin108/Qwen3-30B-A3B-Fast'\n") == []


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        (
            "inference.model.max_model_len = 2048",
            "inference.model.max_model_len = 2047",
            "no rollout gets longer than 2047 tokens",
        ),
        (
            "orchestrator.sampling.max_tokens = 2047",
            "orchestrator.sampling.max_tokens = 2048",
            "leaves no room for a prompt within orchestrator.seq_len (2048)",
        ),
    ],
)
def test_hints(good: str, bad: str, words: str) -> None:
    assert PRIME_RL_MERGED.check(of(rl=GROUP + good)) == ()
    (found,) = PRIME_RL_MERGED.check(of(rl=GROUP + bad))
    assert found.severity == "hint"
    assert words in found.message


def test_a_number_written_as_text_counts_as_prime_rl_reads_it() -> None:
    found = problems(rl=GROUP + 'orchestrator.batch_size = "100"')
    assert [problem.severity for problem in found] == ["warning", "error"]
    assert found[0].message == "orchestrator.batch_size is read as 100: write it so"


def test_shared_values_fill_the_others() -> None:
    lines = "seq_len = 4096\nmax_steps = 20\nckpt.interval = 5\ndeployment.num_infer_gpus = 4\n"
    found = PRIME_RL_MERGED.defaults(of(rl=lines + GROUP + "[inference]\nparallel.tp = 2\n"))
    assert found["orchestrator.seq_len"] == found["trainer.model.seq_len"] == 4096
    assert found["trainer.max_steps"] == found["orchestrator.max_steps"] == 20
    assert found["trainer.ckpt.interval"] == found["orchestrator.ckpt.interval"] == 5
    assert found["orchestrator.max_inflight_rollouts"] == 128
    assert found["inference.parallel.dp"] == 2


def test_every_knob_explains_itself() -> None:
    names = [knob.name for knob in PRIME_RL_MERGED.knobs]
    assert len(set(names)) == len(names)
    for knob in PRIME_RL_MERGED.knobs:
        assert knob.help.endswith("."), knob.name
        assert knob.readers
        assert knob.nullable if knob.default is None else knob.fault(knob.default) is None, knob.name


def test_derive_shows_its_arithmetic() -> None:
    text = (ERA_B / "rl.toml").read_text() + "\n[deployment]\nnum_train_gpus = 2\n"
    found = {item.name: item for item in PRIME_RL_MERGED.derive(of(rl=text))}
    assert found["prompts per step"].value == 8
    assert found["rollouts in flight"].value == 128
    assert found["sampled tokens per step"].value == 128 * 128
    assert found["rollouts per micro-batch"].text == (
        "2048 tokens / 2048 of the longest rollout = 1; 16 of 128 new tokens, prompts not counted"
    )
    assert found["micro-batches per optimizer step"].text == (
        "at most 128 rollouts / 1 = 64 packed micro-batches on each of 2 ranks, at least 4"
    )


def test_derive_in_token_mode_and_for_sft() -> None:
    tokens = "orchestrator.token_batch_size = 65536\norchestrator.max_inflight_rollouts = 64\n"
    found = {item.name: item for item in PRIME_RL_MERGED.derive(of(rl=tokens + GROUP))}
    assert found["micro-batches per optimizer step"].value == 32
    sft = {item.name: item for item in PRIME_RL_MERGED.derive(of(sft="deployment.num_gpus = 4\n"))}
    assert sft["sft micro-batches per optimizer step"].value == 32
