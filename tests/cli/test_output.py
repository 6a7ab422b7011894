"""Documents that commands print for programs."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import pytest

from rltui.base.values import Value
from rltui.cli.output import print_csv, print_json, print_json_stream


class Model(Value):
    name: str


@dataclass
class Record:
    path: str
    model: Model


@pytest.mark.parametrize(
    ("document", "is_compact", "text"),
    [
        pytest.param(Model(name="größe"), False, '{"name":"größe"}', id="model"),
        pytest.param(
            {"é": Record("a", Model(name="b"))},
            False,
            '{"é": {"path": "a", "model": {"name": "b"}}}',
            id="nested",
        ),
        pytest.param(
            [Record("a", Model(name="b"))], True, '[{"path":"a","model":{"name":"b"}}]', id="compact"
        ),
        pytest.param({"day": datetime.date(2026, 11, 26)}, False, '{"day": "2026-11-26"}', id="date of TOML"),
        pytest.param([float("nan")], True, "[null]", id="no number"),
    ],
)
def test_a_document_stands_on_one_line(
    document: object, is_compact: bool, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_json(document, is_compact=is_compact)
    assert capsys.readouterr().out == f"{text}\n"


def test_a_stream_is_one_document_and_csv_has_empty_cells(capsys: pytest.CaptureFixture[str]) -> None:
    print_json_stream({"path": "é"}, iter([{"text": "a"}, {"text": "b"}]))
    print_json_stream({}, [])
    print_csv(["step", "a,b"], [(1, None)])
    assert capsys.readouterr().out == (
        '{"path": "é", "lines": [\n{"text": "a"},\n{"text": "b"}\n]}\n{"lines": [\n]}\nstep,"a,b"\n1,\n'
    )


def test_secrets_in_a_document_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    token = "hf_" + "a" * 34
    print_json({"text": f"token {token}"}, hides_secrets=True)
    assert token not in capsys.readouterr().out
