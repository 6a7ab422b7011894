from __future__ import annotations

import tomllib
from typing import Any

import pytest

from rltui.core.evals import EvalRequest, EvalTarget
from rltui.core.template import Missing, render
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFile, ConfigFiles, EvalCall, RunContext
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


def messages(rl: str = BASE, sft: str | None = None, severity: str = "error") -> list[str]:
    return [problem.message for problem in TINYRL.check(files(rl, sft)) if problem.severity == severity]


def with_orchestrator(lines: str) -> str:
    return f'[model]\nname = "m"\n[orchestrator]\n{lines}\n'


def test_a_sound_config_has_no_problems() -> None:
    assert TINYRL.check(files(BASE, SFT)) == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "batch_size = 100\nrollouts_per_example = 16",
            ("orchestrator.batch_size (100) must be divisible by orchestrator.rollouts_per_example (16): "
            "nearest valid batch_size is 96 or 112"),
        ),
        (
            "batch_size = 4\nrollouts_per_example = 16",
            ("orchestrator.batch_size (4) must be divisible by orchestrator.rollouts_per_example (16): "
            "nearest valid batch_size is 16"),
        ),
        (
            "rollouts_per_example = 3",
            ("orchestrator.batch_size (128) must be divisible by orchestrator.rollouts_per_example (3): "
            "nearest valid batch_size is 126 or 129"),
        ),
        (
            "batch_size = 64\ntoken_batch_size = 8192\nmax_inflight_rollouts = 64\nrollouts_per_example = 8",
            ("set exactly one of orchestrator.batch_size (64) or orchestrator.token_batch_size (8192): "
            "remove one of them"),
        ),
        (
            "token_batch_size = 8192\noversampling_factor = 2.0\nmax_inflight_rollouts = 64",
            ("orchestrator.oversampling_factor (2) can only be set when orchestrator.batch_size is set, but "
            "orchestrator.token_batch_size (8192) is: remove it and set orchestrator.max_inflight_rollouts"),
        ),
        (
            "token_batch_size = 65536\nrollouts_per_example = 12",
            ("orchestrator.max_inflight_rollouts must be set when orchestrator.token_batch_size (65536) is: "
            "at least orchestrator.rollouts_per_example (12), for example 264"),
        ),
        (
            "batch_size = 64\noversampling_factor = 2\nmax_inflight_rollouts = 100",
            ("orchestrator.max_inflight_rollouts (100) conflicts with orchestrator.oversampling_factor (2) * "
            "orchestrator.batch_size (64): remove one of them, or set max_inflight_rollouts to 128"),
        ),
        (
            "batch_size = 64\nrollouts_per_example = 16\nmax_inflight_rollouts = 8",
            ("orchestrator.max_inflight_rollouts (8) must be at least "
            "orchestrator.rollouts_per_example (16): "
            "nearest valid max_inflight_rollouts is 16"),
        ),
        (
            "seq_len = 4096",
            ("trainer.model.seq_len (256) must be at least orchestrator.seq_len (4096): "
            "raise it to 4096, or lower orchestrator.seq_len to 256"),
        ),
        (
            'client.base_url = "http://localhost:9000/v1"',
            ("orchestrator.client.base_url (http://localhost:9000/v1) must name the port of "
            "inference.server.port (8000): use the same port in both"),
        ),
        (
            'client.base_url = "http://gpu-7:9000/v1"',
            ("orchestrator.client.base_url (http://gpu-7:9000/v1) is on another host, gpu-7: nothing here "
            "asks the server at inference.server.port (8000). Use http://localhost:8000/v1, or let no server "
            "be started here, with --inference http://gpu-7:9000/v1"),
        ),
        (
            "batch_size = 0",
            "orchestrator.batch_size must be a whole number ≥ 1, not 0: the smallest allowed is 1",
        ),
        ('batch_size = "many"', 'orchestrator.batch_size must be a whole number ≥ 1, not "many"'),
        ("batch_size = {}", "orchestrator.batch_size must be a whole number ≥ 1, not a table"),
        ("batchsize = 64", "unknown key orchestrator.batchsize: did you mean orchestrator.batch_size?"),
        ("lr = 1.0", "unknown key orchestrator.lr: did you mean trainer.optim.lr?"),
        ("sampling.max_token = 5", ("unknown key orchestrator.sampling.max_token: did you mean "
         "orchestrator.sampling.max_tokens?")),
        ("sampling = 5", "orchestrator.sampling must be a table, not 5"),
        ("env = 'reverse-text'", "orchestrator.env must be a list of tables: write [[orchestrator.env]]"),
        (
            "env = [{ id = 'reverse_text' }]",
            'orchestrator.env.0.id is "reverse_text": did you mean reverse-text?',
        ),
        ("env = []", "orchestrator.env must have at least 1 element, not 0"),
        (
            "env = [{ args = { min_chars = 9 } }]",
            "orchestrator.env.0.args.min_chars (9) must be at most orchestrator.env.0.args.max_chars (7)",
        ),
        (
            "sampling.max_tokens = 128",
            (
                "orchestrator.sampling.max_tokens (128) leaves no room for a prompt within "
                "inference.model.max_model_len (128): set max_tokens to 127 or less, or "
                "inference.model.max_model_len to more than 128"
            ),
        ),
        (
            "max_async_level = 2",
            (
                "orchestrator.max_async_level (2) and trainer.max_async_level (1) must be the same: "
                "remove both and set max_async_level to 2 or 1"
            ),
        ),
        (
            "sampling.max_tokens = 16\nseq_len = 16",
            (
                "orchestrator.sampling.max_tokens (16) leaves no room for a prompt within "
                "orchestrator.seq_len (16): set max_tokens to 15 or less, or "
                "orchestrator.seq_len to more than 16"
            ),
        ),
        ("env = [{ nam = 'x' }]", "unknown key orchestrator.env.0.nam: did you mean orchestrator.env.name?"),
    ],
)  # fmt: skip
def test_check_names_the_rule_both_knobs_and_a_way_out(lines: str, message: str) -> None:
    assert messages(with_orchestrator(lines)) == [message]


