"""The connection itself: how it comes about, why not, and what becomes of it when it is cut."""

from __future__ import annotations

import stat
import subprocess
import time
from pathlib import Path

import pytest
from tests.fakes.machine import NOISE, Machine, is_alive, machine_at, opened, wait_for_connections
from tests.waiting import retry_until

from rltui import __version__
from rltui.cli import main
from rltui.cli.parser import parse
from rltui.client.transports.frames import Hello
from rltui.client.transports.remote_machine import RemoteMachine, configured, host_of
from rltui.client.transports.ssh import OURS, HostLink
from rltui.errors import ConflictError, LinkDownError, RltuiError, UsageError
from rltui.settings import HostSettings


def silent(text: str) -> None:
    del text


def refused(host: RemoteMachine) -> RltuiError:
    with pytest.raises(RltuiError) as caught:
        HostLink(host).open(silent)
    return caught.value


def way(tmp_path: Path, script: str) -> RemoteMachine:
    """A host that is reached by a shell script."""
    path = tmp_path / "way"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(stat.S_IRWXU)
    return RemoteMachine("gpubox", (str(path),))


def test_a_machine_without_rltui_is_told_with_what_to_do(tmp_path: Path) -> None:
    error = refused(way(tmp_path, 'exec sh -c "exec no-such-$1"'))
    assert error.title == "rltui not found on gpubox"
    assert "--host gpubox:/path/to/rltui" in error.hint
    assert error.details


