# ruff: noqa: E501, ISC004 - tables of messages, as long as those are
from __future__ import annotations

from pathlib import Path

import pytest

from rltui.tinyrl.config import RlConfig, SftConfig
from rltui.tinyrl.config_file import load_config, parse_arguments
from rltui.tinyrl.errors import TinyrlError

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


RULES = [
    (
        ["--orchestrator.batch-size", "128", "--orchestrator.token-batch-size", "4096"],
        "set exactly one of orchestrator.batch_size (128) or orchestrator.token_batch_size (4096)",
    ),
    (
        ["--orchestrator.token-batch-size", "9", "--orchestrator.oversampling-factor", "2",
         "--orchestrator.max-inflight-rollouts", "8"],
        "orchestrator.oversampling_factor (2) can only be set when orchestrator.batch_size is set",
    ),
    (
        ["--orchestrator.token-batch-size", "4096"],
        "orchestrator.max_inflight_rollouts must be set when orchestrator.token_batch_size (4096) is",
    ),
    (
        ["--orchestrator.batch-size", "100", "--orchestrator.rollouts-per-example", "16"],
        "orchestrator.batch_size (100) must be divisible by orchestrator.rollouts_per_example (16): nearest valid"
        " batch_size is 96 or 112",
    ),
    (
        ["--orchestrator.batch-size", "8", "--orchestrator.oversampling-factor", "2",
         "--orchestrator.max-inflight-rollouts", "9"],
        "orchestrator.max_inflight_rollouts (9) conflicts with orchestrator.oversampling_factor (2) *"
        " orchestrator.batch_size (8): remove one of them, or set max_inflight_rollouts to 16",
    ),
    (
        ["--orchestrator.rollouts-per-example", "16", "--orchestrator.max-inflight-rollouts", "8"],
        "orchestrator.max_inflight_rollouts (8) must be at least orchestrator.rollouts_per_example (16)",
    ),
    (["--trainer.model.seq-len", "64"], "trainer.model.seq_len (64) must be at least orchestrator.seq_len (256)"),
    (
        ["--orchestrator.sampling.max-tokens", "128"],
        "orchestrator.sampling.max_tokens (128) leaves no room for a prompt within inference.model.max_model_len"
        " (128): set max_tokens to 127 or less",
    ),
    (
        ["--trainer.max-async-level", "0"],
        "orchestrator.max_async_level (1) and trainer.max_async_level (0) must be the same",
    ),
    (
        ["--trainer.loss.mask-ratio-low", "9"],
        "trainer.loss.mask_ratio_low (9) must be below trainer.loss.mask_ratio_high (8)",
    ),
    (
        ["--orchestrator.client.base-url", "http://localhost:8001/v1"],
        "orchestrator.client.base_url (http://localhost:8001/v1) must name the port of inference.server.port (8000)",
    ),
    (["--orchestrator.env", '[{id = "gsm8k"}]'], 'orchestrator.env.0.id is "gsm8k": there is reverse-text'),
    (
        ["--orchestrator.env", "[{args = {min_chars = 9, max_chars = 3}}]"],
        "orchestrator.env.0.args.min_chars (9) must be at most orchestrator.env.0.args.max_chars (3)",
    ),
    (["--model.name", ""], 'model.name must name a folder, such as "outputs/reverse-text-sft"'),
    (["--max-steps", "0"], "command line: max_steps: Input should be greater than or equal to 1, got 0"),
    (["--inference.gpu-memory-utilization", "1.5"], "less than or equal to 1, got 1.5"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), RULES, ids=[message[:40] for _, message in RULES])
def test_rl_rules(words: list[str], message: str) -> None:
    assert message in rl_error(*words)


SFT_RULES = [
    (
        ["--data.batch-size", "30", "--data.micro-batch-size", "8"],
        "data.batch_size (30) must be divisible by data.micro_batch_size (8): nearest valid batch_size is 24 or 32",
    ),
    (
        ["--data.batch-size", "4", "--data.micro-batch-size", "8"],
        "data.batch_size (4) must be at least data.micro_batch_size (8)",
    ),
    (["--model.hidden-size", "90"], "nearest valid hidden_size is 88 or 96"),
    (["--data.min-chars", "9"], "data.min_chars (9) must be at most data.max_chars (7)"),
    (["--data.seq-len", "17"], "data.seq_len (17) is too short for data.max_chars (7)"),
    (["--data.seq-len", "1024"], "model.max_position_embeddings (512) must be at least data.seq_len (1024)"),
]


@pytest.mark.parametrize(("words", "message"), SFT_RULES, ids=[message[:40] for _, message in SFT_RULES])
def test_sft_rules(words: list[str], message: str) -> None:
    with pytest.raises(TinyrlError) as caught:
        load_config(SftConfig, parse_arguments(words))
    assert message in str(caught.value)


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