def test_ratios_of_the_loss_are_in_order() -> None:
    low, high = "trainer.loss.mask_ratio_low", "trainer.loss.mask_ratio_high"
    (message,) = messages(f"{BASE}[trainer.loss]\nmask_ratio_low = 9\n")
    assert message == f"{low} (9) must be below {high} (8): an unchanged policy has ratio 1"


@pytest.mark.parametrize("share", ["0.0", "-0.1", "1.01", "nan"])
def test_check_bounds_the_share_of_gpu_memory(share: str) -> None:
    (message,) = messages(f"{BASE}gpu_memory_utilization = {share}\n")
    assert message.startswith("inference.gpu_memory_utilization must be a number > 0 and ≤ 1")


@pytest.mark.parametrize("share", ["1", "1.0", "0.001", "0.5"])
def test_check_accepts_any_share_up_to_one(share: str) -> None:
    assert messages(f"{BASE}gpu_memory_utilization = {share}\n") == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("[wandb]\nname = 'x'\n", "unknown key wandb.name: the embedded engine does not know it"),
        ("[optim]\nlr = 1.0\n", "unknown key optim.lr: did you mean trainer.optim.lr?"),
        ("[trainer]\nlr = 1.0\n", "unknown key trainer.lr: did you mean trainer.optim.lr?"),
    ],
)
def test_check_knows_where_a_key_belongs(lines: str, message: str) -> None:
    assert messages(BASE + lines) == [message]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[data]\nbatch_size = 30\nmicro_batch_size = 4\n",
            (
                "sft.data.batch_size (30) must be divisible by sft.data.micro_batch_size (4): "
                "nearest valid batch_size is 28 or 32"
            ),
        ),
        (
            "[data]\nbatch_size = 2\nmicro_batch_size = 4\n",
            (
                "sft.data.batch_size (2) must be at least sft.data.micro_batch_size (4): "
                "lower micro_batch_size to 2"
            ),
        ),
        ("[optim]\nlrr = 1\n", "unknown key sft.optim.lrr: did you mean optim.lr?"),
        (
            "[model]\nhidden_size = 90\n",
            (
                "sft.model.hidden_size (90) must be divisible by twice sft.model.num_attention_heads (4): "
                "nearest valid hidden_size is 88 or 96"
            ),
        ),
        (
            "[data]\nmin_chars = 9\n",
            "sft.data.min_chars (9) must be at most sft.data.max_chars (7)",
        ),
        (
            "[data]\nseq_len = 17\n",
            (
                "sft.data.seq_len (17) is too short for sft.data.max_chars (7): a text, its reversal and 4 "
                "special tokens need 18"
            ),
        ),
        (
            "[data]\nseq_len = 1024\n",
            (
                "sft.model.max_position_embeddings (512) must be at least sft.data.seq_len (1024): "
                "raise it to 1024, or lower sft.data.seq_len to 512"
            ),
        ),
    ],
)
def test_check_covers_the_warm_up(text: str, message: str) -> None:
    found = TINYRL.check(files(BASE, text))
    assert [(problem.message, problem.file) for problem in found] == [(message, "/c/sft.toml")]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("rollouts_per_example = 1", "advantage 0"),
        ("batch_size = 64\nrollouts_per_example = 8\nmax_inflight_rollouts = 32", "several rounds"),
    ],
)
def test_check_warns_of_what_is_allowed_but_doubtful(lines: str, words: str) -> None:
    assert messages(with_orchestrator(lines)) == []
    assert any(words in message for message in messages(with_orchestrator(lines), severity="warning"))


