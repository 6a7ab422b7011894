from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from rltui.core.config.knobs import Knob, coerce_value
from rltui.core.config.schema import ConfigSchema, Reading, SchemaHints

CLOSED = {"type": "object", "additionalProperties": False}


def integer(**more: Any) -> dict[str, Any]:
    return {"type": "integer", **more}


def ref(name: str, **more: Any) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}", **more}


def optional(reading: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"anyOf": [reading, {"type": "null"}], "default": None, **more}


def tagged(**members: str) -> dict[str, Any]:
    mapping = {tag: f"#/$defs/{name}" for tag, name in members.items()}
    return {
        "discriminator": {"propertyName": "type", "mapping": mapping},
        "oneOf": [ref(name) for name in members.values()],
    }


def const(word: str) -> dict[str, Any]:
    return {"const": word, "type": "string", "default": word}


def table(**properties: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": properties}


DEFINITIONS = {
    "Model": table(name={"type": "string", "default": "m"}, api_key={"type": "string", "default": ""}),
    "Optim": {"type": "object", "properties": {"lr": {"type": "number", "default": 1.0}}},
    "Env": {**table(id={"type": "string"}, args={"type": "object"}), "required": ["id"]},
    "Ckpt": table(interval=integer(default=10, minimum=1), keep=optional(integer())),
    "Adam": table(type=const("adam"), beta={"type": "number", "default": 0.9}),
    "Sgd": table(type=const("sgd"), momentum={"type": "number", "default": 0.5}),
    "Mode": {"enum": ["fast", "slow"], "type": "string"},
    "Open": {"type": "object", "additionalProperties": True, "properties": {"seed": integer(default=1)}},
    "Json": {"anyOf": [{"type": "string"}, {"type": "array", "items": ref("Json")}]},
    "Node": table(value=integer(default=1), left=optional(ref("Node")), right=optional(ref("Node"))),
}  # fmt: skip
DOCUMENT = {
    **table(
        steps=integer(default=5, minimum=1, description="Steps, e.g. ten of them. More text."),
        limit=optional(integer(minimum=1), default=7),
        on={"type": "boolean", "default": False},
        share={"type": "number", "default": 0.5, "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        mode=ref("Mode", default="fast"),
        workers={"anyOf": [integer(minimum=1), {"const": "auto", "type": "string"}], "default": "auto"},
        names={"type": "array", "items": {"type": "string"}, "minItems": 1, "default": ["a"]},
        model=ref("Model", default={"name": "outer", "api_key": ""}),
        optim=ref("Optim", default={}),
        env={
            "type": "array", "items": ref("Env"), "default": [], "maxItems": 2, "x-aliases": ["environment"]
        },
        ckpt=optional(ref("Ckpt")),
        opt={**tagged(adam="Adam", sgd="Sgd"), "default": {"type": "adam"}},
        opts={"type": "array", "items": tagged(adam="Adam", sgd="Sgd"), "default": []},
        open=ref("Open", default={}),
        extra={"type": "object", "default": {}},
        anything={"default": None},
        json=ref("Json", default=""),
        tools={"type": "array", "items": {"type": "object"}, "default": []},
        tree=optional(ref("Node")),
        source={"anyOf": [{"const": "policy", "type": "string"}, ref("Model")], "default": "policy"},
        old={**integer(default=1), "x-aliases": ["older"]},
    ),
    "$defs": DEFINITIONS,
}  # fmt: skip
SCHEMA = ConfigSchema(DOCUMENT)
DATED = ConfigSchema(DOCUMENT, date="May 2026")
PARTIAL = ConfigSchema(DOCUMENT, date="May 2026", partial=True)


def read(text: str, schema: ConfigSchema = SCHEMA, **more: Any) -> Reading:
    return schema.read(tomllib.loads(text), role="rl", reader="the trainer", **more)


def problems_of(text: str, schema: ConfigSchema = SCHEMA, **more: Any) -> list[tuple[str, str | None, str]]:
    return [
        (problem.severity, problem.key, problem.message) for problem in read(text, schema, **more).problems
    ]


@pytest.mark.parametrize(
    "text",
    ["", "steps = 1\nmodel.name = 'm'\noptim.lr = 1\n", "[ckpt]\n", "[extra.a]\nb = 1\n",
     "anything = [{ a = 1 }]",
     "[[env]]\nid = 'x'\nargs = { anything = { below = 1 } }\n", "mode = 'slow'", "workers = 3",
     "workers = 'auto'",
     "limit = 'None'", "ckpt = 'None'", "open.whatever = 1", "[[environment]]\nid = 'x'",
     "opt.momentum = 1\nopt.type = 'sgd'",
     "json = ['a', ['b']]", "source = 'policy'", "source.name = 'x'", "tree.left.left.value = 3",
     "tools = [{ any = 1 }]", "tools = []",
     "opts = []"],
)  # fmt: skip
def test_what_the_schema_takes_is_no_problem(text: str) -> None:
    for schema in (SCHEMA, DATED, PARTIAL):
        assert problems_of(text, schema) == []


@pytest.mark.parametrize(
    ("text", "severity", "key", "message"),
    [
        ("setps = 1", "error", "setps", "unknown key setps: did you mean steps?"),
        ("lr = 1", "error", "lr", "unknown key lr: did you mean optim.lr?"),
        ("zz = 1", "error", "zz", "unknown key zz: the trainer has no such key"),
        ("[zz.deep]\ny = 1", "error", "zz.deep.y", "unknown key zz.deep.y: the trainer has no such key"),
        ("steps = { a = 1 }", "error", "steps", "steps must be a whole number ≥ 1, not a table"),
        ("steps = 0", "error", "steps", "steps must be a whole number ≥ 1, not 0: the smallest allowed is 1"),
        ("share = 1", "error", "share", "share must be a number > 0 and < 1, not 1"),
        ("mode = 'odd'", "error", "mode", 'mode must be one of fast, slow, not "odd"'),
        ("workers = 'x'", "error", "workers", 'workers must be a whole number ≥ 1, or auto, not "x"'),
        ("names = [{}]", "error", "names", "names must be a list, not a list of tables"),
        ("names = []", "error", "names", "names must have at least 1 element, not 0"),
        ("model = 5", "error", "model", "model must be a table, not 5"),
        ("ckpt = true", "error", "ckpt", "ckpt must be a table, not true"),
        ("source = 'x'", "error", "source", 'source must be one of policy, not "x"'),
        ("env = 'x'", "error", "env", "env must be a list of tables: write [[env]]"),
        ("env = [1]", "error", "env", "env must be a list of tables: write [[env]]"),
        ("[[env]]", "error", "env.0.id", "env.0.id is required"),
        ("env = [{ id = 'a' }, { id = 'b' }, { id = 'c' }]", "error", "env",
         "env must have at most 2 elements, not 3"),
        ("[[env]]\nid = 'a'\n[[env]]\nid = 'b'\nidd = 1", "error", "env.1.idd",
         "unknown key env.1.idd: did you mean env.id?"),
        ("[[environment]]\nid = 1", "error", "environment.0.id", "environment.0.id must be text, not 1"),
        ("optim.lrr = 1", "warning", "optim.lrr",
         "optim.lrr is silently ignored: did you mean optim.lr?"),
        ("optim.zz = 1", "warning", "optim.zz",
         "optim.zz is silently ignored: the trainer has no such key"),
        ('model."a.b" = 1', "error", 'model."a.b"', 'unknown key model."a.b": the trainer has no such key'),
        ("opt.momentum = 1", "error", "opt.momentum",
         'opt.momentum belongs to type sgd, but opt.type is "adam"'),
        ("[[opts]]\ntype = 'sgd'\nbeta = 1", "error", "opts.0.beta",
         'opts.0.beta belongs to type adam, but opts.0.type is "sgd"'),
        ("opt.type = 'lion'", "error", "opt.type", 'opt.type must be one of adam, sgd, not "lion"'),
        ("opt.type = 5", "error", "opt.type", "opt.type must be one of adam, sgd, not 5"),
        ("steps = 'None'", "error", "steps", 'steps needs a value: "None" means none'),
        ("model = 'None'", "error", "model", 'model needs a table: "None" means none'),
        ("steps = '12'", "warning", "steps", "steps is read as 12; write 12"),
        ("steps = '0'", "error", "steps", 'steps must be a whole number ≥ 1, not "0"'),
        ("on = 'maybe'", "error", "on", 'on must be true or false, not "maybe"'),
    ],
)  # fmt: skip
def test_other_keys_and_values_are_told(text: str, severity: str, key: str, message: str) -> None:
    assert problems_of(text) == [(severity, key, message)]


def test_secrets_are_not_told() -> None:
    assert "hunter" not in str(
        problems_of("model.api_key = ['hunter2']\n[extra]\n") + problems_of("api_key = 'hunter2'")
    )


def test_a_key_twice_in_an_alias_and_its_name_is_read_twice() -> None:
    reading = read("old = 2\nolder = 3")
    assert [knob.name for knob in reading.knobs if knob.name.startswith("old")] == ["old", "older"]
    assert reading.set_names == {"old", "older"}


@pytest.mark.parametrize(
    ("text", "schema", "severity", "words"),
    [
        ("setps = 1", DATED, "error", "did you mean steps? (rltui knows the trainer as of May 2026)"),
        ("setps = 1", PARTIAL, "warning", "did you mean steps? (rltui knows the trainer as of May 2026)"),
        (
            "zz = 1",
            DATED,
            "warning",
            "possibly from a newer or older version (rltui knows the trainer as of May 2026)",
        ),
        ("mode = 'odd'", DATED, "warning", "(rltui knows the choices as of May 2026)"),
        ("mode = 5", DATED, "error", "mode must be one of fast, slow, not 5"),
        ("opt.type = 'lion'", DATED, "warning", "(rltui knows those as of May 2026)"),
        ("steps = 0", PARTIAL, "error", "the smallest allowed is 1"),
    ],
)
def test_what_another_release_may_know_is_a_warning(
    text: str, schema: ConfigSchema, severity: str, words: str
) -> None:
    ((reading, _, message),) = problems_of(text, schema)
    assert reading == severity
    assert message.endswith(words)


@pytest.mark.parametrize(
    ("text", "schema", "may_be"),
    [("zz = 1", SCHEMA, False), ("zz = 1", DATED, True), ("setps = 1", DATED, False),
     ("setps = 1", PARTIAL, True),
     ("optim.zz = 1", DATED, False), ("", PARTIAL, False)],
)  # fmt: skip
def test_whether_a_file_may_be_of_another_release(text: str, schema: ConfigSchema, may_be: bool) -> None:
    assert read(text, schema).may_be_other is may_be


def test_the_overlay_goes_before_guesses_and_stops_at_free_tables() -> None:
    explanations = {"stages": "say steps"}
    hints = SchemaHints(frozenset({"env[].args"}), explain=lambda key: explanations.get(key, ""))
    assert problems_of("[stages]\na = 1", hints=hints) == [
        ("error", "stages", "unknown key stages: say steps")
    ]
    reading = read("[[env]]\nid = 'x'\nargs = { seed = 1 }", hints=hints)
    assert (reading.problems, reading.values["env.0.args"]) == ((), {"seed": 1})


def test_only_the_file_tells_which_text_stands_for_no_value() -> None:
    plain = ConfigSchema(DOCUMENT, none=None)
    assert [key for _, key, _ in problems_of("limit = 'None'\nckpt = 'None'", plain)] == ["limit", "ckpt"]
    assert read("model.name = 'None'", plain).values["model.name"] == "None"


def values(text: str, *names: str, schema: ConfigSchema = SCHEMA) -> list[Any]:
    reading = read(text, schema).values
    return [reading[name] for name in names]


def test_values_are_as_they_are_read_and_else_the_defaults() -> None:
    assert values("", "steps", "limit", "mode", "env", "old") == [5, 7, "fast", [], 1]
    assert values("steps = '12'\nlimit = 'None'\non = 1", "steps", "limit", "on") == [12, None, True]
    assert values("source.name = 'x'", "source.name", "source") == ["x", {"name": "x"}]


def test_a_table_that_is_given_loses_the_default_around_it() -> None:
    assert values("", "model.name", "model") == ["outer", {}]
    assert values("[model]", "model.name", "model") == ["m", {}]
    assert values("opt.type = 'sgd'", "opt.momentum") == [0.5]


@pytest.mark.parametrize("text", ["", "ckpt = 'None'"])
def test_a_table_that_is_off_has_no_values_but_knobs(text: str) -> None:
    reading = read(text)
    assert (reading.values["ckpt"], reading.values["ckpt.interval"]) == (None, None)
    (knob,) = [knob for knob in reading.knobs if knob.name == "ckpt.interval"]
    assert (knob.nullable, knob.default, knob.minimum) == (True, None, 1)
    assert values("[ckpt]", "ckpt", "ckpt.interval") == [{}, 10]


def test_a_required_key_may_come_from_the_default_of_its_table() -> None:
    inner = {**table(name={"type": "string"}), "required": ["name"]}
    document = {**table(model=ref("M", default={"name": "outer"}), other=ref("M")), "required": ["other"]}
    schema = ConfigSchema({**document, "$defs": {"M": inner}})
    assert [problem.key for problem in read("", schema).problems] == ["other"]
    assert [problem.key for problem in read("[model]\n[other]", schema).problems] == [
        "model.name",
        "other.name",
    ]


def test_knobs_are_as_the_schema_says_and_in_its_order() -> None:
    knobs = {knob.name: knob for knob in read("share = 0.25\nsteps = 2").knobs}
    assert list(knobs)[:4] == ["steps", "limit", "on", "share"]
    assert knobs["steps"] == Knob("steps", "int", (), "Steps, e.g. ten of them.", 5, minimum=1)
    assert (knobs["share"].above, knobs["share"].below) == (0, 1)
    assert (knobs["mode"].kind, knobs["mode"].choices) == ("enum", ("fast", "slow"))
    assert (knobs["names"].kind, knobs["limit"].nullable, knobs["on"].nullable) == ("list", True, False)
    assert {"opt.type", "opt.beta"} <= knobs.keys()
    assert "opt.momentum" not in knobs
    assert "opt.momentum" in {knob.name for knob in read("opt.type = 'sgd'").knobs}


@pytest.mark.parametrize(
    ("text", "kind"), [("workers = 3", "int"), ("workers = 'auto'", "int"), ("json = ['a']", "list")]
)
def test_a_knob_of_several_kinds_is_of_that_of_its_value(text: str, kind: str) -> None:
    name = text.partition(" ")[0]
    (knob,) = [knob for knob in read(text).knobs if knob.name == name]
    assert (knob.kind, knob.fault("auto") is None) == (kind, name == "workers")


def test_names_begin_with_the_namespace() -> None:
    reading = SCHEMA.read({"steps": 0, "zz": 1}, role="sft", path="/sft.toml", namespace="sft")
    assert [problem.key for problem in reading.problems] == ["sft.zz", "sft.steps"]
    assert {problem.file for problem in reading.problems} == {"/sft.toml"}
    assert (reading.values["sft.steps"], reading.unknown) == (0, ("sft.zz",))
    assert reading.faulty == {"sft.steps"}
    assert reading.knobs[0].key == "steps"
    assert reading.knobs[0].name == "sft.steps"


def test_a_part_is_a_file_of_its_own() -> None:
    part = ConfigSchema(DOCUMENT, part="ckpt")
    assert part.keys == {"interval", "keep"}
    assert values("", "interval", schema=part) == [10]


@pytest.mark.parametrize(
    ("key", "expected"),
    [("steps", True), ("model", True), ("env", True), ("env.3.id", True), ("env[].id", True),
     ("env.id", False),
     ("environment.0.id", True), ("opt.momentum", True), ("opts.0.beta", True), ("tree.left", True),
     ("0", False), ('"a.0"', False), ("", False), ("model.0", False), ("env.x", False)],
)  # fmt: skip
def test_has_every_key_of_every_member(key: str, expected: bool) -> None:
    assert SCHEMA.has(key) is expected


def test_tables_that_hold_themselves_end() -> None:
    reading = read("tree.left.right.value = 3\ntree.left.up = 1")
    assert reading.values["tree.left.right.value"] == 3
    assert reading.unknown == ("tree.left.up",)
    assert len(reading.knobs) < 60


def test_thousands_of_unknown_keys_do_not_take_long() -> None:
    data = {f"stepz_{number}": {"deep": number} for number in range(10_000)}
    began = time.process_time()
    reading = SCHEMA.read(data, role="rl", reader="the trainer")
    assert time.process_time() - began < 5
    assert len(reading.problems) == 51
    assert reading.problems[-1].message == "more than 50 unknown keys: is this a config for the trainer?"
    assert len(reading.unknown) == 10_000


@pytest.mark.parametrize("start", ["zz", "tree", "extra", "steps", "env", "open"])
def test_deep_nesting_ends(start: str) -> None:
    data: dict[str, Any] = {"left": 1}
    for _ in range(5_000):
        data = {"left": data}
    began = time.process_time()
    reading = SCHEMA.read({start: data}, role="rl")
    assert time.process_time() - began < 5
    assert len(reading.problems) <= 1


@pytest.mark.parametrize(
    ("value", "is_sound"), [(2**63 - 1, True), (2**63, False), (10**400, False), (-(10**400), False),
                            (float("inf"), False), ("9" * 5000, False), ("9" * 90, False)],
)  # fmt: skip
def test_huge_numbers(value: Any, is_sound: bool) -> None:
    reading = SCHEMA.read({"steps": value}, role="rl")
    assert (reading.faulty == frozenset()) is is_sound
    assert all(len(problem.message) < 6000 for problem in reading.problems)


def test_what_is_not_understood_is_taken() -> None:
    odd = {
        "x": {"type": ["string", "null"]},
        "y": {"not": {}},
        "z": {"prefixItems": []},
        "w": {"type": "object"},
    }
    schema = ConfigSchema({**CLOSED, "properties": odd})
    assert problems_of("x = 1\ny = [{}]\nz = 'a'\nw.any = 1", schema) == []


INT = Knob("size", "int", ("t",), "Size.", 1, minimum=1)
FLOAT = Knob("lr", "float", ("t",), "Rate.", 1.0)
BOOL = Knob("on", "bool", ("t",), "Switch.", default=False)


@pytest.mark.parametrize(
    ("knob", "value", "read"),
    [
        (INT, "128", 128), (INT, 128.0, 128), (INT, "1.5", None), (INT, 1.5, None), (INT, "0", None),
        (INT, float("inf"), None), (INT, "many", None), (INT, [], None),
        (FLOAT, "1e-6", 1e-6), (FLOAT, "nan", None),
        (INT, " 128.0 ", 128), (INT, "1_000", 1000), (INT, "1e3", None), (INT, True, 1), (FLOAT, True, 1.0),
        (BOOL, "yes", True), (BOOL, 0, False), (BOOL, "maybe", None), (BOOL, 2, None), (BOOL, 0.5, None),
    ],
)  # fmt: skip
def test_as_read_is_what_pydantic_makes_of_it(knob: Knob, value: Any, read: Any) -> None:
    assert coerce_value(knob, value) == read
