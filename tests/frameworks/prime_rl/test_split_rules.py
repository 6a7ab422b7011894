from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rltui.core.config_report import Problem
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.prime_rl.split import PRIME_RL_SPLIT

ERA_A = Path(__file__).parents[2] / "data" / "prime_rl" / "era_a"
ROLES = {"train": "trainer", "orch": "orchestrator", "infer": "inference", "sft": "sft"}


def of(**texts: str) -> ConfigFiles:
    return {role: ConfigFile(role, f"/c/{role}.toml", tomllib.loads(text)) for role, text in texts.items()}


def problems(**texts: str) -> list[Problem]:
    return [problem for problem in PRIME_RL_SPLIT.check(of(**texts)) if problem.severity != "hint"]


def test_files_of_the_time_are_sound() -> None:
    files = {ROLES[path.stem]: path.read_text() for path in ERA_A.glob("*.toml")}
    assert len(files) == 4
    assert problems(**files) == []


GROUPED = "rollouts_per_example = 16\n"


@pytest.mark.parametrize(
    ("role", "good", "bad", "severity", "words"),
    [
        (
            "orchestrator", "batch_size = 96", "batch_size = 100", "error",
            ("orchestrator.batch_size (100) must be divisible by orchestrator.rollouts_per_example (16): "
            "nearest valid batch_size is 96 or 112"),
        ),
        (
            "orchestrator", "oversampling_factor = 2", "oversampling_factor = 0.5", "error",
            "orchestrator.oversampling_factor must be a number ≥ 1, not 0.5: the smallest allowed is 1",
        ),
        (
            "orchestrator", "max_concurrent = 16", "max_concurrent = 8", "warning",
            "orchestrator.max_concurrent (8) must be at least orchestrator.rollouts_per_example (16)",
        ),
        (
            "orchestrator", "max_async_level = 1\nweight_broadcast.type = 'nccl'",
            "max_async_level = 2\nweight_broadcast.type = 'nccl'", "error",
            "orchestrator.max_async_level (2) must be 1 while orchestrator.weight_broadcast.type is nccl",
        ),
        (
            "orchestrator", "", "token_batch_size = 8192", "error",
            "unknown key orchestrator.token_batch_size: it came in February 2026",
        ),
        ("orchestrator", "", "group_size = 8", "error", "here it is rollouts_per_example"),
        ("orchestrator", "", "batchsize = 8", "error", "did you mean batch_size?"),
        ("orchestrator", "", "micro_batch_size = 8", "warning", "went away in autumn 2025"),
        ("orchestrator", "", "env = 'x'", "error", "orchestrator.env must be a list of tables"),
        (
            "orchestrator", "[[env]]\nid = 'x'\nargs = { any = { thing = 1 } }", "[[env]]\nidd = 'x'",
            "error",
            "unknown key orchestrator.env.0.idd: did you mean env.id?",
        ),
        (
            "inference", "gpu_memory_utilization = 1", "gpu_memory_utilization = 1.5", "error",
            "inference.gpu_memory_utilization (1.5) must be greater than 0 and at most 1: vLLM refuses",
        ),
        (
            "inference", "parallel.dp = 2", "parallel.dp = 2\nweight_broadcast.type = 'nccl'", "error",
            "inference.parallel.dp (2) must be 1",
        ),
        ("inference", "", "max_num_seqs = 64", "error", "go on the command line of inference"),
        (
            "trainer", "model.impl = 'hf'\nmodel.trust_remote_code = true",
            "model.impl = 'custom'\nmodel.trust_remote_code = true", "error",
            'trainer.model.trust_remote_code (true) needs trainer.model.impl to be "hf", not "custom"',
        ),
        (
            "trainer", "model.load_using_meta = true\nmodel.debug.random_init = true",
            "model.debug.random_init = true", "error",
            "trainer.model.debug.random_init needs trainer.model.load_using_meta",
        ),
        (
            "trainer", "optim.type = 'muon'", "optim.type = 'muon'\nmodel.fsdp_cpu_offload = true", "error",
            "trainer.optim.type (muon) does not work with trainer.model.fsdp_cpu_offload",
        ),
        (
            "trainer", "trace_path = 't'\nmax_steps = 9", "trace_path = 't'\nmax_steps = 10", "error",
            "trainer.trace_path needs trainer.max_steps (10) below 10: set it to 9 or less",
        ),
        (
            "trainer", "[ckpt.weights]\nsave_adapter_separately = true\n[model.experimental.lora]",
            "[ckpt.weights]\nsave_adapter_separately = true", "error",
            "trainer.ckpt.weights.save_adapter_separately needs trainer.model.experimental.lora",
        ),
        (
            "trainer", "[weight_broadcast]\nadapter_only = true\n[model.experimental.lora]",
            "[weight_broadcast]\nadapter_only = true", "error",
            "trainer.weight_broadcast.adapter_only needs trainer.model.experimental.lora",
        ),
        (
            "trainer", "weight_broadcast.type = 'nccl'",
            "[weight_broadcast]\ntype = 'nccl'\nadapter_only = true\n[model.experimental.lora]", "error",
            "trainer.weight_broadcast.adapter_only does not work with nccl",
        ),
        (
            "trainer", "optim.lr = 1e-5", "optim.lrr = 1", "warning",
            "trainer.optim.lrr is ignored without a word: did you mean optim.lr?",
        ),
        (
            "trainer", "scheduler.type = 'linear'\nscheduler.warmup_steps = 5", "scheduler.warmup_steps = 5",
            "warning",
            'trainer.scheduler.warmup_steps is ignored while trainer.scheduler.type is "constant"',
        ),
        (
            "trainer", "max_steps = 20\nscheduler.type = 'cosine'",
            "max_steps = 10\nscheduler.type = 'cosine'", "warning", "never reaches its full size",
        ),
        ("trainer", "", "model.seq_len = 2048", "error", "seq_len of the orchestrator decides"),
        ("trainer", "ckpt.keep = 2", "ckpt.keep_last = 2", "error", "here it is keep"),
        (
            "sft", "data.micro_batch_size = 4", "data.micro_batch_size = 3", "error",
            ("sft.data.batch_size (128) must be divisible by sft.data.micro_batch_size (3): "
            "nearest valid batch_size is 126 or 129"),
        ),
        (
            "sft", "data.pack_function = 'stack'\ndata.seq_len = 512",
            "data.pack_function = 'stack'\ndata.seq_len = 500", "error",
            ("sft.data.seq_len (500) must be divisible by 256 while sft.data.pack_function is stack: "
            "nearest valid seq_len is 256 or 512"),
        ),
        (
            "sft", "data.pack_function = 'stack'\ndata.seq_len = 512\nmodel.cp = 2", "model.cp = 2", "error",
            'sft.data.pack_function ("cat") must be "stack" while sft.model.cp (2) is above 1',
        ),
        (
            "sft", "data.subsets = ['a', 'b']\ndata.splits = ['c', 'd']",
            "data.subsets = ['a', 'b']\ndata.splits = ['c']", "error",
            "sft.data.subsets has 2 elements and sft.data.splits has 1: name one for each",
        ),
        ("sft", "", "data.micro-batch-size = 4", "warning", "did you mean data.micro_batch_size?"),
    ],
)  # fmt: skip
def test_rules_of_one_file(role: str, good: str, bad: str, severity: str, words: str) -> None:
    start = GROUPED if role == "orchestrator" else ""
    assert problems(**{role: start + good}) == []
    (found,) = problems(**{role: start + bad})
    assert (found.severity, found.file) == (severity, f"/c/{role}.toml")
    assert words in found.message