def test_shared_seq_len_fills_the_others() -> None:
    defaults = TINYRL.defaults(files())
    assert defaults["orchestrator.seq_len"] == defaults["trainer.model.seq_len"] == 256
    assert defaults["orchestrator.max_inflight_rollouts"] == 128


def test_values_that_the_engine_reads_are_read() -> None:
    texts = files(with_orchestrator('batch_size = "64"\nrollouts_per_example = 16'))
    (problem,) = TINYRL.check(texts)
    assert (problem.severity, problem.message) == (
        "warning", "orchestrator.batch_size is read as 64: write it so"
    )  # fmt: skip
    assert TINYRL.derive(texts)[0].value == 4


def test_none_is_a_text_like_any_other() -> None:
    (message,) = messages(with_orchestrator('batch_size = "None"'))
    assert message == 'orchestrator.batch_size must be a whole number ≥ 1, not "None"'


@pytest.mark.parametrize("lines", [f"batch_size = {10**400}", f"max_inflight_rollouts = {-(10**400)}"])
def test_huge_numbers_are_refused(lines: str) -> None:
    (message,) = messages(with_orchestrator(f"oversampling_factor = 1.5\n{lines}"))
    assert "64 bits" in message or "the smallest allowed is 1" in message


@pytest.mark.parametrize(
    "lines", ["[trainer]\nloss = 5", "[orchestrator]\nsampling = 'x'", "inference = []", "seq_len = 'long'"]
)
def test_what_is_below_a_wrong_value_is_no_further_problem(lines: str) -> None:
    broken = files(lines)
    assert len([each for each in TINYRL.check(broken) if each.severity == "error"]) == 1
    TINYRL.template_values(broken, context())
    assert (TINYRL.derive(broken), TINYRL.engine_memory(files("inference = 5"))) == ((), None)
    assert TINYRL.ports(files("inference = 5")) == ()


def test_main_knobs_come_first_in_our_order() -> None:
    knobs = TINYRL.knobs(files(BASE, SFT))
    main = [knob.main for knob in knobs]
    assert main == sorted(main, reverse=True)
    assert [knob.name for knob in knobs[:3]] == ["model.name", "max_steps", "seq_len"]
    assert [knob.name for knob in knobs if not knob.main] == [
        "output_dir", "orchestrator.env.0.id", "orchestrator.env.0.name",
        "orchestrator.env.0.args.min_chars", "orchestrator.env.0.args.max_chars", "sft.output_dir",
    ]  # fmt: skip


def test_keys_of_prime_rl_are_told_by_their_name_here() -> None:
    (message,) = messages(with_orchestrator("group_size = 8"))
    assert message.endswith("it is orchestrator.rollouts_per_example in this generation")


def test_derive_shows_its_arithmetic() -> None:
    derived = {item.name: item for item in TINYRL.derive(files(BASE, SFT))}
    assert derived["prompts per step"].value == 8
    assert derived["prompts per step"].text == "128 rollouts / 16 per example = 8 prompts per step"
    assert derived["tokens per step"].value == 128 * 256
    assert derived["rollouts in flight"].value == 128
    assert derived["sft micro-batches per optimizer step"].value == 32


def test_derive_in_token_mode() -> None:
    text = with_orchestrator("token_batch_size = 8192\nmax_inflight_rollouts = 32\nrollouts_per_example = 8")
    derived = {item.name: item for item in TINYRL.derive(files(text))}
    assert derived["prompts per step"].value is None
    assert derived["tokens per step"].value == 8192
    assert derived["rollouts in flight"].text == "32 rollouts at once, 4 whole groups of 8"


@pytest.mark.parametrize(
    "bad", ['batch_size = "many"', "batch_size = 0", "rollouts_per_example = 0", "seq_len = []"]
)
def test_derive_is_silent_about_nonsense(bad: str) -> None:
    assert TINYRL.derive(files(with_orchestrator(bad))) == ()


def context(**more: Any) -> RunContext:
    return RunContext("/w", "/w/out", "/py", **more)


def test_template_values() -> None:
    values = TINYRL.template_values(
        files(BASE + "server = { port = 8123, host = '0.0.0.0' }\n", SFT), context()
    )
    assert values["model_path"] == "/w/outputs/base"
    assert values["port.inference"] == "8123"
    assert values["host.inference"] == "127.0.0.1"
    assert values["config.sft"] == "/c/sft.toml"
    assert values["resume"] == ()
    assert TINYRL.template_values(files(), context(resume_step=5))["resume"] == ("--ckpt.resume-step", "5")


