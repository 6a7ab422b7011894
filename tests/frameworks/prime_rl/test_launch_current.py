"""How today's generation is run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.frameworks.prime_rl.runs import CONTEXT, commands, files, of, of_text, with_devices

from rltui.base.template import Missing
from rltui.frameworks import registry
from rltui.frameworks.inputs import RunContext
from rltui.frameworks.launch import Resolution
from rltui.frameworks.prime_rl import values

PRIME_RL = registry.get("prime-rl")

RUN = files("era_c", rl="rl.toml")
SFT = files("era_c", sft="sft.toml")
RL = "trainer = {}\norchestrator = {}\ninference = {}\n"
SOURCES = """
[trainer]
[inference]
[[orchestrator.train.source]]
name = "a"
[[orchestrator.train.source]]
name = "b"
serve.address = "tcp://node-2:5001"
[[orchestrator.eval.source]]
name = "c"
"""


def parts(text: str, context: RunContext = CONTEXT) -> Resolution:
    return PRIME_RL.launch.resolutions(of_text(text), context)[1]


def test_layout_runs_the_parts_and_a_server_for_each_source() -> None:
    filled = commands(PRIME_RL, "prime-rl", RUN, CONTEXT)
    assert filled["inference"] == "uv run inference @ /m/inference"
    assert filled["env-train-reverse-text"] == "uv run env-server @ /m/env.train.reverse-text"
    assert filled["orchestrator"] == "uv run orchestrator @ /m/orchestrator"
    assert filled["trainer"] == (
        "uv run torchrun --role=trainer --standalone --log-dir=/w/out/torchrun --local-ranks-filter=0 "
        "--redirect=3 --tee=3 --nproc-per-node=1 -m prime_rl.trainer.rl.train @ /m/trainer"
    )
    assert len(filled) == 4


def test_launchers_get_a_copy_with_the_folder_they_may_use() -> None:
    context = replace(CONTEXT, run_dir="/w/out/run")
    assert commands(PRIME_RL, "prime-rl-single", RUN, context) == {"rl": "uv run rl @ /m/launcher"}
    assert commands(PRIME_RL, "prime-rl-sft", SFT, context) == {"sft": "uv run sft @ /m/launcher"}
    edits = PRIME_RL.launch.resolutions(SFT, context)[0].edits["sft"]
    assert (edits["output_dir"], edits["run.dir"], edits["run.name"]) == ("/w/out", "run", "one")
    assert edits["clean"] is None


def test_sft_with_evaluations_is_run_by_parts() -> None:
    context = replace(CONTEXT, run_dir="/w/out/run")
    assert registry.layout_for(PRIME_RL, SFT) == "prime-rl-sft-evals"
    filled = commands(PRIME_RL, "prime-rl-sft-evals", SFT, context)
    assert filled["env-eval-reverse-text"] == "uv run env-server @ /m/env.eval.reverse-text"
    assert filled["online-eval"] == "uv run evals @ /m/online-eval"
    assert filled["trainer"].endswith("-m prime_rl.trainer.sft.train @ /m/trainer")
    resolution = PRIME_RL.launch.resolutions(SFT, context)[1]
    assert resolution.commands == (("sft", "@", "{input.sft}", "--dry-run"),)
    assert resolution.edits["sft"]["run.dir"] == "run"
    assert (resolution.replaced["{scratch}/out"], resolution.moves) == ("/w/out", "")
    environment = PRIME_RL.launch.environment("trainer", SFT, with_devices("0", "1"))
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["WANDB_SHARED_FINISHER"]) == ("1", "online-eval")
    assert PRIME_RL.gpu_needs.count(SFT) == 2


def test_sft_of_autumn_sends_its_weights_as_it_starts() -> None:
    autumn = of(sft={**SFT["sft"].data, "eval": {"interval": 25, "select": {"limit": 32}, "source": []}})
    assert PRIME_RL.launch.fresh_rules(SFT)[0][:2] == (
        frozenset({"trainer", "online-eval"}),
        frozenset({"inference"}),
    )
    assert PRIME_RL.launch.fresh_rules(autumn) == ()
    context = replace(CONTEXT, made={"online-eval": {"source": []}})
    assert PRIME_RL.launch.template_values(autumn, context)["program.online-eval"] == (
        "python", "-m", "prime_rl.eval.online",
    )  # fmt: skip


def test_sft_and_its_evaluations_share_one_gpu_by_files() -> None:
    resolution = PRIME_RL.launch.resolutions(SFT, with_devices("0"))[1]
    assert resolution.edits["sft"]["weight_broadcast.type"] == "filesystem"
    values = PRIME_RL.launch.template_values(SFT, with_devices("0"))
    assert (values["gpus.inference"], values["gpus.trainer"], values["gpu_memory.inference"]) == (
        "0",
        "0",
        "0.9",
    )


def test_evaluations_of_sft_without_a_server_use_the_one_of_the_config() -> None:
    table = {**SFT["sft"].data["eval"], "client": {"base_url": "http://gpu-2:8000/v1"}}
    data = {key: value for key, value in SFT["sft"].data.items() if key != "inference"}
    external = of(sft={**data, "eval": table})
    (server,) = PRIME_RL.servers.addresses(external)
    assert (server.url, server.model) == ("http://gpu-2:8000/v1", "PrimeIntellect/Qwen3-0.6B")
    assert PRIME_RL.servers.addresses(SFT) == ()
    sent = PRIME_RL.sent_to(["http://gpu-3:8000/v1"])
    edits = sent.launch.resolutions(SFT, CONTEXT)[1].edits["sft"]
    assert (edits["eval.client.base_url"], edits["inference"]) == ("http://gpu-3:8000/v1", None)
    assert edits["weight_broadcast.type"] == "filesystem"


def test_sft_without_evaluations_is_its_launcher() -> None:
    alone = of(sft={"data": {"name": "d"}, "run": {}})
    assert registry.layout_for(PRIME_RL, alone) == "prime-rl-sft"
    fault = PRIME_RL.launch.template_values(alone, CONTEXT)["config.trainer"]
    assert isinstance(fault, Missing)
    assert "no [eval]" in fault.reason


def test_parts_are_resolved_in_an_empty_folder_and_never_cleaned() -> None:
    resolution = PRIME_RL.launch.resolutions(RUN, CONTEXT)[1]
    assert resolution.commands == (("rl", "@", "{input.rl}", "--dry-run"),)
    edits = resolution.edits["rl"]
    assert (edits["output_dir"], edits["run.dir"], edits["clean"]) == ("{scratch}/out", "run", None)
    assert "out/run/configs/trainer.json" in resolution.outputs["trainer"]
    assert "out/run/configs/envs/train/*.json" in resolution.outputs["env.train"]
    assert resolution.replaced["{scratch}/out/run"] == "/w/out"
    assert resolution.optional == {"env.eval"}


def test_name_of_the_config_stays() -> None:
    named = of_text(RL + '[run]\nname = "mine"')
    assert PRIME_RL.launch.resolutions(named, CONTEXT)[0].edits["rl"]["run.name"] == "mine"
    assert PRIME_RL.launch.environment("trainer", named, CONTEXT)["PRL_RUN_NAME"] == "mine"


@pytest.mark.parametrize(
    ("text", "step", "kept"),
    [
        ("", 7, {"resume": None, "resume.step": 7}),
        ("", None, {"resume": None}),
        ("[resume]\nstep = 3", None, {"resume": None}),
        ('[resume]\ndir = "/other/step_50"', None, {}),
        ('[resume]\ndir = "/other/step_50"', 7, {"resume": None, "resume.step": 7}),
        ('[ckpt]\noutput_dir = "/big"\n[resume]', 7, {}),
    ],
)
def test_resume_is_what_rltui_chose_unless_it_cannot_know(
    text: str, step: int | None, kept: dict[str, object]
) -> None:
    edits = parts(RL + text, replace(CONTEXT, resume_step=step)).edits["rl"]
    assert {key: value for key, value in edits.items() if key.startswith("resume")} == kept


@pytest.mark.parametrize(
    ("text", "devices", "is_changed"),
    [
        ("", ("0",), True),
        ("", ("0", "1"), False),
        ("", (), False),
        ('[weight_broadcast]\ntype = "filesystem"', ("0",), False),
        ("[trainer.model.lora]\nrank = 8", ("0",), False),
    ],
)
def test_one_gpu_sends_weights_through_files(text: str, devices: tuple[str, ...], is_changed: bool) -> None:
    rl = "orchestrator = {}\ninference = {}\n" + (text or "trainer = {}")
    resolution = parts(rl, with_devices(*devices))
    assert (resolution.edits["rl"].get("weight_broadcast.type") == "filesystem") == is_changed
    assert bool(resolution.notes) == is_changed


def test_too_few_devices_are_told() -> None:
    values = PRIME_RL.launch.template_values(
        of_text(RL + "[deployment]\nnum_train_gpus = 4"), with_devices("0", "1")
    )
    fault = values["gpus.trainer"]
    assert isinstance(fault, Missing)
    assert "asks for 5 GPUs (1 for inference, 4 for the trainer); available: 2" in fault.reason


@pytest.mark.parametrize(
    ("text", "devices", "shares"),
    [
        ("inference = {}\ndeployment.num_train_gpus = 2", ("0", "1", "2", "3"), ("0", "1,2")),
        ("deployment.num_train_gpus = 2", ("0", "1"), ("", "0,1")),
        ("inference = {}", ("GPU-a",), ("GPU-a", "GPU-a")),
        ("inference = {}\ndeployment.num_train_gpus = 4", (), ("", "")),
    ],
    ids=["in order", "no server", "one for both", "none known"],
)
def test_devices_of_server_and_trainer(text: str, devices: tuple[str, ...], shares: tuple[str, str]) -> None:
    values = PRIME_RL.launch.template_values(
        of_text(f"{text}\n[orchestrator]\n[trainer]"), with_devices(*devices)
    )
    assert (values["gpus.inference"], values["gpus.trainer"]) == shares


@pytest.mark.parametrize(
    ("inference", "ports"),
    [
        ("", ("8000", "8100")),
        ("server = { port = 8005 }", ("8005", "8105")),
        ("backend_port = 9000", ("8000", "9000")),
        ('router = "None"', ("8000", "8000")),
    ],
)
def test_engine_is_behind_the_router(inference: str, ports: tuple[str, str]) -> None:
    values = PRIME_RL.launch.template_values(of_text(f"[inference]\n{inference}"), CONTEXT)
    assert (values["port.inference"], values["port.engine"]) == ports


def test_chosen_ports_reach_both_sides() -> None:
    router, engine, *_ = PRIME_RL.launch.ports(of_text(RL))
    assert (router.port, router.more, engine.port) == (8000, (21_000,), 8100)
    edits = parts(RL, replace(CONTEXT, overrides={router.knob: 8001})).edits["rl"]
    assert edits["inference.server.port"] == 8001
    assert edits["inference.backend_port"] == 8100
    assert edits["orchestrator.model.client.base_url"] == "http://localhost:8001/v1"
    named = '[orchestrator.model.client]\nbase_url = "http://localhost:8000/v1"\n[inference]'
    assert PRIME_RL.launch.ports(of_text(named))[0] == router, "the address is edited too"
    elsewhere = named.replace("localhost", "node-2")
    assert router.knob not in {item.knob for item in PRIME_RL.launch.ports(of_text(elsewhere))}


def test_every_port_of_a_run_can_be_moved() -> None:
    """Finding P3: environments, weights and batches have fixed ports too."""
    configs = of_text(SOURCES)
    ports = {item.knob: (item.port, item.more) for item in PRIME_RL.launch.ports(configs)}
    assert ports["orchestrator.env_server_base_port"] == (5000, (0, 2)), "the second is another user's"
    assert ports["weight_broadcast.port"] == (29501, ())
    assert ports["rollout_transport.port"] == (5555, (1, 2))
    moved = {"orchestrator.env_server_base_port": 6000, "weight_broadcast.port": 29502}
    context = replace(with_devices("0", "1"), overrides={**moved, "rollout_transport.port": 5565})
    edits = parts(SOURCES, context).edits["rl"]
    assert {**moved, "rollout_transport.port": 5565}.items() <= edits.items()
    assert (edits["weight_broadcast.type"], edits["rollout_transport.type"]) == ("nccl", "zmq")
    values = PRIME_RL.launch.template_values(configs, context)
    assert values["port.env.train.a"] == "6000"
    assert values["port.env.eval.c"] == "6002"
    assert (values["port.weights"], values["port.batches"]) == ("29502", "5565")
    shared = parts(SOURCES, replace(context, devices=("0",))).edits["rl"]
    assert "weight_broadcast.port" not in shared, "weights go through files there"


def test_ports_that_both_halves_name_move_in_both() -> None:
    halves = (f'[{part}.rollout_transport]\ntype = "zmq"\n' for part in ("trainer", "orchestrator"))
    text = "[inference]\n" + "".join(halves)
    (knob,) = (item for item in PRIME_RL.launch.ports(of_text(text)) if "rollout" in item.knob)
    edits = parts(text, replace(CONTEXT, overrides={knob.knob: 6555})).edits["rl"]
    assert edits["trainer.rollout_transport.port"] == edits["orchestrator.rollout_transport.port"] == 6555
    assert "rollout_transport.port" not in edits


def test_environment_follows_the_launcher_and_the_config() -> None:
    configs = of_text(
        '[env_vars]\nA = "all"\nOMP_NUM_THREADS = "8"\n[trainer.env_vars]\nA = "trainer"\n[orchestrator]\n'
        "[inference]"
    )
    context = with_devices("0", "1")
    trainer, inference = (
        PRIME_RL.launch.environment(name, configs, context) for name in ("trainer", "inference")
    )
    assert (trainer["A"], inference["A"]) == ("trainer", "all")
    assert trainer["OMP_NUM_THREADS"] == "8"
    assert (inference["CUDA_VISIBLE_DEVICES"], trainer["CUDA_VISIBLE_DEVICES"]) == ("0", "1")
    assert inference["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"
    assert (trainer["PRL_RUN_ID"], trainer["WANDB_RUN_ID"]) == ("abc", "abc")
    server = PRIME_RL.launch.environment("env-train-x", configs, context)
    assert server["A"] == "all"
    assert "CUDA_VISIBLE_DEVICES" not in server
    assert PRIME_RL.launch.environment("rl", configs, context) == {"PYTHONUNBUFFERED": "1"}


def test_pair_says_why_by_its_transports() -> None:
    handshake, group = PRIME_RL.launch.restart_rules(of_text(RL))
    assert "announces itself once" in handshake[2]
    assert "group" in group[2]
    through_files = of_text(
        RL + '[weight_broadcast]\ntype = "filesystem"\n[rollout_transport]\ntype = "filesystem"'
    )
    pair, server = PRIME_RL.launch.restart_rules(through_files)
    assert "counters" in pair[2]
    assert "announces itself once" not in pair[2]
    assert "base weights" in server[2]
    assert not PRIME_RL.launch.fresh_rules(of_text(RL))


def test_engine_is_resumed_behind_the_router() -> None:
    (call,) = PRIME_RL.launch.service_calls(of_text(RL), CONTEXT)
    assert call.url == "http://127.0.0.1:8100/resume"


def test_folder_of_the_run() -> None:
    assert PRIME_RL.run.output_dir(RUN) is None
    assert PRIME_RL.run.output_dir(of(rl={"output_dir": "o"})) == "o"
    assert PRIME_RL.run.output_dir(of(rl={"run": {"name": "n"}})) == "outputs/n"
    assert PRIME_RL.run.output_dir(of(rl={"output_dir": "o", "run": {"name": "n", "dir": "d"}})) == "o/d"


def test_env_servers_are_named_as_prime_rl_does() -> None:
    configs = of_text(
        '[[orchestrator.train.source]]\nname = "Math"\n'
        '[[orchestrator.train.source]]\nenv = { id = "best-of-n", taskset = { id = "gsm8k" } }\n'
        '[[orchestrator.train.source]]\nname = "far"\nserve = { address = "tcp://x:1" }\n'
        '[[orchestrator.eval.source]]\nenv = { taskset = { id = "gsm8k" } }\n'
    )
    assert values.instances(configs) == {
        "env_servers.train": ("Math", "best-of-n+gsm8k"),
        "env_servers.eval": ("gsm8k",),
    }
    assert [source.component for source in values.sources(configs)] == [
        "env-train-math",
        "env-train-best-of-n-gsm8k",
        "",
        "env-eval-gsm8k",
    ]


def test_engine_memory_has_vllms_names() -> None:
    memory = PRIME_RL.gpu_needs.engine(
        of_text('[model]\nname = "m"\n[inference.vllm]\ngpu_memory_utilization = 0.3\nmax_num_seqs = 8')
    )
    assert memory is not None
    assert (memory.utilization, memory.max_num_seqs, memory.model) == (0.3, 8, "m")
