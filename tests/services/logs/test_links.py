"""The pages that programs name, from their logs into journal and status."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.experiment import NOW, running_status

from rltui.cli.status_text import as_text
from rltui.core.experiment.api import Link
from rltui.services.experiment.journal import read_journal
from rltui.services.logs.links import LinkFinder, find_link, links_in_journal
from rltui.supervisor.events import EventBus
from rltui.supervisor.observation import Observation

A, B = "https://wandb.ai/t/p/runs/aa", "https://wandb.ai/t/p/runs/bb"


def test_links_are_found_as_the_logs_grow(tmp_path: Path) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    finder = LinkFinder()
    assert finder.poll({"trainer": first}) == []
    first.write_bytes(
        b"\x1b[32mwandb\x1b[0m: \xf0\x9f\x9a\x80 View run at \x1b[34m" + A.encode() + b"\x1b[0m\nView run at"
    )
    link = Link(title="W&B run", url=A, component="trainer")
    assert finder.poll({"trainer": first}) == [link]
    with first.open("a") as log:
        log.write(f" {B} \n{'x' * 9000} View run at {A}\n")
    assert [each.url for each in finder.poll({"trainer": first})] == [B]
    assert finder.poll({"trainer": first}) == []
    second.write_text(f"wandb: View run at {A}\nnothing here\nView run at {B}\n")
    assert [each.url for each in finder.poll({"trainer": second})] == [A, B]


def test_each_is_told_once_and_the_newest_counts(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    observed = cast(Observation, SimpleNamespace(links=(), _events=EventBus(journal)))

    def take(*urls: str, component: str = "trainer") -> None:
        Observation.add_links(observed, [Link(title="W&B run", url=url, component=component) for url in urls])

    take(A)
    take(A)
    take(A, component="orchestrator")
    assert [entry.text for entry in read_journal(journal)] == [f"W&B run: {A}"]
    take(A, B)
    assert [(link.url, link.component) for link in observed.links] == [(B, "trainer")]
    assert links_in_journal(read_journal(journal)) == observed.links


def test_the_status_names_them() -> None:
    status = running_status(links=(Link(title="W&B run", url=A, component="trainer"),))
    assert f"  ↗ W&B run: {A}" in as_text(status.to_plain(), NOW).splitlines()


RUN = "https://wandb.ai/team/prime-rl/runs/ab12cd34"


@pytest.mark.parametrize(
    ("line", "link"),
    [
        (f"wandb: 🚀 View run at {RUN}", ("W&B run", RUN)),
        (f"wandb: 🚀 View run eager: sun-1 at: {RUN}", ("W&B run", RUN)),
        ("wandb: ⭐️ View project at https://wandb.ai/team/prime-rl", ("W&B project", RUN.split("/runs")[0])),
        ("wandb: 🧹 View sweep at http://box:8080/t/p/sweeps/x.", ("W&B sweep", "http://box:8080/t/p/sweeps/x")),
        (f"(Worker) View run lr at: {RUN}?apiKey=0123456789abcdef", ("W&B run", RUN)),
        ("🏃 View run sly-fox at: http://h:5000/#/experiments/0", ("page of the run", "http://h:5000/#/experiments/0")),
        ("12:00:01 INFO Dashboard running at http://localhost:7789", ("dashboard", "http://localhost:7789")),
        ("another dashboard daemon is already running at http://localhost:7788", ("dashboard", "http://localhost:7788")),
        ("SUCCESS Monitor run at: https://app.primeintellect.ai/dashboard/training/x1",
         ("page of the run", "https://app.primeintellect.ai/dashboard/training/x1")),
        ("TensorBoard 2.19.0 at http://localhost:6006/ (Press CTRL+C to quit)",
         ("TensorBoard", "http://localhost:6006/")),
        ("View run at http://user:secret@box:1/x?token=abc&a=1#token=2", ("page of the run", "http://box:1/x")),
        ("View run at http://[::1]:5/x", ("page of the run", "http://[::1]:5/x")),
        ("View run at http://box:99999/x", None),
        ("View run at https://evil/\u202etxt.exe", None),
        (f"View run at https://box/{'x' * 500}", None),
        ("HTTP Request: POST http://localhost:8000/v1/chat/completions", None),
        ("  http://localhost:7788", None),
    ],
)  # fmt: skip
def test_a_line_links_to(line: str, link: tuple[str, str] | None) -> None:
    assert find_link(line, "trainer") == link


def test_a_dashboard_prints_its_address_alone() -> None:
    assert find_link("  http://localhost:7788", "dashboard") == ("dashboard", "http://localhost:7788")
    assert find_link("see http://localhost:7788", "dashboard") is None


TEXTS = st.lists(
    st.one_of(
        st.text(max_size=9), st.sampled_from(["View run", " at: ", "http://", "?token=", "@", "[", ":", "#"])
    )
).map("".join)


@given(TEXTS)
def test_whatever_is_printed_an_address_is_plain(text: str) -> None:
    if (found := find_link(f"View run at {text}")) is not None:
        assert found[1].isascii()
        assert found[1].isprintable()
        assert "@" not in found[1].split("/")[2]
