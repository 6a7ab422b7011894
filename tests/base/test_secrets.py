"""Findings H4, H16: which keys hold secrets, and how they are told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies

from rltui.base.secrets import MASK, OTHER_MASK, is_secret, mask_text, mask_value, redact
from rltui.core.config.report import KeyConflict, KeyDifference, KnobInfo, PendingKnob

SECRETS = """
token api_key key secret password wandb.api_key orchestrator.client.api_key hf_token HF_TOKEN
env.WANDB_API_KEY env.AWS_SECRET_ACCESS_KEY hub_token push_to_hub_token access_token authToken
apiKey inference.api-key client_secret secrets.mine credentials.user ssh_key private_key
headers.Authorization slack_webhook ssl_keyfile_password api_keys api_keys.0 auth_tokens.1
"secret".x env."A.B_TOKEN" db_passwd passphrase
"""
PLAIN = """
max_tokens tokenizer tokenizer.name num_key_value_heads token_batch_size
orchestrator.token_batch_size min_tokens max_completion_tokens tokenizer_mode tokenizer_revision
skip_tokenizer_init eos_token pad_token bos_token unk_token stop_token image_token token_mask_low
enable_token_export use_token_client api_key_var key_path token_file secret_name prompt_key
answer_key question_key reward_key input_key env_key keys resume_keys stop_token_ids
extra_special_tokens special_tokens tokens max_num_batched_tokens fused_lm_head_token_chunk_size
keyboard monkey cache_key author authority mean_tokens deepep_token_chunk_size token_exports
num_total_tokens detokenize per_token_loss seq_len served_model_name ssl_keyfile
encoder_cudagraph_token_budgets passes compass
"""


@pytest.mark.parametrize("key", SECRETS.split())
def test_keys_of_secrets(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize("key", PLAIN.split())
def test_keys_of_no_secrets(key: str) -> None:
    assert not is_secret(key)


def test_only_text_is_a_secret() -> None:
    assert [mask_value("token", value) for value in (5, True, None, 1.5, "abc", ["a", 2])] == [
        5, True, None, 1.5, MASK, [MASK, 2],
    ]  # fmt: skip
    assert mask_value("env", {"HF_TOKEN": "abc", "HOME": "/root"}) == {"HF_TOKEN": MASK, "HOME": "/root"}


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ('api_key = "sk-1" # mine\n', 'api_key = "(hidden)" # mine\n'),
        ("max_tokens = 5\ntoken = 'x'\n", 'max_tokens = 5\ntoken = "(hidden)"\n'),
        ('e = { HF_TOKEN = "x", N = "y" }\n', 'e = { HF_TOKEN = "(hidden)", N = "y" }\n'),
        ('[a.secrets]\nx = "y"\n[b]\nx = "y"', '[a.secrets]\nx = "(hidden)"\n[b]\nx = "y"'),
        ('api_keys = [\n  "a",\n  "b", # c\n]\n', 'api_keys = [\n  "(hidden)",\n  "(hidden)", # c\n]\n'),
        ('token = """one\ntwo\nthree"""\nx = 1\n', 'token = "(hidden)"\n\n\nx = 1\n'),
        ('# token = "old"\nx = 1\n', '# token = "(hidden)"\nx = 1\n'),
        ('api_key = "half\nx = 1\n', 'api_key = "(hidden)"\nx = 1\n'),
        ("api_key = sk-1\n[[", 'api_key = "(hidden)"\n[['),
        ("token = true\nkey = 3\n", "token = true\nkey = 3\n"),
        ("export HF_TOKEN=hf_1; run\n", 'export HF_TOKEN="(hidden)"; run\n'),
        ("srun --export=ALL,API_KEY=sk-1 run", 'srun --export=ALL,API_KEY="(hidden)" run'),
        ("A_TOKEN=$B_TOKEN x", "A_TOKEN=$B_TOKEN x"),
        ('A_TOKEN="${B_TOKEN:-}"\n', 'A_TOKEN="${B_TOKEN:-}"\n'),
        ("A_TOKEN=${B_TOKEN:-hf_1}", 'A_TOKEN="(hidden)"}'),
        ('PASSWORD="$ecret"', 'PASSWORD="(hidden)"'),
        ("A_TOKEN=;", "A_TOKEN=;"),
        ("", ""),
    ],
)
def test_texts_are_told_without_secrets_line_by_line(text: str, output: str) -> None:
    assert mask_text(text) == output
    assert mask_text(text).count("\n") == text.count("\n")


SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=one
export WANDB_API_KEY=sk-1
[[ -n "$HF_TOKEN" ]] && { source .env; }
cleanup() { kill %1, %2; }
trap cleanup EXIT
"""
PIECES = (
    """ ] } , [[ x=[ x={ " ' "." '.' "a". a= token= token="\\ token=; token='x'⏎ a.a. [a]⏎ [[a]]⏎ a=1⏎ """
    """ \"\"\" ''' token=\"\"\"⏎ "a"x """
)


