"""What can be turned in today's generation, its defaults, and the figures that follow."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.config_data import effective
from rltui.frameworks.prime_rl.current import PRIME_RL
from rltui.frameworks.prime_rl.current.check import CHECKS, check
from rltui.frameworks.prime_rl.current.derive import derive
from rltui.frameworks.prime_rl.current.knobs import BY_NAME, KNOBS, defaults, more_knobs
from rltui.frameworks.prime_rl.current.schema import SHAPES
from rltui.frameworks.prime_rl.current.schema_table import keys

ERA_C = Path(__file__).parents[2] / "data" / "prime_rl" / "era_c"
RL = (ERA_C / "rl.toml").read_text()
ODD: tuple[Any, ...] = (0, -1, 7, 0.5, "64", "None", "", True, [], ["a"], {}, {"a": 1}, [{"a": 1}], [3])


def of(text: str, role: str = "rl") -> ConfigFiles:
    return {role: ConfigFile(role, f"/{role}.toml", tomllib.loads(text))}


def value(name: str, text: str, role: str = "rl") -> Any:
    files = of(text, role)
    return effective(KNOBS, files, defaults(files))[name]


def holding(place: str, value: object) -> dict[str, Any]:
    """A config with that value there, in the first entry of each array on the way."""
    name, _, below = place.partition(".")
    held = holding(below, value) if below else value
    return {name.removesuffix("[]"): [held] if name.endswith("[]") else held}


def test_each_knob_has_one_name_a_sentence_and_a_known_place() -> None:
    known = {role: {key for key, _ in keys(shape)} for role, shape in SHAPES.items()}
    assert len(BY_NAME) == len(KNOBS)
    for knob in KNOBS:
        assert knob.help.endswith("."), knob.name
        assert knob.readers, knob.name
        assert knob.namespace == ("sft" if knob.file == "sft" else "")
        open_table = f"{knob.key.rpartition('.')[0]}.*"
        assert knob.key in known[knob.file] or open_table in known[knob.file], knob.name
        assert knob.default is None or knob.fault(knob.default) is None, knob.name


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("orchestrator.batch_size", "[orchestrator]", 128),
        ("orchestrator.batch_size", "orchestrator.token_batch_size = 9", None),
        ("trainer.model.seq_len", "seq_len = 64", 64),
        ("orchestrator.seq_len", "seq_len = 64\norchestrator.seq_len = 32", 32),
        ("trainer.model.seq_len", 'seq_len = "x"', 2048),
        ("inference.vllm.model", 'model.name = "a/b"', "a/b"),
        ("inference.backend_port", "[inference.server]\nport = 8005", 8105),
        ("inference.vllm.data_parallel_size", "[inference]\n[deployment]\nnum_infer_gpus = 4", 4),
        (
            "inference.vllm.data_parallel_size",
            "deployment.num_infer_gpus = 4\n[inference.vllm]\ntensor_parallel_size = 2",
            2,
        ),
        (
            "orchestrator.num_train_workers",
            "deployment.num_train_gpus = 4\n[trainer.model]\ncp = 2",
            2,
        ),
        ("weight_broadcast.type", "[inference]", "nccl"),
        ("weight_broadcast.type", "[inference]\n[trainer.model.lora]", "filesystem"),
        ("weight_broadcast.type", "[trainer]", "filesystem"),
        ("trainer.model.lora.rank", "[trainer.model.lora]", 16),
        ("trainer.model.lora.rank", "[trainer]", None),
        ("trainer.model.ac.freq", "[trainer]", 1),
        ("trainer.model.ac.freq", '[trainer.model]\nac = "None"', None),
        ("trainer.optim.betas2", '[trainer.optim]\ntype = "muon"', 0.95),
        ("rollout_transport.type", '[trainer.rollout_transport]\ntype = "filesystem"', "filesystem"),
    ],
)
def test_default_follows_from_other_values(name: str, text: str, expected: object) -> None:
    assert value(name, text) == expected


def test_word_for_no_value_goes_before_the_default() -> None:
    files = of('[orchestrator.concurrency]\nmax_inflight = "None"')
    assert CHECKS.values(files)["orchestrator.concurrency.max_inflight"] is None


def test_sft_default_of_the_broadcast_follows_from_evals() -> None:
    evals = '[[eval.source]]\nenv.taskset.id = "a"\n'
    assert value("sft.weight_broadcast.type", "[inference]\n" + evals, "sft") == "nccl"
    assert value("sft.weight_broadcast.type", evals, "sft") == "filesystem"
    assert value("sft.weight_broadcast.type", "", "sft") is None


def test_sources_have_knobs_of_their_own_and_their_servers_read_them() -> None:
    more = """
