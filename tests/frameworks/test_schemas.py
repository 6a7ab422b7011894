from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rltui.core.config.report import Problem
from rltui.core.config.rules import Rule, Values
from rltui.core.config.schema import ConfigSchema
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.frameworks.schemas import Concept, Grammar, Names, Overlay, SchemaConfig

OVERLAY = Overlay.parse("""
[readers]
"" = ["trainer", "orchestrator"]
trainer = ["trainer"]
"trainer.server.port" = ["trainer", "orchestrator"]
sft = ["sft"]

[like]
sft = "trainer"

[shared]
seq_len = ["trainer.seq_len", "orchestrator.seq_len"]

[gone]
"old" = "removed: nobody asked for it"
"trainer.fake" = "it is gone"

[concept.batch]
keys = ["orchestrator.batch_size", "orchestrator.batch"]
help = "Ours."
unit = "rollouts"
control = "doubling"
main = true

[concept."trainer.lr"]
help = "Rate."
main = true

[concept.sampling]
keys = ["orchestrator.sampling", "sampling"]

[concept.offload]
keys = ["trainer.offload_all", "trainer.offload"]
""")


def whole(default: int | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "default": default, **more}


def table(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def document(**top: Any) -> dict[str, Any]:
    number = {"type": "number", "default": 0.5, "description": "Theirs. More."}
    server = table(port=whole(80), host={"type": "string", "default": "h"})
    definitions = {
        "Trainer": table(
            lr=number, seq_len={"anyOf": [whole(), {"type": "null"}]}, offload_all=whole(0),
            server={"$ref": "#/$defs/Server", "default": {}},
        ),
        "Orchestrator": table(
            batch_size=whole(8, minimum=1), seq_len=whole(4),
            sampling={"$ref": "#/$defs/Sampling", "default": {}},
        ),
        "Sampling": table(temperature=number),
        "Server": server,
        "Adam": table(type={"const": "adam"}, beta=whole(1)),
        "Sgd": table(type={"const": "sgd"}, momentum=whole(2)),
    }  # fmt: skip
    optim = {"propertyName": "type", "mapping": {"adam": "#/$defs/Adam", "sgd": "#/$defs/Sgd"}}
    found = table(
        seq_len={"anyOf": [whole(minimum=1), {"type": "null"}]},
        max_steps=whole(9),
        trainer={"$ref": "#/$defs/Trainer", "default": {}},
        orchestrator={"$ref": "#/$defs/Orchestrator", "default": {}},
        optim={"discriminator": optim, "oneOf": [], "default": {"type": "adam"}},
        **top,
    )  # fmt: skip
    return {**found, "$defs": definitions}


SCHEMA = ConfigSchema(document())
SFT = ConfigSchema(table(lr={"type": "number", "default": 1.0}, offload_all=whole(0), seed=whole(1)))


GRAMMAR = Grammar(
    reader="the engine",
    overlay=OVERLAY,
    namespaces={"rl": "", "sft": "sft"},
    schema=lambda file: {"rl": SCHEMA, "sft": SFT}[file.role],
)


def over(rules: tuple[Rule, ...] = (), schema: ConfigSchema = SCHEMA, **more: Any) -> SchemaConfig:
    schemas = {"rl": schema, "sft": SFT}
    grammar = replace(GRAMMAR, schema=lambda file: schemas[file.role], rules=lambda names: rules)
    return SchemaConfig(replace(grammar, **more))


def files(rl: str | None = "", sft: str | None = None) -> ConfigFiles:
    texts = {"rl": rl, "sft": sft}
    return {
        role: ConfigFile(role, f"/{role}.toml", tomllib.loads(text))
        for role, text in texts.items()
        if text is not None
    }


def problems(configs: SchemaConfig, loaded: ConfigFiles) -> list[tuple[str, str | None, str]]:
    return [(problem.severity, problem.key, problem.message) for problem in configs.check(loaded)]


def always(*needs: str, key: str = "", says: str = "told") -> Rule:
    return Rule(key or needs[0], needs, lambda values: says)


@pytest.mark.parametrize(
    ("name", "readers"),
    [("max_steps", ("trainer", "orchestrator")), ("trainer.lr", ("trainer",)), ("trainer", ("trainer",)),
     ("trainer.server.port", ("trainer", "orchestrator")), ("trainer.server.host", ("trainer",)),
     ("trainers", ("trainer", "orchestrator")), ('trainer."a.b".c', ("trainer",)), ("sft.x", ("sft",))],
)  # fmt: skip
def test_the_longest_beginning_tells_the_readers(name: str, readers: tuple[str, ...]) -> None:
    assert OVERLAY.readers_of(name) == readers


def test_an_overlay_without_readers_for_the_rest_ends() -> None:
    assert Overlay.parse("concept = {}").readers_of("a.b") == ()


def test_a_concept_is_found_by_any_of_its_names_and_by_tables_that_are_alike() -> None:
    assert OVERLAY.of("orchestrator.batch") is OVERLAY.concepts["batch"]
    assert OVERLAY.of("sft.lr") is OVERLAY.concepts["trainer.lr"]
    assert OVERLAY.of("sft.seed") is None
    assert OVERLAY.concepts["trainer.lr"] == Concept(("trainer.lr",), "Rate.", main=True)


def test_knobs_get_what_the_overlay_knows_and_main_ones_come_first_in_its_order() -> None:
    knobs = over().knobs(files("trainer.lr = 1.0", ""))
    assert [knob.name for knob in knobs[:3]] == ["orchestrator.batch_size", "trainer.lr", "sft.lr"]
    batch, rate, _, *others = knobs
    assert (batch.help, batch.unit, batch.control, batch.main) == ("Ours.", "rollouts", "doubling", True)
    assert (rate.help, rate.readers) == ("Rate.", ("trainer",))
    assert not any(knob.main for knob in others)
    (theirs,) = [knob for knob in others if knob.name == "orchestrator.sampling.temperature"]
    assert (theirs.help, theirs.readers) == ("Theirs.", ("trainer", "orchestrator"))


@pytest.mark.parametrize(
    ("text", "sft", "key", "words"),
    [
        ("orchestrator.batch = 1", None, "orchestrator.batch",
         "use orchestrator.batch_size in this generation"),
        ("sampling.temperature = 1", None, "sampling", "use orchestrator.sampling in this generation"),
        ("old.deep = 1", None, "old", "removed: nobody asked for it"),
        ("trainer.fake.x = 1", None, "trainer.fake", "it is gone"),
        ("trainer.offload = 1", None, "trainer.offload", "use trainer.offload_all in this generation"),
        ("", "offload = 1", "sft.offload", "use sft.offload_all in this generation"),
        ('trainer."a.b" = 1', None, 'trainer."a.b"', "the engine has no such key"),
    ],
)  # fmt: skip
def test_what_has_another_name_or_is_gone_is_told_so(
    text: str, sft: str | None, key: str, words: str
) -> None:
    assert problems(over(), files(text, sft)) == [("error", key, f"unknown key {key}: {words}")]


def test_names_are_those_of_the_schemas_in_force() -> None:
    names = over().names(files("", ""))
    assert (names("batch"), names("offload"), names("max_steps")) == (
        "orchestrator.batch_size", "trainer.offload_all", "max_steps"
    )  # fmt: skip
    assert (names.get("never"), names("never") if "never" in OVERLAY.concepts else None) == (None, None)
    assert [names.has(name) for name in ("sft", "sft.seed", "sft.max_steps", "trainer", "seed")] == [
        True, True, False, True, False
    ]  # fmt: skip
    assert not over().names(files("")).has("sft.seed")
    assert over().names(files(None, "")).get("batch") is None
    assert over().names(files(None, ""))("batch") == "orchestrator.batch_size"
    assert list(names.shared()) == [("seq_len", "trainer.seq_len"), ("seq_len", "orchestrator.seq_len")]


def test_the_name_that_the_file_uses_goes_first() -> None:
    json_schema = document()
    json_schema["$defs"]["Orchestrator"]["properties"]["batch_size"]["x-aliases"] = ["batch"]
    schema = ConfigSchema(json_schema)
    configs = over(schema=schema)
    configs = SchemaConfig(replace(configs.grammar, rules=lambda names: (always(names("batch")),)))
    for name in ("orchestrator.batch_size", "orchestrator.batch"):
        loaded = files(f"{name} = 3")
        assert (configs.names(loaded)("batch"), configs.values(loaded)[name]) == (name, 3)
        assert problems(configs, loaded) == [("error", name, "told")]


def test_keys_of_other_releases_are_told_by_their_names_here() -> None:
    assert over().renamed(files("")) == {
        "orchestrator.batch": "use orchestrator.batch_size in this generation",
        "sampling": "use orchestrator.sampling in this generation",
        "trainer.offload": "use trainer.offload_all in this generation",
        "old": "removed: nobody asked for it",
        "trainer.fake": "it is gone",
    }


@pytest.mark.parametrize(
    ("rule", "text", "is_asked"),
    [
        (always("max_steps"), "", True),
        (always("max_steps", "nowhere"), "", False),
        (always("max_steps", key="nowhere"), "", False),
        (always("sft.seed"), "", False),
        (always("max_steps"), "max_steps = 'x'", False),
        (always("trainer.server.port"), "trainer.server = 5", False),
        (always("trainer.server.port"), "trainer = 5", False),
        (always("trainer.server"), "", True),
        (always("optim.beta"), "", True),
        (always("optim.beta"), "optim.type = 'sgd'", False),
        (always("optim.momentum"), "optim.type = 'sgd'", True),
        (always("optim.momentum"), "optim.type = 'lion'", False),
        (always("max_steps"), "zz = 1", True),
    ],
)  # fmt: skip
def test_a_rule_is_asked_where_all_that_it_looks_at_is_there_and_sound(
    rule: Rule, text: str, is_asked: bool
) -> None:
    assert (("error", rule.key, "told") in problems(over((rule,)), files(text))) is is_asked


def test_rules_see_what_is_read() -> None:
    rule = Rule("max_steps", ("max_steps",), lambda v: "large" if v["max_steps"] == 128 else None)
    assert problems(over((rule,)), files("max_steps = '128'")) == [
        ("warning", "max_steps", "max_steps is read as 128; write 128"),
        ("error", "max_steps", "large"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("date", "text", "severity"),
    [
        ("", "zz = 1", "error"),
        ("May", "", "error"),
        ("May", "zz = 1", "warning"),
        ("May", "max_stepz = 1", "error"),
    ],
)
def test_rules_are_warnings_for_a_file_of_another_release(date: str, text: str, severity: str) -> None:
    configs = over((always("max_steps"),), ConfigSchema(document(), date=date))
    assert (severity, "max_steps", "told") in problems(configs, files(text))


def test_problems_name_their_file_and_what_else_could_be_changed() -> None:
    rule = Rule(
        "sft.seed", ("sft.seed", "max_steps"), lambda v: "told", "hint", {"max_steps": lambda v: "5 or 6"}
    )
    (problem,) = over((rule,)).check(files("", ""))
    assert (problem.file, problem.severity, problem.instead) == ("/sft.toml", "hint", {"max_steps": "5 or 6"})


def test_a_shared_key_fills_those_that_are_not_set() -> None:
    configs, loaded = over(), files("seq_len = 7\norchestrator.seq_len = 5")
    assert configs.defaults(loaded) == {"trainer.seq_len": 7}
    assert [configs.values(loaded)[name] for name in ("trainer.seq_len", "orchestrator.seq_len")] == [7, 5]
    assert configs.defaults(files("")) == {}


def test_what_follows_from_a_faulty_value_is_faulty_too() -> None:
    configs = over((always("trainer.seq_len"), always("orchestrator.seq_len")))
    loaded = files("seq_len = 0\norchestrator.seq_len = 5")
    assert configs.defaults(loaded) == {}
    assert [key for _, key, _ in problems(configs, loaded)] == ["seq_len", "orchestrator.seq_len"]
    assert (configs.sound_value(loaded, "trainer.seq_len"), configs.sound_values(loaded)) == (None, None)
    assert (configs.sound_value(loaded, "max_steps"), configs.sound_value(loaded, "nope")) == (9, None)


def following(files: ConfigFiles, values: Values, names: Names) -> Mapping[str, Any]:
    return {"orchestrator.batch_size": 3 * (values["max_steps"] or 1), "nowhere": 1}


@pytest.mark.parametrize(
    ("text", "value", "default"),
    [
        ("max_steps = 2", 6, 6),
        ("max_steps = 2\norchestrator.batch_size = 5", 5, 6),
        ("max_steps = 'x'", 3, 3),
    ],
)
def test_defaults_may_follow_from_other_values(text: str, value: int, default: int) -> None:
    configs, loaded = over(following=following), files(text)
    assert configs.values(loaded)["orchestrator.batch_size"] == value
    assert configs.defaults(loaded) == {"orchestrator.batch_size": default}


def test_further_problems_are_asked_while_all_is_sound() -> None:
    calls: list[Values] = []

    def further(files: ConfigFiles, values: Values, names: Names) -> tuple[Problem, ...]:
        calls.append(values)
        return ()

    configs = over(further=further)
    configs.check(files("max_steps = 'x'"))
    assert calls == []
    configs.check(files("max_steps = '5'"))
    assert calls[0]["max_steps"] == 5


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("zz = 1", 1),
        ("max_steps = 'x'", 1),
        ("zz = 1\nyy.x = 1\nseq_len = 0", 3),
        ("optim.momentum = 1", 1),
    ],
)
def test_how_badly_the_schemas_fit(text: str, count: int) -> None:
    assert SCHEMA.misfit_count(tomllib.loads(text)) == count


def test_files_are_read_once_each_and_by_identity() -> None:
    seen: list[ConfigFile] = []

    def schema(file: ConfigFile) -> ConfigSchema:
        seen.append(file)
        return SCHEMA

    configs = SchemaConfig(replace(GRAMMAR, schema=schema))
    by_text = {text: files(f"max_steps = {text}") for text in ("1", "1.0", "true")}
    for _ in range(3):
        assert [repr(configs.values(config)["max_steps"]) for config in by_text.values()] == ["1", "1", "1"]
        severities = [[problem.severity for problem in configs.check(config)] for config in by_text.values()]
        assert severities == [[], ["warning"], ["warning"]]
    assert len(seen) == 3
    for _ in range(20):
        configs.values(files("max_steps = 5"))
    assert configs.values(by_text["1"])["max_steps"] == 1
    assert len(seen) == 24


def test_other_roles_are_left_alone() -> None:
    loaded = {**files("max_steps = 1"), "other": ConfigFile("other", "/o.toml", {"x": 1})}
    assert over().check(loaded) == ()
    assert over().check({}) == ()
    assert over().knobs({}) == ()
