"""vf-rl as a framework: its file, its rules, what it prints, how it is run, and the way to prime-rl."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rltui.base.template import Missing
from rltui.core.config.data import apply_edits
from rltui.core.config.report import KnobInfo
from rltui.core.gpu.advice import MemoryFailure, advise
from rltui.core.gpu.report import OutOfMemory
from rltui.core.logs.lines import decode_line, plain_text
from rltui.core.runs.evals import EvalRequest, EvalTarget
from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.evaluation import EvalCall, Program
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, RunContext
from rltui.frameworks.memory_levers import LEVERS
from rltui.frameworks.roles import TABLES
from rltui.frameworks.verifiers import VF_RL, lacking
from rltui.services.metrics.rows import MetricRows, MetricSources

DATA = Path(__file__).parents[1] / "data/verifiers"
SEED = tomllib.loads((DATA / "reverse-text.toml").read_text())
CONTEXT = RunContext("/w", "/w/out", "python", run=("uv", "run"), devices=("0", "1", "2"))


def files(**edits: Any) -> ConfigFiles:
    """The seed's file; `__` for dots."""
    data = apply_edits(SEED, {key.replace("__", "."): value for key, value in edits.items()})
    return {"rl": ConfigFile("rl", "/w/vf.toml", data)}


def test_its_file_is_told_from_those_of_others() -> None:
    """Finding C5."""
    assert registry.detect([("vf.toml", SEED)]) is VF_RL
    assert registry.detect([("vf.toml", SEED)], installed="prime-rl") is VF_RL
    assert registry.layout_for(VF_RL, {"rl": ConfigFile("rl", "rl.toml", {})}) == "verifiers"
    assert VF_RL.config.role("rl.toml", {"model": {"name": "m"}, "trainer": {"args": {}}}) is None
    assert VF_RL.config.fit([("a.toml", SEED), ("b.toml", SEED)]) is None


def test_what_follows_from_the_file_of_the_tutorial() -> None:
    figures = {item.name: item.value for item in VF_RL.config.derive(files())}
    assert figures["prompts per step"] == 8
    assert figures["micro-batches per optimizer step"] == 8
    assert VF_RL.run.max_steps(files()) == 100
    assert VF_RL.run.output_dir(files()) == "outputs/reverse-text"


def test_vllm_takes_options_that_are_no_knobs_here() -> None:
    values = VF_RL.launch.template_values(files(inference__args__max_lora_rank=8, inference__gpus=2), CONTEXT)
    assert values["vllm_arguments"] == (
        "--enforce-eager", "--max-lora-rank", "8", "--data-parallel-size", "2", "--port", "8000",
    )  # fmt: skip
    assert (values["gpus.inference"], values["gpus.trainer"]) == ("0,1", "2")
    assert values["gpu_memory.inference"] == "0.9"


def test_both_programs_learn_another_port_and_the_folder_of_the_run() -> None:
    (port,) = VF_RL.launch.ports(files())
    assert (port.knob, port.port) == ("inference.args.port", 8000)
    context = RunContext("/w", "/w/out", "python", overrides={port.knob: 8005})
    assert VF_RL.launch.template_values(files(), context)["vllm_arguments"] == (
        "--enforce-eager",
        "--port",
        "8005",
    )
    (copy,) = VF_RL.launch.resolutions(files(), context)
    assert copy.edits == {"rl": {"trainer.args.output_dir": "/w/out", "trainer.args.vllm_server_port": 8005}}


def test_the_programs_do_not_share_a_gpu() -> None:
    missing = VF_RL.launch.template_values(files(), RunContext("/w", "/o", "python", devices=("0",)))[
        "gpus.trainer"
    ]
    assert isinstance(missing, Missing)
    assert "rltui convert --to prime-rl" in missing.hint


def test_steps_are_read_from_the_bar_before_the_figures(tmp_path: Path) -> None:
    """`trainer.log` was printed by the real vf-train of 0.1.9.post3, on a CPU. Before the last step there was
    the bar of the rollouts: the epoch tells.
    """
    log = tmp_path / "output.log"
    log.write_bytes((DATA / "trainer.log").read_bytes())
    sources = MetricSources((), VF_RL.with_schemas({}), logs=lambda: {"trainer": log})
    rows = [row.values for row in MetricRows(sources).read()]
    assert [row["step"] for row in rows] == [10, 11, 12]
    first, *_, last = rows
    assert first["time/step"] == 2.45
    assert {"loss", "reward", "reward/lcs_reward", "time/generate", "mismatch_kl"} <= first.keys()
    assert "epoch" not in first
    assert last["mismatch_kl"] == 8.706400871276855