[[orchestrator.train.source]]
group_size = 4
env.taskset.id = "Other Task"
[[orchestrator.eval.source]]
env.taskset.id = "gsm8k"
"""
    files = of(RL + more)
    knobs = {knob.name: knob for knob in more_knobs(files)}
    values = effective(tuple(knobs.values()), files, defaults(files))
    first, second = "orchestrator.train.source.0", "orchestrator.train.source.1"
    assert (values[f"{first}.group_size"], values[f"{second}.group_size"]) == (16, 4)
    assert values["orchestrator.eval.source.0.interval"] == 100
    assert knobs[f"{first}.name"].readers == ("orchestrator", "env-train-reverse-text")
    assert knobs[f"{second}.name"].readers == ("orchestrator", "env-train-other-task")
    assert knobs[f"{first}.ratio"].readers == ("orchestrator",)
    assert knobs["orchestrator.eval.source.0.name"].readers == ("orchestrator", "env-eval-gsm8k")
    assert PRIME_RL.more_knobs(files)


def test_figures_of_the_real_files() -> None:
    rl = {figure.name: figure for figure in derive(of(RL))}
    assert rl["prompts per step"].value == 8
    assert rl["micro-batches per optimizer step"].value == 128
    assert rl["episodes in flight"].text.endswith("at least 1, at most 1024")
    assert rl["GPUs"].value == 2
    sft = {figure.name: figure for figure in derive(of((ERA_C / "sft.toml").read_text(), "sft"))}
    assert sft["sft tokens per step"].value == 32 * 4096
    assert sft["sft micro-batches per optimizer step"].value == 32


def test_figures_of_other_ways_to_batch() -> None:
    tokens = RL.replace("batch_size = 128", "token_batch_size = 65536")
    assert {figure.name: figure.value for figure in derive(of(tokens))}["tokens per step"] == 65536
    fixed = RL + "\n[orchestrator.concurrency]\nmin_inflight = 32\nmax_inflight = 32\n"
    assert {figure.name: figure.value for figure in derive(of(fixed))}["episodes in flight"] == 32


def test_no_figures_while_a_value_is_wrong() -> None:
    assert derive(of(RL.replace("batch_size = 128", "batch_size = 0"))) == ()


@pytest.mark.parametrize("role", ["rl", "sft"])
def test_nothing_that_a_file_may_hold_breaks_the_check(role: str) -> None:
    shape = SHAPES[role]
    places = sorted({key for key, _ in keys(shape)})
    for at, place in enumerate(places[::4]):
        files = {role: ConfigFile(role, "/x.toml", holding(place, ODD[at % len(ODD)]))}
        check(files)
        derive(files)
        defaults(files)
        more_knobs(files)


def test_lora_decides_what_server_and_orchestrator_get() -> None:
    """Finding P10: as `auto_setup_lora` of prime-rl's own models."""
    text = "[trainer.model.lora]\nrank = 12\n[orchestrator]\n[inference]\n[deployment]\nnum_infer_gpus = 2\n"
    assert value("inference.vllm.enable_lora", text) is True
    assert value("inference.vllm.max_lora_rank", text) == 16
    assert value("orchestrator.model.lora.rank", text) == 12
    assert value("inference.vllm.api_server_count", text) == 1
    plain = text.partition("\n")[2].partition("\n")[2]
    assert value("inference.vllm.enable_lora", plain) is False
    assert value("inference.vllm.api_server_count", plain) == 2


def test_what_is_off_has_no_values() -> None:
    assert value("orchestrator.eval.interval", "[orchestrator]") is None
    assert value("orchestrator.eval.interval", "[orchestrator.eval]") == 100
    assert value("inference.router.type", '[inference]\nrouter = "None"') == "None"
    assert value("inference.router.type", "[inference]") == "vllm-router"
