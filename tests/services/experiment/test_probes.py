from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.http_server import Handler, serving

from rltui.core.experiment.layout import Ready
from rltui.services.experiment import probes
from rltui.services.experiment.probes import Probe


@pytest.fixture
def server() -> Iterator[int]:
    class Health(Handler):
        def respond(self) -> None:
            self.answer(200 if self.path == "/health" else 503)

    with serving(Health) as httpd:
        yield httpd.server_address[1]


async def asked(ready: Ready, log: Path = Path("/nonexistent")) -> bool:
    return await Probe(ready, log).is_ready()


async def test_http(server: int) -> None:
    assert await asked(Ready(http=f"http://127.0.0.1:{server}/health"))
    assert not await asked(Ready(http=f"http://127.0.0.1:{server}/loading"))


async def test_tcp_and_closed_ports(server: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    assert await asked(Ready(tcp=f"127.0.0.1:{server}"))
    assert not await asked(Ready(tcp=f"127.0.0.1:{closed}"))
    assert not await asked(Ready(http=f"http://127.0.0.1:{closed}/health"))


async def test_a_server_that_speaks_no_http_is_not_ready() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"not http at all\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert not await asked(Ready(http=f"http://127.0.0.1:{port}/"))
    server.close()


async def test_file(tmp_path: Path) -> None:
    assert not await asked(Ready(file=str(tmp_path / "done")))
    (tmp_path / "done").touch()
    assert await asked(Ready(file=str(tmp_path / "done")))


async def test_log_pattern_is_found_once_written_and_not_before(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    probe = Probe(Ready(log=r"step \d+ done"), log)
    assert not await probe.is_ready()
    log.write_text("loading\nstep ")
    assert not await probe.is_ready()
    with log.open("a") as file:
        file.write("1 done\n")
    assert await probe.is_ready()


async def test_log_pattern_is_matched_line_by_line(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("loading\nready\nserving\n")
    assert await asked(Ready(log="^ready$"), log)
    assert not await asked(Ready(log="^eady"), log)


async def test_log_pattern_is_found_in_a_log_that_was_cut_off(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("loading\n" * 100)
    probe = Probe(Ready(log="^ready$"), log)
    assert not await probe.is_ready()
    log.write_text("ready\n")
    assert await probe.is_ready()


async def test_log_pattern_behind_a_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "LOG_CHUNK", 10_000)
    log = tmp_path / "output.log"
    log.write_bytes(b"x" * 20_000 + b"\n" + b"line\n" * 10_000 + b"ready\n")
    assert await asked(Ready(log="^ready$|\nready"), log)


async def test_log_pattern_sees_the_beginning_of_a_long_line_only(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("7" * 65_000 + " ready\n")
    assert not await asked(Ready(log="ready"), log), "H13: a pattern could be busy with it for minutes"
    log.write_text("  5%\r" * 65_000 + "ready\n")
    assert await asked(Ready(log="^ready"), log)


async def test_an_address_that_is_none_is_not_ready_and_says_so() -> None:
    filled = Ready(http="http://{host}").model_copy(update={"http": "http://h:nonsense/"})
    probe = Probe(filled, Path("x"))
    assert not await probe.is_ready()
    assert "nonsense" in str(probe)