def test_an_older_rltui_is_a_conflict(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as unknown:
        parse(["serves"])  # as `serve` is to a version without it
    error = refused(way(tmp_path, f'echo "rltui: {unknown.value.title}" >&2; exit 2'))
    assert isinstance(error, ConflictError)
    assert "too old" in error.title


def test_another_protocol_is_a_conflict(tmp_path: Path) -> None:
    hello = Hello("9.0.0", OURS.link + 1, OURS.api).line().decode().strip()
    error = refused(way(tmp_path, f"echo '{hello}'; cat >/dev/null"))
    assert isinstance(error, ConflictError)
    assert "gpubox has rltui 9.0.0" in error.title
    assert __version__ in error.title


def test_what_was_said_instead_is_told(tmp_path: Path) -> None:
    error = refused(way(tmp_path, "echo this account is locked; exit 3"))
    assert error.title == "no answer from rltui on gpubox: the connection ended with code 3"
    assert error.details == ("it said: this account is locked",)


def test_a_program_that_is_not_here_is_told() -> None:
    assert (
        refused(RemoteMachine("gpubox", ("/no/ssh", "gpubox"))).title
        == "cannot run /no/ssh: No such file or directory"
    )


def test_what_ssh_says_is_told(tmp_path: Path) -> None:
    fake = tmp_path / "ssh"
    fake.write_text("#!/bin/sh\nprintf 'ssh: connect to host gpubox port 22: No route\\r\\n' >&2\nexit 255\n")
    fake.chmod(stat.S_IRWXU)
    host = RemoteMachine("gpubox", (str(fake), "gpubox"))
    messages: list[str] = []
    with pytest.raises(RltuiError, match=r"gpubox cannot be reached\n") as caught:
        HostLink(host).open(messages.append)
    assert caught.value.hint == "check that this works: ssh gpubox"
    assert "".join(messages) == "ssh: connect to host gpubox port 22: No route\n"
    link = HostLink(host)
    link.begin()
    retry_until(
        lambda: link.trouble() == "gpubox cannot be reached: ssh: connect to host gpubox port 22: No route"
    )
    fake.write_text("#!/bin/sh\necho 'me@gpubox: Permission denied (publickey,password).' >&2\nexit 255\n")
    retry_until(
        lambda: link.trouble() == "gpubox requires a password or another key: leave, and open it again"
    )
    link.close()


def test_the_command_of_ssh() -> None:
    host = host_of("me@box:~/venv/bin/rltui", {})
    words = host.serving(prompts=False)
    assert (words[0], words[-2:]) == ("ssh", ["me@box", "~/venv/bin/rltui serve --stdio"])
    assert "BatchMode=yes" in words
    assert "BatchMode=yes" not in host.serving(prompts=True)
    assert "ServerAliveInterval=5" in host.serving(prompts=True)
    assert host.running([host.rltui, "logs", "a b"], terminal=True)[-1] == "~/venv/bin/rltui logs 'a b'"
    assert "-t" in host.running(["rltui"], terminal=True)


def test_hosts_of_the_settings() -> None:
    known = {
        "gpubox": HostSettings(reach=("kubectl", "exec", "-i", "pod", "--", "sh", "-c"), rltui="/opt/rltui")
    }
    assert host_of("gpubox", known).serving(prompts=True) == [
        *known["gpubox"].reach,
        "/opt/rltui serve --stdio",
    ]
    assert configured("near", HostSettings()).command == ("ssh", "near")
    assert host_of("gpubox:/usr/bin/rltui", known) == RemoteMachine(
        "gpubox", known["gpubox"].reach, "/usr/bin/rltui"
    )


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "two words", ":/path"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a host"):
        host_of(text, {})


def test_calls_are_refused_while_it_is_cut_and_it_comes_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rltui.client.transports.ssh.PAUSES_S", (0.05,))
    with opened(machine) as link:
        assert link.call("runs.catch_up", {"of": True, "arguments": {}}).data == []
        assert link.trouble() == ""
        machine.cut(for_good=True)
        try:
            retry_until(lambda: not link.is_up, timeout_s=10)
            with pytest.raises(LinkDownError, match=r"^gpubox: connection lost \d+s ago, retrying") as caught:
                link.call("server.open", {})
            assert caught.value.hint == "nothing was done"
            retry_until(lambda: "Permission denied" in link.trouble(), timeout_s=10)
        finally:
            machine.mend()
        wait_for_connections(link, 2)
        assert link.call("runs.catch_up", {"of": True, "arguments": {}}).data == []


def test_an_answer_that_was_under_way_is_not_waited_for(machine: Machine) -> None:
    with opened(machine) as link:
        pid = int((machine.root / "pid").read_text())
        subprocess.run(["kill", "-STOP", str(pid)], check=True)
        answer = link.future("runs.catch_up", {"of": True, "arguments": {}})
        time.sleep(0.05)
        assert not answer.done()
        machine.cut()
        with pytest.raises(LinkDownError) as caught:
            answer.result(10)
        assert "whether the request was carried out" in caught.value.hint


@pytest.mark.slow
def test_a_link_of_the_background_says_nothing_and_tries_on(tmp_path: Path) -> None:
    machine = machine_at(tmp_path)
    machine.way.chmod(stat.S_IRUSR)
    link = HostLink(machine.host)
    try:
        link.begin()
        link.begin()
        retry_until(lambda: "Permission denied" in link.trouble())
        machine.mend()
        wait_for_connections(link, 1)
    finally:
        link.close()
    assert not is_alive(machine)


def test_closing_ends_a_connection_that_does_not_come_about(tmp_path: Path) -> None:
    host = way(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    link = HostLink(host)
    link.begin()
    pid = int(retry_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()))
    link.close()
    assert not Path(f"/proc/{pid}").exists()


def test_questions_that_nobody_understands_are_refused(link: HostLink) -> None:
    key = {"output_dir": "/nowhere", "supervised": False, "readonly": True}
    for method, params, title in (
        ("no such", None, "has no 'no such'"),
        ("experiment.pins", {"of": key, "arguments": {}}, "no experiment in /nowhere"),
        (
            "experiment.pins",
            {"of": {"output_dir": 7}, "arguments": {}},
            "invalid request: .*output_dir: expected str, got int",
        ),
        ("runs.open", {"of": False, "arguments": {}}, "has no 'runs.open'"),
        ("server.owner", {"of": None, "arguments": {}}, "has no 'server.owner'"),
        ("server.open", None, "invalid request: TypeError"),
        ("log.at", {"of": 4711, "arguments": {"offset": 0}}, "that log is no longer available"),
        ("series.news", {"of": "/nowhere", "arguments": {"stamp": 1, "wanted": 1}}, "request: stamp"),
    ):
        with pytest.raises(RltuiError, match=title):
            link.call(method, params)


def test_serve_is_not_for_people(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve"]) == 2
    assert "another machine" in capsys.readouterr().err
    done = subprocess.run(
        [str(machine.way), f"{machine.root}/rltui serve --stdio"],
        input="GET / HTTP/1.1\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "for another rltui" in done.stderr
    assert done.stdout.startswith(f"{NOISE}\nrltui-link ")


@pytest.mark.slow
def test_a_login_file_that_reads_the_hello_is_told(tmp_path: Path) -> None:
    machine = machine_at(tmp_path / "box")
    way = machine.way.read_text().replace("exec sh -c", "read eaten\nexec sh -c")
    machine.way.write_text(way)
    link = HostLink(machine.host)
    answer = link.open(silent)
    with pytest.raises(RltuiError) as caught:
        answer.result(60)
    link.close()
    assert caught.value.title == f"{machine.host.name} does not respond"
    assert "a login file" in "\n".join(caught.value.details)