def test_overrides_go_before_the_config() -> None:
    plain = TINYRL.template_values(files(), context())
    assert (plain["overrides"], plain["port.inference"]) == ((), "8000")
    values = TINYRL.template_values(files(), context(overrides={"inference.server.port": 8001}))
    assert values["overrides"] == ("--inference.server.port", "8001")
    assert values["port.inference"] == "8001"


def test_port_may_be_chosen_anew_unless_the_config_gives_the_address_too() -> None:
    (port,) = TINYRL.ports(files(BASE + "server = { port = 8123 }\n"))
    assert (port.component, port.knob, port.port) == ("inference", "inference.server.port", 8123)
    assert set(port.readers) == {"inference", "orchestrator"}
    url = '[orchestrator.client]\nbase_url = "http://127.0.0.1:8000/v1"\n'
    assert TINYRL.ports(files(BASE + url)) == ()
    assert TINYRL.ports(files(BASE + 'server = { port = "many" }\n')) == ()


def test_a_missing_sft_file_is_told_where_it_is_needed() -> None:
    values = TINYRL.template_values(files(), context())
    assert isinstance(values["config.sft"], Missing)
    with pytest.raises(ConfigError) as caught:
        render("{config.sft}", values, where="tinyrl.toml: component 'sft'")
    assert "no sft.toml" in caught.value.title
    assert "add sft.toml beside the config" in caught.value.hint


def test_every_knob_explains_itself() -> None:
    knobs = TINYRL.knobs(files(BASE, SFT))
    names = [knob.name for knob in knobs]
    assert len(set(names)) == len(names)
    for knob in knobs:
        assert knob.help.endswith(".")
        assert knob.readers
        assert knob.default is None or knob.fault(knob.default) is None
        assert knob.default is not None or knob.nullable


def test_readers_follow_from_what_is_read() -> None:
    readers = {knob.name: set(knob.readers) for knob in TINYRL.knobs(files(BASE, SFT))}
    assert readers["model.name"] == {"inference", "orchestrator", "trainer"}
    assert readers["inference.server.port"] == {"inference", "orchestrator"}
    assert readers["max_steps"] == readers["ckpt.interval"] == {"orchestrator", "trainer"}
    assert readers["orchestrator.batch_size"] == {"orchestrator"}
    assert readers["sft.optim.lr"] == {"sft"}


def gpu_values(*cuda_devices: str) -> dict[str, object]:
    context = RunContext(workspace="/w", output_dir="/o", python="python", cuda_devices=cuda_devices)
    values = TINYRL.template_values(files(BASE + "gpu_memory_utilization = 0.4\n"), context)
    return {name: value for name, value in values.items() if name.startswith("gpu")}


def test_every_program_that_computes_does_so_on_the_first_device() -> None:
    assert gpu_values("GPU-1", "GPU-2") == {
        "gpus.inference": "GPU-1",
        "gpus.trainer": "GPU-1",
        "gpus.sft": "GPU-1",
        "gpus.orchestrator": "",
        "gpu_memory.inference": "0.4",
    }


def test_without_cuda_nothing_is_asked_of_a_gpu() -> None:
    assert set(gpu_values().values()) == {""}


def test_engine_is_what_the_config_says() -> None:
    engine = TINYRL.engine_memory(files(BASE + "gpu_memory_utilization = 0.4\nmax_num_seqs = 7\n"))
    assert engine is not None
    assert (engine.component, engine.utilization, engine.model) == ("inference", 0.4, "outputs/base")
    assert engine.max_num_seqs == 7


def test_engine_with_a_faulty_value_is_unknown() -> None:
    assert TINYRL.engine_memory(files(BASE + "gpu_memory_utilization = 1.4\n")) is None


RUN = RunContext(workspace="/w", output_dir="/w/out", python="/py")


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
        model = TINYRL.eval_model(files(), RUN, target)
        assert [*model.places] == folders
        assert (model.kind, model.label, model.step) == (target.kind, target.label, target.step)
    with pytest.raises(ConfigError, match="the config names no model"):
        TINYRL.eval_model(files("[model]\nname = 3\n"), RUN, EvalTarget(kind="base"))


def test_only_the_task_that_there_is_is_evaluated() -> None:
    assert (TINYRL.eval_env(files()), TINYRL.eval_max_tokens(files())) == ("reverse-text", 16)
    call = EvalCall(EvalRequest(env="gsm8k"), "http://127.0.0.1:1/v1", "m", "/r")
    with pytest.raises(ConfigError, match="evaluates on reverse-text only, not on gsm8k"):
        TINYRL.evaluation(files(), RUN, call)