@pytest.mark.parametrize("piece", [SCRIPT, "a ", '"a" ', *PIECES.replace("⏎", "\n").split(" ")])
def test_texts_of_any_kind_are_told_however_long_they_are(piece: str) -> None:
    text = piece * (50_000 // max(1, len(piece)))
    output = mask_text(text)
    assert output.count("\n") == text.count("\n")
    assert "sk-1" not in output


@given(strategies.lists(strategies.sampled_from(["token", *"ab=. \t\n\"'#[]{},;$\\"])).map("".join))
def test_telling_a_text_keeps_its_lines_whatever_they_say(text: str) -> None:
    output = mask_text(f"{text}\napi_key = sk-1\n")
    assert output.count("\n") == text.count("\n") + 2
    assert "sk-1" not in output


def test_what_is_told_of_keys_is_masked_wherever_it_is_made() -> None:
    knob = KnobInfo(key="wandb.api_key", file="rl.toml", value="a", running="b", is_running=True)
    assert (knob.value, knob.running, knob.changed) == (MASK, OTHER_MASK, True)
    same = KnobInfo(key="wandb.api_key", file="rl.toml", value="a", running="a", is_running=True)
    assert (same.value, same.running, same.changed) == (MASK, MASK, False)
    assert KnobInfo.from_json(knob.to_json()) == knob
    models = (
        KeyConflict(key="token", base="a", theirs="b", yours="c"),
        KeyDifference(key="token", file="rl.toml", before="a", after="b"),
        PendingKnob(key="token", running="a", value="b"),
    )
    assert all(f'"{letter}"' not in model.to_json().decode() for model in models for letter in "abc")
    assert KeyDifference(key="token_batch_size", file="x", before="a").before == "a"


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("401 for hf_abcdefghijklmnopqrst of me", "401 for (hidden) of me"),
        ("provided: sk-proj-aaaaaaaaaaaaaaaaaaaa.", "provided: (hidden)."),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer (hidden)"),
        ("'Authorization': 'Basic dXNlcjpwYXNz'", "'Authorization': 'Basic (hidden)'"),
        ("Bearer authentication is needed", "Bearer authentication is needed"),
        ("cannot clone https://me:TOKEN@host/x", "cannot clone https://me:(hidden)@host/x"),
        ("https://abcdefghij0123456789@host/x", "https://(hidden)@host/x"),
        ("ssh://git@host/x and a@b:c", "ssh://git@host/x and a@b:c"),
        ("api_key: abc", "api_key: (hidden)"),
        ('{"api_key": "a b", "n": 1}', '{"api_key": "(hidden)", "n": 1}'),
        (r'"{\"hf_token\": \"abc\"}"', r'"{\"hf_token\": \"(hidden)\"}"'),
        ("run --api-key abc --seed 3", "run --api-key (hidden) --seed 3"),
        ("GET /v1?token=a1b2c3d4e5&x=1", "GET /v1?token=(hidden)&x=1"),
        ("password=hunter2", "password=(hidden)"),
        ("my value is s3cret-of-mine.", "my value is (hidden)."),
    ],
)
def test_what_programs_print_is_told_without_tokens_and_passwords(text: str, output: str) -> None:
    assert redact(text, ["s3cret-of-mine"]) == output
    assert redact(output, ["s3cret-of-mine"]) == output


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'reward'",
        "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
        "sorted(rows, key=len), key: reward, token: <eos>, eos_token: '</s>'",
        "max_tokens: 512, num_key_value_heads=8, tokens/s: 12345.6, api_key=None, api_key: $HF_TOKEN",
        "Engine 000: Avg prompt throughput: 4596.8 tokens/s, GPU KV cache usage: 12.3%",
        "unexpected keyword argument: 'foo' monkey=1",
    ],
)
def test_other_texts_are_told_as_they_are(text: str) -> None:
    assert redact(text) == text


@given(
    strategies.recursive(
        strategies.text(alphabet="akeyp:=\"' -/@token1\n\\", max_size=40) | strategies.none(),
        lambda inner: (
            strategies.lists(inner) | strategies.dictionaries(strategies.sampled_from("abk"), inner)
        ),
    )
)
def test_json_stays_json(value: object) -> None:
    for text in (json.dumps({"api_key": value}), json.dumps(value, ensure_ascii=False)):
        json.loads(redact(text))


@pytest.mark.parametrize("text", ["hf_abcdefghijklmnopqrstuv", "password: hunter22", "Bearer abc.DEF123456"])
def test_a_secret_at_the_start_of_a_line_is_one_in_json_too(text: str) -> None:
    for before in "\n\t\r":
        for document in (json.dumps(before + text), repr(before + text)):
            assert MASK in redact(document), document


@given(strategies.text(alphabet="akey:=\"' -/@token\n\\\\", max_size=200))
def test_lines_stay_lines_and_twice_hidden_is_hidden(text: str) -> None:
    output = redact(text)
    assert output.count("\n") == text.count("\n")
