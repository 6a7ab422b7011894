"""med-lm-train: whose files they are, and what its launcher is told of GPUs."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.frameworks.prime_rl.runs import CONTEXT, commands, files, of_text, with_devices

from rltui.base.template import Missing, TemplateValue
from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.medarc import CHECKOUT
from rltui.services.config.files import detect
from rltui.services.experiment import checkout

MEDARC = registry.get("medarc")
RUN, SFT = files("era_b", rl="rl.toml"), files("era_b", sft="sft.toml")
PUBLISHED = frozenset({"launcher reads dump_config"})
MENDED = frozenset({"launcher reads dump_config", "config has dump_config"})
FORK = frozenset({"--config"})


def med_lm_train(folder: Path) -> Path:
    """A checkout as it is published, without its prime-rl's own environment."""
    texts = {
        "pyproject.toml": '[project]\nname = "medarc-rl"\n[tool.uv.sources]\nprime-rl.path = "prime-rl"\n',
        "medarc_rl/medarc_train.py": "config_toml: Argument()",
        "medarc_rl/launchers/rl_local.py": "if config.dump_config is not None:",
        "prime-rl/pyproject.toml": '[project]\nname = "prime-rl"\n',
        "prime-rl/src/prime_rl/configs/rl.py": "dry_run: bool",
        "examples/rl.toml": "[orchestrator]\n[trainer]\n[inference]\n",
        ".venv/bin/python": "",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_files_in_a_checkout_are_for_it_and_run_in_its_environment(tmp_path: Path) -> None:
    """Finding C5: prime-rl is a submodule there, and has no environment of its own."""
    root = med_lm_train(tmp_path / "med-lm-train")
    config = root / "examples/rl.toml"
    assert detect([config], workspace=tmp_path).id == "medarc"
    near = {"workspace": root, "config_files": [config], "environment": {"PATH": ""}}
    for known in (CHECKOUT, registry.get("prime-rl-merged").checkout):
        assert known is not None
        nearby = checkout.NearbyCheckout(known, **near)  # type: ignore[arg-type]
        assert (nearby.project, nearby.programs()) == (root, root / ".venv/bin")
        prefix = nearby.run_prefix()
        assert isinstance(prefix, tuple)
        assert f"VIRTUAL_ENV={root / '.venv'}" in prefix
    assert checkout.NearbyCheckout(CHECKOUT, **near).traits() == PUBLISHED  # type: ignore[arg-type]
    (root / "prime-rl/.venv/bin").mkdir(parents=True)
    assert (
        checkout.project_of(root / "prime-rl", registry.get("prime-rl").checkout or CHECKOUT)
        == root / "prime-rl"
    )


def test_elsewhere_files_are_prime_rls(tmp_path: Path) -> None:
    config = tmp_path / "rl.toml"
    config.write_text(
        "[orchestrator]\nrollouts_per_example = 8\n[trainer]\n[inference]\ngpu_memory_utilization = 0.4\n"
    )
    assert detect([config], workspace=tmp_path).id == "prime-rl-merged"
    assert MEDARC.config.fit([(str(config), tomllib.loads(config.read_text()))]) is None
    assert MEDARC.config.role("rl.toml", {"trainer": {}}) == "rl"
    assert [knob.name for knob in MEDARC.config.knobs(RUN)] == [
        knob.name for knob in registry.get("prime-rl-merged").config.knobs(RUN)
    ]


def asked(context: RunContext, configs: ConfigFiles = RUN, layout: str = "medarc-train") -> str:
    return next(iter(commands(MEDARC, layout, configs, context).values()))


@pytest.mark.parametrize(
    ("devices", "text", "options"),
    [
        ((), "", "--train-gpus 1 --infer-gpus 1"),
        (("0", "1"), "", "--train-gpus 1 --infer-gpus 1"),
        (("0",), "", "--single-gpu"),
        (tuple("0123"), "[deployment]\nnum_infer_gpus = 3\n", "--train-gpus 1 --infer-gpus 3"),
    ],
    ids=["no GPU known", "two", "one shared", "three and one"],
)
def test_launcher_is_told_the_split(devices: tuple[str, ...], text: str, options: str) -> None:
    configs = of_text(f"{text}[orchestrator]\n[trainer]\n[inference]\n")
    context = replace(with_devices(*devices), traits=MENDED)
    command = "uv run medarc_train rl /m/launcher --output-dir /w/out"
    assert asked(context, configs) == f"{command} {options}"
    assert asked(replace(context, traits=FORK), configs) == (
        f"uv run medarc_train rl --config /m/launcher --output-dir /w/out {options}"
    )


def value(name: str, context: RunContext, configs: ConfigFiles = RUN) -> TemplateValue:
    return MEDARC.launch.template_values(configs, context)[name]


def test_what_the_launcher_would_do_wrong_is_said_before_the_start() -> None:
    def reason(name: str, context: RunContext, configs: ConfigFiles = RUN) -> str:
        missing = value(name, context, configs)
        assert isinstance(missing, Missing), missing
        assert missing.hint
        return missing.reason

    known = replace(CONTEXT, traits=MENDED)
    assert "AttributeError" in reason("medarc.option", replace(CONTEXT, traits=PUBLISHED))
    assert value("medarc.option", replace(CONTEXT, traits=PUBLISHED), SFT) == (), "only RL is concerned"
    assert "depends on the release" in reason("medarc.option", CONTEXT)
    assert "it always takes the first 2 of the machine" in reason(
        "medarc.gpus", replace(known, devices=("2", "3"))
    )
    assert "it always takes the first 1 of the machine" in reason(
        "medarc.gpus", replace(known, devices=("2",))
    )
    assert "it always takes the first 1 of the machine" in reason(
        "medarc.gpus", replace(known, devices=("3",)), SFT
    )
    assert "no [inference] table" in reason("medarc.gpus", known, of_text("[orchestrator]\n[trainer]\n"))
    nccl = of_text('orchestrator = {}\ntrainer = {}\ninference = {}\n[weight_broadcast]\ntype = "nccl"\n')
    assert "over NCCL" in reason("medarc.gpus", replace(known, devices=("0",)), nccl)
    many = of_text("[orchestrator]\n[trainer]\n[inference]\n[deployment]\nnum_train_gpus = 5\n")
    assert "uses at most 4 GPUs" in reason("medarc.gpus", replace(known, devices=tuple("012345")), many)
    assert "available: 1" in reason("medarc.gpus", replace(known, devices=("0",)), many)


def test_sft_runs_on_any_gpus_without_the_launcher() -> None:
    two = {"sft": replace(SFT["sft"], data={**SFT["sft"].data, "deployment": {"num_gpus": 2}})}
    context = replace(CONTEXT, devices=("2", "3"), traits=PUBLISHED)
    assert "--nproc-per-node=2" in asked(context, two, "medarc-sft")
    assert value("gpus.sft", context, two) == "2,3"
    assert asked(replace(context, devices=("0", "1")), two, "medarc-train-sft").endswith("--gpus 2")
    with pytest.raises(ConfigError, match="asks for 2 GPUs; available: 1"):
        asked(replace(context, devices=("3",)), two, "medarc-sft")


def test_memory_of_sft_follows_from_the_config() -> None:
    data = {"batch_size": 32, "micro_batch_size": 4, "seq_len": 4096}

    def of_sft(**tables: object) -> ConfigFiles:
        return {"sft": replace(SFT["sft"], data={**SFT["sft"].data, "data": data, **tables})}

    training = MEDARC.gpu_needs.training(of_sft())
    assert training is not None
    assert (training.micro_batch, training.seq_len, training.batch) == (4, 4096, 32)
    assert training.is_full
    assert MEDARC.gpu_needs.training(RUN) is None
    split = MEDARC.gpu_needs.training(of_sft(deployment={"num_gpus": 2}))
    assert split is not None
    assert (split.processes, split.batch) == (2, 16)
    adapted = MEDARC.gpu_needs.training(of_sft(model={"lora": {"rank": 8}, "ac": {"freq": 1}}))
    assert adapted is not None
    assert (adapted.is_full, adapted.recomputes) == (False, True)
    assert MEDARC.gpu_needs.training(of_sft(data={"micro_batch_size": "many"})) is None


def test_inheritance_between_files_is_refused() -> None:
    """It turns round whose values count, and its paths lead nowhere from a copy."""
    configs = of_text('toml_files = ["base.toml"]\nmax_steps = 2\n[orchestrator]\n[trainer]\n[inference]\n')
    for name in ("config.launcher", "config.trainer"):
        missing = value(name, CONTEXT, configs)
        assert isinstance(missing, Missing)
        assert "rltui up @ BASE.toml @ THIS.toml" in missing.hint
    assert not MEDARC.launch.resolutions(configs, CONTEXT)
