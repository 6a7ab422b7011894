from __future__ import annotations

import tomllib
from typing import Any

import pytest

from rltui.base.template import render
from rltui.core.runs.evals import EvalRequest, EvalTarget
from rltui.errors import ConfigError
from rltui.frameworks.evaluation import EvalCall
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, RunContext
from rltui.frameworks.tinyrl import TINYRL

BASE = """
max_steps = 20
seq_len = 256
[model]
name = "outputs/base"
[orchestrator]
batch_size = 128
rollouts_per_example = 16
[[orchestrator.env]]
id = "reverse-text"
[ckpt]
[inference]
"""
SFT = "[data]\nbatch_size = 32\nmicro_batch_size = 1\n"


def files(rl: str | None = BASE, sft: str | None = None) -> ConfigFiles:
    texts = {"rl": rl, "sft": sft}
    return {
        role: ConfigFile(role, f"/c/{role}.toml", tomllib.loads(text))
        for role, text in texts.items()
        if text is not None
    }


def test_shared_seq_len_fills_the_others() -> None:
    defaults = TINYRL.config.defaults(files())
    assert defaults["orchestrator.seq_len"] == defaults["trainer.model.seq_len"] == 256
    assert defaults["orchestrator.max_inflight_rollouts"] == 128


@pytest.mark.parametrize("line", [f"batch_size = {10**400}", f"max_inflight_rollouts = {-(10**400)}"])
def test_huge_numbers_are_refused(line: str) -> None:
    problems = TINYRL.config.check(files(f"[orchestrator]\noversampling_factor = 1.5\n{line}"))
    (error,) = [problem.message for problem in problems if problem.severity == "error"]
    assert "64 bits" in error or "the smallest allowed is 1" in error


@pytest.mark.parametrize(
    "lines", ["[trainer]\nloss = 5", "[orchestrator]\nsampling = 'x'", "inference = []", "seq_len = 'long'"]
)
def test_what_is_below_a_wrong_value_is_no_further_problem(lines: str) -> None:
    broken = files(lines)
    assert len([problem for problem in TINYRL.config.check(broken) if problem.severity == "error"]) == 1
    TINYRL.launch.template_values(broken, context())
    assert (TINYRL.config.derive(broken), TINYRL.gpu_needs.engine(files("inference = 5"))) == ((), None)
    assert TINYRL.launch.ports(files("inference = 5")) == ()


def test_main_knobs_come_first_in_our_order() -> None:
    knobs = TINYRL.config.knobs(files(BASE, SFT))
    main = [knob.main for knob in knobs]
    assert main == sorted(main, reverse=True)
    assert [knob.name for knob in knobs[:3]] == ["model.name", "max_steps", "seq_len"]
    assert [knob.name for knob in knobs if not knob.main] == [
        "output_dir", "orchestrator.env.0.id", "orchestrator.env.0.name",
        "orchestrator.env.0.args.min_chars", "orchestrator.env.0.args.max_chars", "sft.output_dir",
    ]  # fmt: skip


def test_derived_values_are_those_of_both_files() -> None:
    derived = {item.name: item.value for item in TINYRL.config.derive(files(BASE, SFT))}
    assert derived["prompts per step"] == 8
    assert derived["sft micro-batches per optimizer step"] == 32


def context(**more: Any) -> RunContext:
    return RunContext("/w", "/w/out", "/py", **more)


def test_template_values() -> None:
    values = TINYRL.launch.template_values(
        files(BASE + "server = { port = 8123, host = '0.0.0.0' }\n", SFT), context()
    )
    assert values["model_path"] == "/w/outputs/base"
    assert (values["host.inference"], values["port.inference"]) == ("127.0.0.1", "8123")
    assert values["config.sft"] == "/c/sft.toml"
    assert values["resume"] == values["overrides"] == ()
    moved = TINYRL.launch.template_values(
        files(), context(resume_step=5, overrides={"inference.server.port": 8001})
    )
    assert moved["resume"] == ("--ckpt.resume-step", "5")
    assert moved["overrides"] == ("--inference.server.port", "8001")
    assert moved["port.inference"] == "8001"
    resumes = files(BASE.replace("[ckpt]", "[ckpt]\nresume_step = 7"))
    assert TINYRL.launch.template_values(resumes, context())["resume"] == ("--ckpt.resume-step", "0")
    with pytest.raises(ConfigError, match=r"no sft\.toml") as caught:
        render("{config.sft}", moved, where="tinyrl.toml: component 'sft'")
    assert "add sft.toml next to the config" in caught.value.hint


