"""What the script answers, asked as it is by `Worker`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from tests.services.config.models.checkouts import MODELS, Box

from rltui.services.config.models.worker import Limits, NotAsked, Worker

RICH = """
import importlib.util
assert importlib.util.find_spec("script") is None, "what lies beside the script misleads nobody"
import time
from pathlib import Path
from typing import Annotated, Any, Callable, Literal
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field

NAMES = AliasChoices("group_size", "rollouts", AliasPath("old", "group"))

class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

class Lax(BaseModel):
    x: int = 1

class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int = 1

class ByName(Strict):
    model_config = ConfigDict(populate_by_name=True)
    tokens: int = Field(3, alias="max_tokens")

class Inherited(Strict):
    depth: int = Field(2, ge=1, le=9)
    \"\"\"How deep.

    Counted from zero.\"\"\"

class RLConfig(Inherited):
    group_size: int = Field(1, validation_alias=NAMES)
    other: int = Field(validation_alias="OTHER", description="Given.")
    \"\"\"Not this.\"\"\"
    lax: Lax = Field(default_factory=Lax)
    free: Open = Open()
    table: dict[str, Any] = {}
    named: ByName = Field(default_factory=lambda: ByName(tokens=5))
    limit: float = float("inf")
    mode: Literal["a", "b"] | None = None
    folder: Path = Path("out")
    hook: Callable[[], None] | None = None
    born: float = Field(default_factory=time.monotonic)
    broken: int = Field(default_factory=lambda: 1 // 0)
"""


@pytest.fixture
def worker(box: Box) -> Iterator[Any]:
    """Makes the worker of a source."""
    with ExitStack() as ends:

        def make(source: str) -> Worker:
            box.write(source)
            made = Worker(box.interpreter, MODELS, folder=box.root, limits=Limits())
            ends.callback(made.end)
            return made

        yield make


def told(answer: Mapping[str, Any] | NotAsked) -> dict[str, Any]:
    assert not isinstance(answer, NotAsked), answer
    return {key: value for key, value in answer.items() if key != "id"}


def test_schema_has_what_a_file_may_say(worker: Any) -> None:
    answer = told(worker(RICH).ask("rl", {"schema": True}))
    assert set(answer["versions"]) == {"python", "pydantic", "orjson"}
    schema = answer["schema"]
    found, tables = schema["properties"], schema["$defs"]
    assert found["group_size"]["x-aliases"] == ["rollouts", "old.group"]
    assert (schema["required"], found["OTHER"]["description"]) == (["OTHER"], "Given.")
    assert "other" not in found
    assert found["depth"]["description"] == "How deep.\n\nCounted from zero."
    assert (found["depth"]["minimum"], found["depth"]["maximum"], found["depth"]["default"]) == (1, 9, 2)
    assert (schema["additionalProperties"], "x-extra" in schema) == (False, False)
    assert (tables["Lax"].get("additionalProperties"), tables["Lax"]["x-extra"]) == (None, "ignore")
    assert (tables["Open"]["additionalProperties"], "x-extra" in tables["Open"]) == (True, False)
    assert "x-extra" not in found["table"]
    assert (found["lax"]["default"], found["limit"]["default"], found["folder"]["default"]) == (
        {"x": 1},
        "inf",
        "out",
    )
    assert tables["ByName"]["properties"]["tokens"]["x-aliases"] == ["max_tokens"]
    assert "default" not in found["born"], "it is another one at each call"
    assert "default" not in found["broken"]
    assert "hook" in found


def test_a_verdict_names_the_place_of_each_error(worker: Any) -> None:
    asked = worker(RICH)
    longer_than_a_pipe = "OTHER = 1\nrollouts = 4\nbroken = 1\n" + "# long\n" * 200_000
    assert told(asked.ask("rl", {"text": longer_than_a_pipe})) == {"valid": True}
    [error] = told(asked.ask("rl", {"text": "OTHER = 'x'\nbroken = 1\n"}))["errors"]
    assert (error["at"], error["type"]) == (["OTHER"], "int_parsing")


def test_values_are_those_that_their_validators_leave(worker: Any) -> None:
    source = RICH.replace("broken: int = Field(default_factory=lambda: 1 // 0)", """
    part: Inherited = Inherited()

    def model_post_init(self, _):
        self.group_size *= 2
        self.part = ByName(tokens=7)
""")  # fmt: skip
    text = 'OTHER = 1\nrollouts = 4\nfree = { y = 2 }\nmode = "a"\nborn = 0.5\n'
    values = told(worker(source).ask("rl", {"text": text, "values": True}))["values"]
    assert values == {
        "depth": 2, "group_size": 8, "other": 1, "lax": {"x": 1}, "free": {"x": 1, "y": 2}, "table": {},
        "named": {"tokens": 5}, "limit": "inf", "mode": "a", "folder": "out", "hook": None, "born": 0.5,
        "part": {"tokens": 7},
    }, "also what another class has in the place of the declared one"  # fmt: skip


def test_what_they_print_read_or_fork_does_not_disturb(worker: Any) -> None:
    busy = """
import os, sys
from pydantic import BaseModel, model_validator
print("noise"); os.write(1, b"noise\\n")
assert sys.stdin.read() == ""

class RLConfig(BaseModel):
    x: int = 1

    @model_validator(mode="after")
    def forks(self):
        print("noise", flush=True)
        os.fork()
        assert self.x != 1
        return self
"""
    asked = worker(busy)
    verdicts = [told(asked.ask("rl", {"text": f"x = {number}\n"})) for number in range(3)]
    assert ["valid" in each for each in verdicts] == [True, False, True]
