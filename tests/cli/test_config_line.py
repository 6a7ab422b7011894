"""Which config a command line means, in rltui's words and in those of launchers."""

from __future__ import annotations

import pytest

from rltui.cli.parser import parse
from rltui.errors import UsageError


@pytest.mark.parametrize(
    ("line", "config", "parts", "overrides"),
    [
        (
            "up rl.toml -o out -- --model.name X --wandb.project=p",
            ["rl.toml"],
            [],
            {"model.name": ("X",), "wandb.project": ("p",)},
        ),
        (
            "up rl.toml -- --a-b.c -1 --x --no-y --l 1 2 3",
            ["rl.toml"],
            [],
            {"a_b.c": ("-1",), "x": (), "no_y": (), "l": ("1", "2", "3")},
        ),
        ("up @ base.toml @ over.toml --no-wait", [], [("base.toml", ""), ("over.toml", "")], {}),
        ("check base.toml @ over.toml", ["base.toml"], [("over.toml", "")], {}),
        (
            "up uv run rl @ rl.toml --model.name X -n mine --timeout 3 --max-steps=7",
            [],
            [("rl.toml", "")],
            {"model.name": ("X",), "max_steps": ("7",)},
        ),
        ("rl @ a.toml @b.toml", [], [("a.toml", ""), ("b.toml", "")], {}),
        (
            "uv run rl --trainer @ t.toml --orchestrator @ o.toml --orchestrator.client.base-url http://h:1/v1",
            [],
            [("t.toml", "trainer"), ("o.toml", "orchestrator")],
            {"orchestrator.client.base_url": ("http://h:1/v1",)},
        ),
        (
            "up medarc_train sft examples/sft.toml --output-dir out --gpus 2 -n mine --timeout 3",
            ["examples/sft.toml"],
            [],
            {"deployment.num_gpus": ("2",)},
        ),
        (
            "medarc_train rl --single-gpu rl.toml --output-dir=out -- --wandb.project p --ckpt.keep -1",
            ["rl.toml"],
            [],
            {"wandb.project": ("p",), "ckpt.keep": ("-1",)},
        ),
        (
            "medarc_train rl --config a.toml --config b.toml --output-dir out --resume --infer-gpus=3",
            [],
            [("a.toml", ""), ("b.toml", "")],
            {"deployment.num_infer_gpus": ("3",)},
        ),
        (
            "up medarc_slurm sft sft.toml --output-dir out --gpus 1 --cpus-per-gpu 4 --auto-auth --dry-run",
            ["sft.toml"],
            [],
            {"deployment.num_gpus": ("1",)},
        ),
        (
            "medarc_slurm rl rl.toml --output-dir=out --single-gpu --account mine -- --ckpt.keep 2",
            ["rl.toml"],
            [],
            {"ckpt.keep": ("2",)},
        ),
    ],
)  # fmt: skip
def test_lines(
    line: str, config: list[str], parts: list[tuple[str, str]], overrides: dict[str, tuple[str, ...]]
) -> None:
    arguments = parse(line.split())
    assert arguments.config == config
    assert arguments.config_line.overlays == parts
    assert arguments.config_line.overrides == overrides
    if "-n mine" in line:
        assert (arguments.name, arguments.timeout) == ("mine", 3.0)
    if "medarc_train" in line:
        assert arguments.output_dir == "out"
        assert (arguments.single_gpu, arguments.resume) == ("--single-gpu" in line, "--resume" in line)


def test_options_of_medarc_slurm_are_kept_for_it() -> None:
    line = "up medarc_slurm sft a.toml --output-dir out --gpus 1 --hf-cache-dir=/c --auto-auth --dry-run"
    arguments = parse(line.split())
    assert (arguments.slurm, arguments.auto_auth, arguments.plan) == (True, True, True)
    assert arguments.framework == "medarc"
    assert arguments.launcher_option == ["--hf-cache-dir", "/c"]
    line = "medarc_slurm rl a.toml --output-dir out --single-gpu --account mine"
    arguments = parse(line.split())
    assert arguments.launcher_option == ["--single-gpu"]
    assert (arguments.account, arguments.single_gpu) == ("mine", False)
    for given in ("--slurm-option=--constraint=x", "--slurm-option=-C=x"):  # finding S2
        assert parse([*line.split(), given, "--", "--ckpt.keep", "2"]).slurm_option == [given[15:]]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("up rl.toml --max-steps 5", "after --: rl.toml -- --max-steps"),
        ("up env-server @ env.toml", "write it as: rl @ FILE"),
        (
            "up torchrun --nnodes 2 src/prime_rl/trainer/rl/train.py @ t.toml",
            "copy the layout torchrun-nodes",
        ),
        ("up torchrun x.py @ t.toml", "sft/train.py @ sft.toml"),
        ("up inference @ infer.toml --api-key secret", "export VLLM_API_KEY"),
        ("up make @ rl.toml", "write it as: rl @ rl.toml"),
        ("up rl @", "@ needs a file"),
        ("check medarc_slurm sft sft.toml --gpus 1", "submits to a cluster"),
        ("up rl.toml -- --=3", "not a config key: --"),
        ("up rl.toml -- -x 3", "not a key of the config: -x"),
    ],
)
def test_what_cannot_be_understood(line: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(line.split())
    assert words in str(refused.value)


def test_values_of_knobs_are_taken_as_set_takes_them() -> None:
    given = parse(["up", "rl.toml", "--set", "lr=1e-3", "--set=model.name=X", "-n", "b"]).config_line
    assert (given.edits, given.is_plain) == ({"lr": "1e-3", "model.name": "X"}, False)
    for line, words in (("--set lr=1 --set lr=2", "lr is set twice"), ("--set lr", "not KEY=VALUE: lr")):
        with pytest.raises(UsageError, match=words):
            parse(["up", "rl.toml", *line.split()])


SFT = "src/prime_rl/trainer/sft/train.py"


@pytest.mark.parametrize(
    ("line", "program", "overrides", "rest"),
    [
        ("up uv run inference @ infer.toml", "inference", {}, {"only": "inference"}),
        ("inference --model.name X", "inference", {"inference.model.name": ("X",)}, {}),
        (
            "up orchestrator @ o.toml --output-dir d --client.base-url u",
            "orchestrator",
            {"orchestrator.client.base_url": ("u",)},
            {"output_dir": "d", "only": "orchestrator"},
        ),
        (
            "up torchrun --nproc_per_node=2 -m prime_rl.trainer.rl.train @ t.toml --max-steps 5",
            "trainer",
            {"trainer.max_steps": ("5",), "orchestrator.num_train_workers": ("2",)},
            {"only": "trainer", "devices": None},
        ),
        (
            f"up uv run torchrun --log-dir x --nproc-per-node 2 {SFT} @ sft.toml --wandb.project p",
            "sft",
            {"wandb.project": ("p",)},
            {"layout": "torchrun-sft", "devices": "0,1", "only": None},
        ),
    ],
)
def test_lines_of_one_program(
    line: str, program: str, overrides: dict[str, tuple[str, ...]], rest: dict[str, str | None]
) -> None:
    """Finding S9."""
    arguments = parse(line.split())
    assert (arguments.config_line.component, arguments.config_line.overrides) == (
        program,
        overrides,
    )
    assert {name: getattr(arguments, name) for name in rest} == rest
