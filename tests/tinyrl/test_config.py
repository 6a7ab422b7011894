# ruff: noqa: E501, ISC004 - tables of messages, as long as those are
from __future__ import annotations

from pathlib import Path

import pytest

from rltui.tinyrl import TinyrlError
from rltui.tinyrl.config import RlConfig, SftConfig
from rltui.tinyrl.config_file import load_config, parse_arguments

EXAMPLES = Path(__file__).parents[2] / "examples" / "reverse_text"


def rl(*words: str) -> RlConfig:
    return load_config(RlConfig, parse_arguments(list(words)))


def rl_error(*words: str) -> str:
    with pytest.raises(TinyrlError) as caught:
        rl(*words)
    return str(caught.value)


def test_examples_are_valid() -> None:
    config = rl("@", str(EXAMPLES / "rl.toml"))
    sft = load_config(SftConfig, parse_arguments(["@", str(EXAMPLES / "sft.toml")]))
    assert config.model.name == str(sft.output_dir)
    assert config.orchestrator.env[0].args.max_chars == sft.data.max_chars


def test_later_files_and_the_command_line_win(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("max_steps = 1\nseed = 1\n[orchestrator.sampling]\nmax-tokens = 9\n")
    (tmp_path / "b.toml").write_text("seed = 2\n[orchestrator.sampling]\ntemperature = 0.5\n")
    config = rl("@", str(tmp_path / "a.toml"), "@", str(tmp_path / "b.toml"), "--seed", "3")
    assert (config.max_steps, config.seed) == (1, 3)
    assert (config.orchestrator.sampling.max_tokens, config.orchestrator.sampling.temperature) == (9, 0.5)


def test_shared_seq_len_fills_only_what_is_unset() -> None:
    config = rl("--seq-len", "64", "--orchestrator.seq-len", "32")
    assert (config.orchestrator.seq_len, config.trainer.model.seq_len) == (32, 64)


def test_defaults_are_resolved() -> None:
    config = rl("--inference.server.port", "8123")
    assert config.orchestrator.batch_size == 128
    assert config.inflight_limit == 128
    assert config.base_url == "http://127.0.0.1:8123"
    assert rl("--orchestrator.oversampling-factor", "1.5").inflight_limit == 192


def test_rules_between_knobs_are_told_all_at_once() -> None:
    """Each rule has its test in `tests/frameworks/test_tinyrl_framework.py`."""
    words = ["--orchestrator.batch-size", "100", "--orchestrator.rollouts-per-example", "16"]
    assert rl_error(*words, "--orchestrator.env", '[{id = "gsm8k"}]', "--model.name", "").splitlines() == [
        'command line: model.name must name a folder, such as "outputs/reverse-text-sft"',
        "orchestrator.batch_size (100) must be divisible by orchestrator.rollouts_per_example (16):"
        " nearest valid batch_size is 96 or 112",
        'orchestrator.env.0.id: unknown environment "gsm8k": available: reverse-text',
    ]
    with pytest.raises(TinyrlError, match=r"command line: data\.batch_size \(30\) must be divisible by"):
        load_config(SftConfig, parse_arguments(["--data.batch-size", "30", "--data.micro-batch-size", "8"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-steps", "0"], "command line: max_steps: Input should be greater than or equal to 1, got 0"),
        (["--inference.gpu-memory-utilization", "1.5"], "less than or equal to 1, got 1.5"),
    ],
)
def test_bounds_are_told_with_the_value(words: list[str], message: str) -> None:
    assert message in rl_error(*words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[orchestrator]\nbatchsize = 3\n", "orchestrator.batchsize: unknown key. Did you mean orchestrator.batch_size?"),
        ("[trainer]\nlr = 1\n", "trainer.lr: unknown key. Did you mean trainer.optim.lr?"),
        ("[trainer.optim]\nlrr = 1\n", "Did you mean trainer.optim.lr?"),
        ("zzz = 1\n", "zzz: unknown key. Remove it, or use one of: ckpt"),
        ("[orchestrator]\nbatch_size = 'many'\n", "orchestrator.batch_size: Input should be a valid integer"),
        ("a = = 1\n", ":1:5: TOML syntax error"),
        ("max_steps = 1\nmax_steps = 2\n", ":2:14: TOML syntax error"),
    ],
)  # fmt: skip
def test_file_errors_name_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rl.toml"
    path.write_text(text)
    found = rl_error("@", str(path))
    assert found.startswith(str(path))
    assert message in found


def test_missing_file_is_named(tmp_path: Path) -> None:
    assert rl_error("@", str(tmp_path / "no.toml")) == (
        f"{tmp_path / 'no.toml'}: cannot read the config file: No such file or directory"
    )


def test_files_and_overrides_keep_their_order() -> None:
    arguments = parse_arguments(["@", "a.toml", "--max-steps", "5", "@", "b.toml", "--trainer.optim.lr=1e-3"])
    assert arguments.files == [Path("a.toml"), Path("b.toml")]
    assert arguments.overrides == {"max_steps": 5, "trainer.optim.lr": 1e-3}


@pytest.mark.parametrize(
    ("words", "overrides"),
    [
        (["--a=3", "--b", "1e-3", "--c=true"], {"a": 3, "b": 1e-3, "c": True}),
        (["--a", "None", "--b=a/b", '--c="3"'], {"a": None, "b": "a/b", "c": "3"}),
        (["--ckpt.resume-step", "-1"], {"ckpt.resume_step": -1}),
        (
            ["--a.strict-async-level", "--a.no-other", "@", "a.toml"],
            {"a.strict_async_level": True, "a.other": False},
        ),
        (["--inference.gpu-memory-utilization=", "--seed=3"], {"seed": 3}),
    ],
    ids=["TOML", "text", "negative number", "flags", "nothing in it"],
)
def test_options_have_values(words: list[str], overrides: dict[str, object]) -> None:
    assert parse_arguments(words).overrides == overrides


@pytest.mark.parametrize(
    ("words", "message"),
    [(["@"], "needs a file"), (["@rl.toml"], "put a space"), (["rl.toml"], "unexpected argument")],
)
def test_wrong_words_are_explained(words: list[str], message: str) -> None:
    with pytest.raises(TinyrlError, match=message):
        parse_arguments(words)
