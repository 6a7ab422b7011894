"""How the generation of three files is run."""

from __future__ import annotations

from dataclasses import replace

from tests.frameworks.prime_rl.runs import CONTEXT, commands, files, of, with_devices

from rltui.frameworks import registry

SPLIT = registry.get("prime-rl-split")

RUN = files("era_a", trainer="train.toml", orchestrator="orch.toml", inference="infer.toml")
SFT = files("era_a", sft="sft.toml")


def test_layout_runs_each_program_on_its_own_copy() -> None:
    filled = commands(SPLIT, "prime-rl-split", RUN, CONTEXT)
    assert filled == {
        "inference": "uv run inference @ /m/inference",
        "orchestrator": "uv run orchestrator @ /m/orchestrator",
        "trainer": "uv run torchrun --standalone --log-dir=/w/out/torchrun --local-ranks-filter=0 "
        "--redirect=3 --tee=3 --nproc-per-node=1 -m prime_rl.trainer.rl.train @ /m/trainer",
    }
    assert commands(SPLIT, "prime-rl-sft", SFT, CONTEXT) == {"sft": "uv run sft @ /m/launcher"}


def test_copies_name_the_folder_and_the_checkpoint_and_need_no_command() -> None:
    edits: dict[str, object] = {}
    for resolution in SPLIT.launch.resolutions(RUN, replace(CONTEXT, run_dir="/w/out/run", resume_step=8)):
        assert not resolution.commands
        edits |= resolution.edits
    run = {"output_dir": "/w/out/run", "ckpt.resume_step": 8}
    assert edits == {"trainer": run, "orchestrator": run, "inference": {}}


def test_run_from_the_beginning_takes_the_step_out() -> None:
    (copy,) = SPLIT.launch.resolutions(SFT, CONTEXT)
    assert copy.edits["sft"] == {"output_dir": "/w/out", "ckpt.resume_step": None}


def test_port_moves_unless_the_orchestrator_is_sent_elsewhere() -> None:
    """Finding S9."""
    named = {**RUN, **of(orchestrator={"client": {"base_url": ["http://localhost:8000/v1"]}})}
    assert SPLIT.launch.ports(named) == SPLIT.launch.ports(RUN)
    elsewhere = {**RUN, **of(orchestrator={"client": {"base_url": ["http://gpu-2:8000/v1"]}})}
    assert SPLIT.launch.ports(elsewhere) == ()


def test_devices_follow_the_ranks_of_inference_and_the_workers() -> None:
    configs = of(
        inference={"parallel": {"tp": 2}, "gpu_memory_utilization": 0.4},
        orchestrator={"num_train_workers": 2},
        trainer={},
    )
    values = SPLIT.launch.template_values(configs, with_devices("0", "1", "2", "3"))
    assert (values["gpus.inference"], values["gpus.trainer"]) == ("0,1", "2,3")
    assert (values["gpu_count.trainer"], values["gpu_memory.inference"]) == ("2", "0.4")
    assert (
        SPLIT.launch.environment("trainer", configs, with_devices("0", "1", "2", "3"))["CUDA_VISIBLE_DEVICES"]
        == "2,3"
    )


def test_environment_is_that_of_the_launcher() -> None:
    trainer = SPLIT.launch.environment("trainer", RUN, CONTEXT)
    assert trainer["LOGURU_FORCE_COLORS"] == "1"
    assert trainer["WANDB_PROGRAM"] == "uv run rl"
    assert "CUDA_VISIBLE_DEVICES" not in trainer
    assert "LOGURU_FORCE_COLORS" not in SPLIT.launch.environment("inference", RUN, CONTEXT)


def test_engine_memory_is_read_from_its_file() -> None:
    configs = of(inference={"gpu_memory_utilization": 0.5, "model": {"name": "m", "max_model_len": 99}})
    memory = SPLIT.gpu_needs.engine(configs)
    assert memory is not None
    assert (memory.utilization, memory.model, memory.max_model_len) == (0.5, "m", 99)
    assert memory.version == (0, 10)
    assert SPLIT.gpu_needs.engine(of(inference={"gpu_memory_utilization": 1.5})) is None
    assert SPLIT.gpu_needs.engine(SFT) is None


def test_restart_rules_know_the_pair_and_the_new_server() -> None:
    pair, server = SPLIT.launch.restart_rules(RUN)
    assert pair[:2] == (frozenset({"orchestrator", "trainer"}),) * 2
    assert server[0] == {"inference"}
    assert "base weights" in server[2]
    assert not SPLIT.launch.fresh_rules(RUN)
    nccl = {**RUN, **of(trainer={"weight_broadcast": {"type": "nccl"}})}
    assert "group" in SPLIT.launch.restart_rules(nccl)[1][2]


def test_folder_and_steps_come_from_any_of_the_files() -> None:
    assert SPLIT.run.output_dir(of(trainer={"output_dir": "outputs/x"}, orchestrator={})) == "outputs/x"
    assert SPLIT.run.output_dir(RUN) is None
    assert SPLIT.run.max_steps(RUN) == 20


def test_checkpoint_of_sft_has_one_half() -> None:
    assert len(SPLIT.run.files(RUN).checkpoint_parts) == 2
    assert len(SPLIT.run.files(SFT).checkpoint_parts) == 1
    assert SPLIT.run.files(SFT).first_step == 0
