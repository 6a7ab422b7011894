"""What living services are told before jobs start against them again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rltui.core.api import Plan
from rltui.daemon.component import ComponentRunner
from rltui.daemon.events import EventBus
from rltui.daemon.transactions import Transactions
from rltui.errors import RltuiError
from rltui.frameworks.base import ServiceCall
from rltui.services.http import post_json


@contextmanager
def server(status: int = 200) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A server that answers every POST with `status`, and what it was sent."""
    heard: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            del words

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/resume", heard
        finally:
            http.shutdown()
            thread.join()


def runner(name: str, *, alive: bool = True) -> ComponentRunner:
    stand_in: Any = SimpleNamespace(spec=SimpleNamespace(id=name), life=SimpleNamespace(alive=alive))
    return cast("ComponentRunner", stand_in)


def make(folder: Path, call: ServiceCall, plan: Plan, *, alive: bool = True) -> str:
    """Carry the call out within `plan`; the journal."""
    events = EventBus(folder / "journal.jsonl")
    runners = {"inference": runner("inference", alive=alive), "trainer": runner("trainer")}
    processes: Any = SimpleNamespace(runners=runners, run_jobs=lambda: [runners["trainer"]])
    recipe = SimpleNamespace(service_calls=lambda files, resume_step: [call])
    config: Any = SimpleNamespace(recipe=recipe, store=SimpleNamespace(files={}))
    observation: Any = SimpleNamespace(resume_step=None)
    transactions = Transactions(processes, config, observation, events, changed=lambda: None)
    asyncio.run(transactions._call_services(plan))
    journal = folder / "journal.jsonl"
    return journal.read_text() if journal.exists() else ""


PAIR = Plan(start=("orchestrator", "trainer"))


def test_living_service_is_called_before_jobs_start(tmp_path: Path) -> None:
    with server() as (url, heard):
        journal = make(tmp_path, ServiceCall("inference", url, "resume", body={"a": 1}), PAIR)
    assert heard == [("/resume", b'{"a": 1}')]
    assert "inference: resume: done" in journal


@pytest.mark.parametrize(
    ("plan", "alive"),
    [(Plan(start=("inference", "trainer")), True), (Plan(start=("inference",)), True), (PAIR, False)],
    ids=["it starts itself", "no job starts", "it is dead"],
)
def test_nobody_else_is_called(tmp_path: Path, plan: Plan, alive: bool) -> None:
    with server() as (url, heard):
        make(tmp_path, ServiceCall("inference", url, "resume"), plan, alive=alive)
    assert not heard


def test_older_server_without_the_route_is_no_failure(tmp_path: Path) -> None:
    with server(404) as (url, _):
        journal = make(tmp_path, ServiceCall("inference", url, "resume"), PAIR)
    assert "not done: status 404" in journal


def test_required_call_that_fails_stops_the_plan(tmp_path: Path) -> None:
    with server(500) as (url, _), pytest.raises(RltuiError, match="could not be told to load weights"):
        make(tmp_path, ServiceCall("inference", url, "load weights", required=True), PAIR)


def test_server_that_is_not_there_is_told_in_words() -> None:
    with server() as (url, _):
        pass
    assert "refused" in str(post_json(url, {}, timeout_s=1)).lower()