MODEL = "[model]\nname = 'm'\n"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"trainer": "max_steps = 20"}, "trainer.max_steps (20) and orchestrator.max_steps (not set)"),
        ({"trainer": "max_async_level = 2"}, "trainer.max_async_level (2) and orchestrator."),
        ({"trainer": "output_dir = 'a'"}, 'trainer.output_dir ("a") and orchestrator.output_dir ("outputs")'),
        ({"trainer": MODEL}, "trainer.model.name"),
        ({"trainer": "[ckpt]"}, "[trainer.ckpt] needs [orchestrator.ckpt] too"),
        ({"orchestrator": GROUPED + "[ckpt]"}, "[orchestrator.ckpt] needs [trainer.ckpt] too"),
        (
            {"trainer": "ckpt.interval = 5", "orchestrator": GROUPED + "ckpt.interval = 6"},
            "and orchestrator.ckpt.interval (6) must be the same: set both to 5 or 6",
        ),
        (
            {"trainer": "wandb.project = 'a'", "orchestrator": GROUPED + "wandb.project = 'b'"},
            "wandb.project",
        ),
        ({"inference": MODEL}, "inference.model.name"),
        ({"inference": "server.port = 8001"}, "must name the port of inference.server.port (8001)"),
        (
            {"inference": "weight_broadcast.type = 'nccl'"},
            'inference.weight_broadcast.type ("nccl") and orchestrator.weight_broadcast.type ("filesystem")',
        ),
    ],
)  # fmt: skip
def test_rules_between_files(texts: dict[str, str], words: str) -> None:
    sound = {"trainer": "", "orchestrator": GROUPED, "inference": ""}
    assert problems(**sound) == []
    (found,) = problems(**{**sound, **texts})
    assert words in found.message