def test_port_may_be_chosen_anew_unless_the_config_gives_the_address_too() -> None:
    (port,) = TINYRL.launch.ports(files(BASE + "server = { port = 8123 }\n"))
    assert (port.component, port.knob, port.port) == ("inference", "inference.server.port", 8123)
    assert set(port.readers) == {"inference", "orchestrator"}
    url = '[orchestrator.client]\nbase_url = "http://127.0.0.1:8000/v1"\n'
    assert TINYRL.launch.ports(files(BASE + url)) == ()
    assert TINYRL.launch.ports(files(BASE + 'server = { port = "many" }\n')) == ()


def test_every_knob_explains_itself() -> None:
    knobs = TINYRL.config.knobs(files(BASE, SFT))
    names = [knob.name for knob in knobs]
    assert len(set(names)) == len(names)
    for knob in knobs:
        assert knob.help.endswith(".")
        assert knob.readers
        assert knob.default is None or knob.fault(knob.default) is None
        assert knob.default is not None or knob.nullable


def test_readers_follow_from_what_is_read() -> None:
    readers = {knob.name: set(knob.readers) for knob in TINYRL.config.knobs(files(BASE, SFT))}
    assert readers["model.name"] == {"inference", "orchestrator", "trainer"}
    assert readers["inference.server.port"] == {"inference", "orchestrator"}
    assert readers["max_steps"] == readers["ckpt.interval"] == {"orchestrator", "trainer"}
    assert readers["orchestrator.batch_size"] == {"orchestrator"}
    assert readers["sft.optim.lr"] == {"sft"}


def test_every_program_that_computes_does_so_on_the_first_device() -> None:
    def gpu_values(*cuda_devices: str) -> dict[str, object]:
        configs = files(BASE + "gpu_memory_utilization = 0.4\n")
        values = TINYRL.launch.template_values(configs, context(cuda_devices=cuda_devices))
        return {name: value for name, value in values.items() if name.startswith("gpu")}

    assert gpu_values("GPU-1", "GPU-2") == {
        **dict.fromkeys(("gpus.inference", "gpus.trainer", "gpus.sft"), "GPU-1"),
        "gpus.orchestrator": "",
        "gpu_memory.inference": "0.4",
    }
    assert set(gpu_values().values()) == {""}, "without CUDA nothing is asked of a GPU"


def test_engine_is_what_the_config_says() -> None:
    engine = TINYRL.gpu_needs.engine(files(BASE + "gpu_memory_utilization = 0.4\nmax_num_seqs = 7\n"))
    assert engine is not None
    assert (engine.component, engine.utilization, engine.model) == ("inference", 0.4, "outputs/base")
    assert engine.max_num_seqs == 7
    assert TINYRL.gpu_needs.engine(files(BASE + "gpu_memory_utilization = 1.4\n")) is None


def test_models_to_evaluate_are_folders_of_this_run() -> None:
    targets = {
        EvalTarget(kind="base"): ["/w/outputs/base/base"],
        EvalTarget(kind="sft"): ["/w/outputs/base"],
        EvalTarget(kind="checkpoint", step=20): [
            "/w/out/checkpoints/step_20/trainer/weights", "/w/out/weights/step_20"
        ],
        EvalTarget(kind="model", model="/else"): ["/else"],
        EvalTarget(kind="model", model="mine"): ["/w/mine"],
    }  # fmt: skip
    for target, folders in targets.items():
        model = TINYRL.evaluation.model(files(), context(), target)
        assert [*model.places] == folders
        assert (model.kind, model.label, model.step) == (target.kind, target.label, target.step)
    with pytest.raises(ConfigError, match="no model in the config"):
        TINYRL.evaluation.model(files("[model]\nname = 3\n"), context(), EvalTarget(kind="base"))


def test_only_the_task_that_there_is_is_evaluated() -> None:
    evaluation = TINYRL.evaluation
    assert (evaluation.environment(files()), evaluation.max_tokens(files())) == ("reverse-text", 16)
    call = EvalCall(EvalRequest(env="gsm8k"), "http://127.0.0.1:1/v1", "m", "/r")
    with pytest.raises(ConfigError, match="evaluates on reverse-text only, not on gsm8k"):
        evaluation.command(files(), context(), call)


def test_advice_names_a_knob_with_its_value() -> None:
    advice = TINYRL.config.advice(
        files(BASE.replace("[ckpt]", "[orchestrator.sampling]\nmax_tokens = 8\n[ckpt]"))
    )
    assert advice["truncation"] == "in this config: orchestrator.sampling.max_tokens 8 → 16"
    assert advice["kl"] == "in this config: trainer.optim.lr 0.0003 → 0.00015"
    assert TINYRL.config.advice(files(rl=None, sft=SFT)) == {}
