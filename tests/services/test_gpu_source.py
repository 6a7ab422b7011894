"""What a GPU source prints, good and bad."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuReport, GpuShare
from rltui.services.gpu import other_hosts
from rltui.services.gpu.other_hosts import LONGEST_DOCUMENT_BYTES, ReportReader, devices_of, parse_report

GIB = 1 << 30
PROCESS = GpuProcess(
    pid=4711, start=99, used_bytes=58 * GIB, name="VLLM::EngineCore", user="alice", owner="experiment",
    experiment="reverse-text", component="inference",
)  # fmt: skip
DEVICE = GpuDevice(
    index=0, uuid="GPU-1", name="NVIDIA H200", total_bytes=141 * GIB, used_bytes=60 * GIB, utilization=0.97,
    processes=(PROCESS,), shares=(GpuShare(owner="experiment", used_bytes=58 * GIB, pids=(4711,)),),
)  # fmt: skip
REPORT = GpuReport(available=True, driver="580", devices=(DEVICE,), interval_s=2.0)
LINE = REPORT.model_dump_json()
PRETTY = json.dumps(REPORT.model_dump(mode="json"), indent=2)


@pytest.mark.parametrize(
    "text",
    [LINE + "\n", LINE, PRETTY, PRETTY + "\n", "Welcome to node-2\n\n" + LINE + "\nbye"],
    ids=["line", "no-newline", "spread", "spread-newline", "greeting"],
)  # fmt: skip
@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_a_report_is_found_however_it_arrives(text: str, piece: int) -> None:
    reader, found = ReportReader(), []
    data = text.encode()
    for start in range(0, len(data), piece):
        found += reader.feed(data[start : start + piece])
    found += reader.end()
    assert found == [REPORT]


def test_one_report_for_each_line() -> None:
    reader = ReportReader()
    assert reader.feed(f"{LINE}\n{LINE}\n{LINE[:50]}".encode()) == [REPORT, REPORT]
    assert reader.feed(LINE[50:].encode()) == []
    assert reader.feed(b"\n") == [REPORT]
    assert reader.problem is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("bash: rltui: command not found\n", "prints no report: bash: rltui: command not found"),
        ("\x1b]0;title\x07\x1b[31mno\x1b[0m\n", "prints no report: no"),
        (
            LINE[:80] + "\n" + LINE[:80] + "\n",
            "prints a report that cannot be understood: Expecting property",
        ),
        ('{"available": true, "devices": 3}\n', "prints a report that cannot be understood: devices: "),
        ('{"devices": [{}]}\n', "prints a report that cannot be understood: available: Field required"),
        ('{"available": true, "interval_s": NaN}\n', "prints a report that cannot be understood: NaN is no"),
        ('{"available": true, "interval_s": 1e999}\n', "prints a report that cannot be understood: 1e999 is"),
        (
            '{"available": true, "devices": [{"index": 0, "used_bytes": -1}]}\n',
            "prints a report that cannot be understood: -1 is no figure of a GPU",
        ),
        (
            '{"available": true, "devices": [{"index": 0, "used_bytes": 1' + 5000 * "0" + "}]}\n",
            "prints a report that cannot be understood: 1000",
        ),
        ('{"a":' * 100_000 + "\n}\n", "prints a report that cannot be understood: too deeply nested"),
        ("x" * (LONGEST_DOCUMENT_BYTES + 1) + "\n", "prints lines of more than 4 MiB"),
    ],
    ids=[
        "words",
        "escapes",
        "cut",
        "wrong",
        "missing",
        "nan",
        "infinite",
        "negative",
        "huge",
        "deep",
        "long",
    ],
)
def test_what_is_wrong_is_said_and_the_next_report_is_taken(text: str, problem: str) -> None:
    reader = ReportReader()
    assert reader.feed(text.encode()) == []
    assert (reader.problem or "").startswith(problem)
    assert len(reader.problem or "") < 700
    assert reader.feed(f"{LINE}\n".encode()) == [REPORT]
    assert reader.problem is None


def test_endless_lines_and_documents_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_hosts, "LONGEST_DOCUMENT_BYTES", 1 << 18)
    reader = ReportReader()
    for _ in range(8):
        assert reader.feed(b"x" * (1 << 16)) == []
    assert len(reader._line) <= 1 << 18
    reader.feed(b"\n{\n")
    for _ in range(8):
        assert reader.feed(b'"a": 1,\n' * (1 << 13)) == []
    assert reader._document_size <= (1 << 18) + 100


@given(st.lists(st.one_of(st.binary(max_size=200), st.sampled_from([b"{", b"}", b"\n", LINE.encode()]))))
def test_nothing_it_prints_raises(pieces: list[bytes]) -> None:
    reader = ReportReader()
    for piece in pieces:
        reader.feed(piece)
    reader.end()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(list(GpuDevice.model_fields)), inner),
        max_leaves=20,
    )
)
def test_a_strange_report_is_a_problem_or_a_report(devices: Any) -> None:
    reader = ReportReader()
    reports = reader.feed(json.dumps({"available": True, "devices": devices}).encode() + b"\n")
    assert (reader.problem is None) == bool(reports)
    assert "\n" not in (reader.problem or "")
    for report in reports:
        devices_of(report, "node-2")


def test_devices_are_those_of_the_host_and_its_processes_not_of_this_machine() -> None:
    [device] = devices_of(REPORT, "node-2")
    assert (device.host, device.key) == ("node-2", "node-2/GPU-1")
    [process] = device.processes
    assert process == PROCESS.model_copy(update={"start": None})
    assert device.shares == DEVICE.shares


def test_devices_that_the_host_has_from_others_keep_both_names() -> None:
    report = GpuReport(available=True, devices=(DEVICE.model_copy(update={"host": "node-3"}),))
    assert devices_of(report, "node-2")[0].host == "node-2/node-3"


def test_texts_are_printable_and_figures_within_bounds() -> None:
    name, recent = "\x1b[2J" + "n" * 5000, (500, 3)
    strange = DEVICE.model_copy(update={"name": name, "utilization": 7.5, "recent": recent})
    text = GpuReport(available=True, devices=(strange,)).model_dump_json()
    [device] = devices_of(parse_report(text), "node-2")
    assert set(device.name) == {"n"}
    assert len(device.name) <= 500
    assert (device.utilization, device.recent) == (1.0, (100, 3))