def test_a_mapped_model_may_have_two_names() -> None:
    trainer = "[model]\nname = 'Jackmin108/Qwen3-30B-A3B-Fast'\n"
    assert problems(trainer=trainer, orchestrator=GROUPED) == []


def test_the_word_none_stands_for_no_value() -> None:
    assert problems(trainer="[model]\nac = 'None'\n[ckpt]\nresume_step = 'None'\n") == []
    (found,) = problems(trainer="max_steps = 'None'")
    assert found.message == 'trainer.max_steps must be a whole number, not "None"'
    (found,) = problems(trainer="model.name = 'None'")
    assert found.message == 'trainer.model.name must be text, and "None" stands for no value'


def test_tables_have_defaults_only_when_they_are_there() -> None:
    found = PRIME_RL_SPLIT.defaults(of(trainer="[model.ac]\n[model.experimental.lora]\nrank = 8\n"))
    assert found["trainer.model.ac.freq"] == 1
    assert found["trainer.model.experimental.lora.alpha"] == 16.0
    assert "trainer.model.ac_offloading.pin_memory" not in found


def test_every_knob_explains_itself() -> None:
    names = [knob.name for knob in PRIME_RL_SPLIT.knobs]
    assert len(set(names)) == len(names)
    for knob in PRIME_RL_SPLIT.knobs:
        assert knob.help.endswith("."), knob.name
        assert knob.file in knob.readers
        assert knob.nullable if knob.default is None else knob.fault(knob.default) is None, knob.name


def test_derive_shows_its_arithmetic() -> None:
    orchestrator = (ERA_A / "orch.toml").read_text() + "\n"
    found = {item.name: item for item in PRIME_RL_SPLIT.derive(of(orchestrator=orchestrator))}
    assert found["prompts per step"].text == "128 rollouts / 16 per example = 8 prompts per step"
    assert found["rollouts in flight"].text == "128 * 1 = 128 rollouts at once, 8 whole groups of 16"
    assert found["micro-batches per optimizer step"].text == (
        "at most 128 rollouts / 1 = 128 packed micro-batches, at least 8"
    )
    sft = {item.name: item for item in PRIME_RL_SPLIT.derive(of(sft=(ERA_A / "sft.toml").read_text()))}
    assert sft["sft tokens per step"].text == "32 packed rows * 4096 tokens = 131072 tokens per step"
    assert sft["sft micro-batches per optimizer step on one GPU"].value == 32


def test_derive_is_silent_about_nonsense() -> None:
    assert PRIME_RL_SPLIT.derive(of(orchestrator="batch_size = []")) == ()
