"""How the generation of one file and `rollouts_per_example` is run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.frameworks.prime_rl.runs import CONTEXT, commands, files, of, of_text, with_devices

from rltui.base.template import Missing
from rltui.frameworks import registry

MERGED = registry.get("prime-rl-merged")

RUN = files("era_b", rl="rl.toml")
SFT = files("era_b", sft="sft.toml")
NCCL = of_text('orchestrator = {}\ninference = {}\ntrainer = {}\n[weight_broadcast]\ntype = "nccl"\nport = 3')


@pytest.mark.parametrize(
    ("layout", "configs", "command"),
    [("prime-rl-single", RUN, "uv run rl @ /m/launcher"), ("prime-rl-sft", SFT, "uv run sft @ /m/launcher")],
)
def test_launchers_get_a_copy(layout: str, configs: object, command: str) -> None:
    filled = commands(MERGED, layout, RUN if configs is RUN else SFT, CONTEXT)
    assert list(filled.values()) == [command]


def test_parts_are_resolved_in_an_empty_folder_and_never_cleaned() -> None:
    launcher, parts = MERGED.launch.resolutions(RUN, replace(CONTEXT, resume_step=5))
    assert [command[3] for command in parts.commands] == ["--dry-run", "--dump-config"]
    edits = parts.edits["rl"]
    assert edits["output_dir"] == "{scratch}/out"
    assert edits["clean_output_dir"] is None
    assert edits["ckpt.resume_step"] == 5
    assert parts.replaced == {"{scratch}/out": "/w/out"}
    assert "prime-rl-single" in parts.unsupported
    assert launcher.edits["rl"]["output_dir"] == "/w/out"
    assert not launcher.commands


def test_checkpoints_elsewhere_are_resumed_as_the_person_says() -> None:
    configs = of(rl={"ckpt": {"output_dir": "/big", "resume_step": -1}, "orchestrator": {}, "trainer": {}})
    launcher, _ = MERGED.launch.resolutions(configs, CONTEXT)
    assert "ckpt.resume_step" not in launcher.edits["rl"]


def test_one_gpu_sends_weights_through_files_and_says_so() -> None:
    _, parts = MERGED.launch.resolutions(NCCL, with_devices("0"))
    assert parts.edits["rl"]["weight_broadcast.type"] == "filesystem"
    assert parts.edits["rl"]["weight_broadcast"] is None
    assert parts.notes
    _, parts = MERGED.launch.resolutions(NCCL, with_devices("0", "1"))
    assert "weight_broadcast.type" not in parts.edits["rl"]


def test_with_slurm_the_launcher_is_asked_for_a_script_or_nothing_is_run() -> None:
    base = "trainer = {}\norchestrator = {}\ninference = {}\n"
    with_slurm, plain = of_text(base + '[slurm]\njob_name = "mine"'), of_text(base)
    assert MERGED.launch.asks_for_cluster(with_slurm)
    assert not MERGED.launch.asks_for_cluster(plain)
    assert MERGED.launch.resolutions(with_slurm, CONTEXT) == ()
    for name in ("launcher", "trainer"):
        fault = MERGED.launch.template_values(with_slurm, CONTEXT)[f"config.{name}"]
        assert isinstance(fault, Missing)
        assert "--slurm" in fault.hint
    as_job = replace(CONTEXT, submits=True, run=("uv", "run", "--project", "/p"))
    (launcher,) = MERGED.launch.resolutions(with_slurm, as_job)
    assert launcher.edits["rl"]["slurm.project_dir"] == "/p"
    assert "slurm.job_name" not in launcher.edits["rl"]
    launcher, _ = MERGED.launch.resolutions(plain, as_job)
    assert launcher.edits["rl"]["slurm.job_name"] == "one"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('[deployment]\ntype = "multi_node"', "--slurm"),
        ("[deployment]\nnum_teacher_gpus = 1", "--layout prime-rl-single"),
        ("[teacher_inference]", "--layout prime-rl-single"),
    ],
)
def test_what_cannot_be_run_by_parts_is_left_to_the_launcher(text: str, hint: str) -> None:
    configs = of_text(f"trainer = {{}}\norchestrator = {{}}\ninference = {{}}\n{text}")
    assert [list(one.outputs) for one in MERGED.launch.resolutions(configs, CONTEXT)] == [["launcher"]]
    fault = MERGED.launch.template_values(configs, CONTEXT)["config.trainer"]
    assert isinstance(fault, Missing)
    assert hint in fault.hint


def test_config_without_a_server_says_what_to_do() -> None:
    configs = of(rl={"trainer": {}, "orchestrator": {}})
    fault = MERGED.launch.template_values(configs, CONTEXT)["config.inference"]
    assert isinstance(fault, Missing)
    assert "[inference]" in fault.reason
    assert MERGED.gpu_needs.engine(configs) is None
    assert MERGED.launch.ports(configs) == ()


def test_devices_by_deployment_or_by_number() -> None:
    configs = of(rl={"deployment": {"num_infer_gpus": 2, "num_train_gpus": 2}, "inference": {}})
    values = MERGED.launch.template_values(configs, with_devices("0", "1", "2", "3"))
    assert (values["gpus.inference"], values["gpus.trainer"]) == ("0,1", "2,3")
    assert (values["gpu_count.trainer"], values["gpus.launcher"]) == ("2", "0,1,2,3")
    numbered = of(rl={"inference_gpu_ids": [0], "trainer_gpu_ids": [0], "inference": {}})
    values = MERGED.launch.template_values(numbered, with_devices("0", "1"))
    assert values["gpus.inference"] == values["gpus.trainer"] == "0"
    assert MERGED.launch.template_values(numbered, with_devices())["gpus.trainer"] == ""


def test_environment_shares_one_wandb_run_only_where_there_is_one() -> None:
    trainer = MERGED.launch.environment("trainer", RUN, CONTEXT)
    assert trainer["WANDB_SHARED_RUN_ID"] == "abc"
    assert trainer["WANDB_SHARED_LABEL"] == "trainer"
    assert trainer["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert "WANDB_SHARED_MODE" not in MERGED.launch.environment("trainer", NCCL, CONTEXT)
    alone = of(rl={"wandb": {"shared": False}, "orchestrator": {}})
    assert "WANDB_SHARED_MODE" not in MERGED.launch.environment("orchestrator", alone, CONTEXT)


AUGUST = """
trainer = {}
inference = {}
[wandb]
project = "x"
[[orchestrator.train.source]]
name = "reverse-text"
"""
"""As v0.8.0 has it."""


def test_summer_has_env_servers_and_ports_for_them_for_weights_and_batches() -> None:
    """Finding P1 and P3."""
    configs, two = of_text(AUGUST), with_devices("0", "1")
    filled = commands(MERGED, "prime-rl-merged", configs, two)
    assert filled["env-train-reverse-text"] == "uv run env-server @ /m/env.train.reverse-text"
    moved = {item.knob: item.port + 10 for item in MERGED.launch.ports(configs)}
    _, parts = MERGED.launch.resolutions(configs, replace(two, overrides=moved))
    edits = parts.edits["rl"]
    assert edits["orchestrator.model.client.base_url"] == ["http://localhost:8010/v1"]
    assert edits["orchestrator.env_server_base_port"] == 5010
    assert (edits["weight_broadcast.type"], edits["weight_broadcast.port"]) == ("nccl", 29511)
    assert edits["rollout_transport.port"] == 5565
    assert "env.train" in parts.outputs
    assert parts.optional == {"env.eval"}
    assert "group" in MERGED.launch.restart_rules(configs)[1][2], "weights go by NCCL where nothing is said"


def test_server_joins_where_a_run_begins_anew() -> None:
    ((causes, effects, why),) = MERGED.launch.fresh_rules(RUN)
    assert causes == {"orchestrator", "trainer"}
    assert effects == {"inference"}
    assert "trained weights" in why
    assert "group" in MERGED.launch.restart_rules(NCCL)[1][2]


def test_paused_engine_is_resumed() -> None:
    configs = of(rl={"inference": {"server": {"host": "0.0.0.0", "port": 8003}}})
    (call,) = MERGED.launch.service_calls(configs, CONTEXT)
    assert (call.component, call.url, call.required) == ("inference", "http://127.0.0.1:8003/resume", False)
    assert MERGED.launch.service_calls(SFT, CONTEXT) == ()
