"""Values as documents: what is read is checked, and what is wrong is said in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, field

from rltui.base.values import InvalidValueError, Value, from_json, from_plain, to_json


class Inner(Value):
    name: str
    sizes: tuple[float, ...] = ()


class Outer(Value):
    inner: Inner
    count: Annotated[int, Meta(ge=1)] = 1
    others: dict[str, Inner] = field(default_factory=dict)
    folder: Path | None = None


def test_a_document_of_another_version_is_read_as_far_as_it_is_known() -> None:
    value = Outer.from_json('{"inner": {"name": "a", "sizes": [1, 2.5], "later": {}}, "newer": 3}')
    assert value == Outer(inner=Inner(name="a", sizes=(1.0, 2.5)))
    assert type(value.inner.sizes[0]) is float


def test_a_value_is_the_same_after_its_document() -> None:
    value = Outer(inner=Inner(name="a"), others={"b": Inner(name="b")}, folder=Path("/x"))
    assert Outer.from_json(value.to_json()) == Outer.from_plain(value.to_plain()) == value
    assert from_json(tuple[Outer, ...], to_json((value,))) == (value,)
    assert value.replace(count=2).count == 2
    assert value.part("count") == {"count": 1}


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ("{}", "inner: is missing"),
        ('{"inner": {}}', "inner.name: is missing"),
        ('{"inner": {"name": 3}}', "inner.name: expected str, got int"),
        ('{"inner": {"name": "a", "sizes": [1, "x"]}}', "inner.sizes.1: expected float, got str"),
        ('{"inner": {"name": "a"}, "count": 0}', "count: expected int >= 1"),
        ('{"inner": {"name": "a"}, "count": 1.5}', "count: expected int, got float"),
        ('{"inner": {"name": "a"}, "folder": 3}', "folder: expected Path"),
        ('{"inner": {"name": "a"}, "others": {"b": {}}}', "others.*.name: is missing"),
        ("[]", "Expected object, got array"),
        ("", "Input data was truncated"),
        ('{"inner": ' + "[" * 100_000, "inner: expected object, got array"),
        (b'{"inner": {"name": "\xff"}}', "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(document: str | bytes, fault: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Outer.from_json(document)
    assert str(caught.value).startswith(fault)


def test_lax_reading_takes_numbers_as_people_write_them() -> None:
    document = {"inner": {"name": "a", "sizes": ["2"]}, "count": 3.0}
    assert from_plain(Outer, document, is_lax=True).count == 3
    with pytest.raises(InvalidValueError):
        Outer.from_plain(document)


RACE = """
import sys, threading
sys.setswitchinterval(1e-6)
from rltui.core.experiment.api import ComponentStatus, Status
parts = (ComponentStatus(id="a"),)
status = Status(experiment="e", state="running", framework="f", output_dir="o", components=parts)
document, barrier = status.to_plain(), threading.Barrier(8)
def read():
    barrier.wait()
    assert Status.from_plain(document) == status
threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_may_read_the_first_value_of_a_type_at_once() -> None:
    """Otherwise msgspec 0.22 ends most such processes with SIGSEGV."""
    for _ in range(3):
        subprocess.run([sys.executable, "-c", RACE], check=True)