@pytest.mark.parametrize(
    ("figures", "row"),
    [
        ("{'loss': '0.234', 'reward': '0.45', 'epoch': '0.01'}", {"loss": 0.234, "reward": 0.45}),
        (
            "{'loss': nan, 'grad_norm': inf, 'reward': 0.1}",
            {"loss": "nan", "grad_norm": "inf", "reward": 0.1},
        ),
        ("{'loss': [1], 'reward': True}", {}),
        ("{'loss': ", None),
    ],
    ids=["transformers 5", "no numbers", "other types", "cut"],
)
def test_figures_as_texts_and_wild_ones(figures: str, row: dict[str, Any] | None) -> None:
    line = f"\r 12%|#2        | 12/100 [00:10<15:02,  9.10s/it]\r      \r{figures}".encode()
    fresh = VF_RL.with_schemas({})
    assert fresh.progress.log_row("trainer", figures) is None
    parsed = fresh.progress.log_row("trainer", plain_text(decode_line(line, folded=False)))
    if row is None:
        assert not parsed or parsed.keys() == {"step", "time/step"}
        return
    assert parsed is not None
    assert {key: str(value) for key, value in parsed.items()} == {
        key: str(value) for key, value in {"step": 12, "time/step": 9.1, **row}.items()
    }


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        ({}, ""),
        ({"verifiers": "0.1.9.post3", "vllm": "0.10.2"}, ""),
        ({"verifiers": "0.1.9.post3"}, "without the extra rl: uv add 'verifiers[rl]==0.1.9.post3'"),
        ({"verifiers": "0.1.10"}, "in a separate package, verifiers-rl, which is not installed"),
        ({"verifiers": "0.1.14", "verifiers-rl": "0.1.14"}, ""),
        ({"verifiers": "0.4.0"}, "has no vf-rl: it was removed in July 2026"),
    ],
)
def test_which_verifiers_still_has_it(installed: dict[str, str], words: str) -> None:
    assert (words in lacking(installed)) is True
    assert bool(words) is bool(lacking(installed))


@pytest.mark.parametrize(
    ("to", "group", "environment"),
    [
        ("prime-rl", ("orchestrator", "group_size"), ("taskset", "id")),
        ("prime-rl-merged", ("orchestrator", "group_size"), ("taskset", "id")),
    ],
)
def test_it_is_written_for_prime_rl(to: str, group: tuple[str, str], environment: tuple[str, str]) -> None:
    target = registry.get(to)
    configs = files(trainer__args__mask_ratio_low=0.2, trainer__args__lr_scheduler_type="polynomial")
    made = VF_RL.conversions[to](configs, target)
    assert made is not None
    data = tomllib.loads(made.text)
    problems = target.config.check({"rl": ConfigFile("rl", "/w/rl.toml", data)})
    assert [problem.message for problem in problems if problem.severity == "error"] == []
    assert data[group[0]][group[1]] == 16
    assert data["orchestrator"]["train"]["source"][0]["env"][environment[0]][environment[1]] == "reverse-text"
    assert data["trainer"]["optim"]["lr"] == 1e-5
    assert data["trainer"]["model"]["lora"]["rank"] == 8
    notes = "\n".join(made.notes)
    for words in (
        "micro_batch_size has no counterpart",
        "mask_ratio_low = 0.2 is dropped",
        "prime-rl has constant",
    ):
        assert words in notes


def test_it_is_written_for_nobody_else() -> None:
    assert VF_RL.conversions.keys() == {"prime-rl", "prime-rl-merged"}
    faulty = files(trainer__args__batch_size="x")
    assert VF_RL.conversions["prime-rl"](faulty, registry.get("prime-rl")) is None


def test_advice_names_the_levers_with_the_values_of_the_config() -> None:
    advice = VF_RL.config.advice(files())
    assert "trainer.args.learning_rate 1e-05 → 5e-06" in advice["grad-norm"]
    assert "trainer.args.rollouts_per_example 16 → 32" in advice["reward-collapse"]
    assert "trainer.args.max_tokens 128 → 256" in advice["truncation"]
    assert "rltui eval run --base" in advice["flat"]


def test_an_evaluation_is_by_the_installed_vf_eval() -> None:
    evaluation = VF_RL.evaluation
    assert evaluation.environment(files()) == "reverse-text"
    assert evaluation.max_tokens(files()) == 128
    assert evaluation.max_tokens(files(trainer__args__max_tokens=None)) == 512
    base, step = EvalTarget(kind="base"), EvalTarget(kind="checkpoint", step=50)
    assert evaluation.model(files(), CONTEXT, base).name == SEED["model"]
    with pytest.raises(ConfigError, match="holds adapters"):
        evaluation.model(files(), CONTEXT, step)
    whole = files(trainer__args__use_lora=False)
    assert evaluation.model(whole, CONTEXT, step).name == "/w/out/checkpoint-50"
    call = EvalCall(
        EvalRequest(env="reverse-text"),
        "http://h/v1",
        "m",
        "/r",
        {"vf-eval": Program("0.1.9.post3", "verifiers.scripts.eval:main")},
    )
    command = evaluation.command(files(), CONTEXT, call)
    assert command is not None
    assert command.argv[:4] == ("uv", "run", "vf-eval", "reverse-text")


def test_what_helps_where_memory_does_not_suffice() -> None:
    """The order of the tutorial: micro-batch, sequence, checkpointing, LoRA."""
    configs = files(trainer__args__use_lora=False)
    values = VF_RL.config.values_of(VF_RL.config.knobs(configs), configs)
    knobs = [
        KnobInfo(key=knob.name, file="vf.toml", value=values[knob.name], kind=knob.kind, readers=knob.readers,
                 bounds=knob.bounds, is_set=True)
        for knob in VF_RL.config.knobs(configs)
    ]  # fmt: skip
    case = MemoryFailure(OutOfMemory(kind="allocation"), knobs, "trainer", tables=TABLES)
    assert [advice.edits for advice in advise(case, LEVERS)] == [
        {"trainer.args.micro_batch_size": 8},
        {"trainer.args.max_seq_len": 256},
        {"trainer.args.gradient_checkpointing": True},
        {"trainer.args.use_lora": True},
    ]
