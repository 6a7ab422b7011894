"""The plain life of a component: start, environment, output, exit."""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hosts.shim_harness import SHIM, attempt
from tests.waiting import retry_until

from rltui.services.processes import boot_identity, is_alive, read_process_id

PR_CAPBSET_DROP, CAP_SYS_ADMIN, CAP_SYS_RESOURCE = 24, 21, 24
"""From `linux/prctl.h` and `linux/capability.h`."""

SHOW_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.mark.parametrize(
    ("script", "exit_code", "signal_name"),
    [
        ("exit 0", 0, None),
        ("exit 255", 255, None),
        ("kill -SEGV $$", None, "SIGSEGV"),
        ("kill -40 $$", None, "SIG40"),
    ],
)
def test_exit_is_recorded(
    tmp_path: Path, script: str, exit_code: int | None, signal_name: str | None
) -> None:
    with attempt(tmp_path, ["sh", "-c", script]) as run:
        run.start()
        record = run.wait()
    assert (record.state, record.exit_code, record.signal) == ("exited", exit_code, signal_name)
    assert record.error is None
    assert not record.stop_requested
    assert record.ended_at is not None
    assert record.ended_at >= record.started_at
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attempt.json", "output.log", "spec.json"]


def test_running_record_names_the_process(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sleep", "1000"], attempt=7) as run:
        run.start()
        record = run.running()
        assert run.process is not None
        assert (record.experiment, record.component, record.attempt) == (run.spec["experiment"], "trainer", 7)
        assert (record.state, record.exit_code, record.signal, record.ended_at) == (
            "running",
            None,
            None,
            None,
        )
        assert record.argv == ("sleep", "1000")
        assert record.shim == read_process_id(run.process.pid)
        assert record.main is not None
        assert is_alive(record.main)
        assert record.session == record.main.pid == os.getsid(record.main.pid)
        assert record.boot == boot_identity()
        assert record.is_supervised


def test_output_goes_to_the_log_in_order_and_is_appended(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("before\n")
    with attempt(tmp_path, ["sh", "-c", "echo out; echo err >&2; read line || echo no input"]) as run:
        run.start()
        run.wait()
    assert run.log.read_text() == "before\nout\nerr\nno input\n"


def test_environment_is_inherited_added_to_and_tagged(tmp_path: Path) -> None:
    additions = {"CUDA_VISIBLE_DEVICES": "", "ADDED": "a b", "GONE": None, "RLTUI_ATTEMPT": "99"}
    argv = [sys.executable, "-c", SHOW_ENVIRONMENT]
    with attempt(tmp_path, argv, env=additions, component="inference", attempt=2) as run:
        run.start(env={"PATH": os.environ["PATH"], "GONE": "1", "KEPT": "yes"})
        run.wait()
    environment = json.loads(run.log.read_text())
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["ADDED"], environment["KEPT"]) == (
        "",
        "a b",
        "yes",
    )
    assert "GONE" not in environment
    assert environment["RLTUI_EXPERIMENT"] == run.spec["experiment"]
    assert (environment["RLTUI_COMPONENT"], environment["RLTUI_ATTEMPT"]) == ("inference", "2")


def test_child_starts_with_clean_signals_and_descriptors(tmp_path: Path) -> None:
    script = "grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/self/fd"
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with attempt(tmp_path, ["sh", "-c", script]) as run:
            run.start()
            run.wait()
    finally:
        signal.signal(signal.SIGINT, old)
    assert run.log.read_text().split() == ["SigBlk:", "0" * 16, "SigIgn:", "0" * 16, "0", "1", "2", "3"]


def test_exit_code_is_known_where_sigchld_was_ignored(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sh", "-c", "exit 5"]) as run:
        old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            run.start()
        finally:
            signal.signal(signal.SIGCHLD, old)
        assert run.wait().exit_code == 5


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"argv": ["no-such-program", "x"]}, "cannot run 'no-such-program': No such file or directory"),
        ({"argv": ["sh", "a\0b"]}, "cannot run 'sh': embedded null byte"),
        ({"cwd": "/no/such/folder"}, "cannot enter '/no/such/folder': No such file or directory"),
        ({"log": "/proc/nothing/output.log"}, "cannot open log '/proc/nothing/output.log'"),
    ],
)
def test_what_cannot_run_is_an_exit_with_a_reason(
    tmp_path: Path, change: dict[str, object], error: str
) -> None:
    with attempt(tmp_path, ["true"], **change) as run:
        run.start()
        record = run.wait()
    assert record.error is not None
    assert record.error.startswith(error)
    assert (record.state, record.exit_code, record.main) == ("exited", 127, None)


def forbid_forks() -> None:
    """No second process for this user. Root is exempt, so root becomes somebody with most rights."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_SYS_ADMIN, CAP_SYS_RESOURCE):
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl(PR_CAPBSET_DROP)")
        os.setresuid(65534, 0, 0)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def test_a_failing_fork_is_an_exit_with_a_reason(tmp_path: Path) -> None:
    with attempt(tmp_path, ["true"]) as run:
        run.start(preexec_fn=forbid_forks)
        record = run.wait()
    reason = "the process limit is reached (ulimit -u, or the container's)"
    assert record.error == f"cannot start 'true': {reason}"
    assert (record.state, record.exit_code, record.signal, record.main) == ("exited", 127, None, None)
    assert record.ended_at is not None


@pytest.mark.parametrize("most", [4, 5, 6])
def test_too_few_descriptors_are_an_exit_with_a_reason(tmp_path: Path, most: int) -> None:
    """There are 4, one more than Python itself needs to start."""
    with attempt(tmp_path, ["true"]) as run:
        run.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
        record = run.wait()
    assert record.error is not None
    assert re.fullmatch("cannot (start|run) 'true': Too many open files", record.error)
    assert (record.state, record.exit_code) == ("exited", 127)


def test_path_of_the_component_is_searched(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "only-here"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit 9\n")
    tool.chmod(0o755)
    with attempt(tmp_path, ["only-here"], env={"PATH": f"{tool.parent}:/bin:/usr/bin"}) as run:
        run.start()
        assert run.wait().exit_code == 9


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_what_is_no_spec_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.json").write_text(text)
    assert_refused(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"argv": []},
        {"stop": {"signal": "SIGNOPE", "grace_s": 1}},
        {"stop": {"signal": "SIGTERM", "grace_s": 1, "leftovers": "maybe"}},
    ],
)
def test_a_spec_with_a_broken_value_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    with attempt(tmp_path, ["true"], **change):
        assert_refused(tmp_path)


def assert_refused(tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, "-I", "-S", SHIM, tmp_path], capture_output=True, check=False)
    assert result.returncode == 2
    assert b"spec.json" in result.stderr
    assert not (tmp_path / "attempt.json").exists()


def run_code(code: str, *arguments: object) -> list[str]:
    """Words that `code` prints, run as the shim is, with its `main` and `sys` at hand."""
    prelude = f"import sys; sys.path.append({str(SHIM.parents[3])!r}); "
    prelude += "from rltui.hosts.shim.program import main; "
    command = [sys.executable, "-I", "-S", "-c", prelude + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()


def test_imports_itself_and_the_standard_library_only() -> None:
    loaded = set(run_code("print(*sys.modules)"))
    own_modules = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}
    apart = {"__init__", "__main__", "agent", "doctor", "oom", "ports", "unpack"}  # the last five: on nodes
    names = {path.stem for path in SHIM.parent.glob("*.py")} - apart
    packages = {"rltui", "rltui.hosts", "rltui.hosts.shim"}
    assert own_modules - {"__main__"} == {*packages, *(f"rltui.hosts.shim.{name}" for name in names)}
    heavy = {"asyncio", "dataclasses", "inspect", "pathlib", "socket", "subprocess", "threading", "typing"}
    assert not loaded & heavy


@pytest.mark.parametrize(
    "argv", [["sh", "-c", "sleep 0.3 & exit 3"], ["no-such-program"]], ids=["runs", "cannot"]
)
def test_imports_nothing_while_it_lives(tmp_path: Path, argv: list[str]) -> None:
    """The package around it, or Python, may be another one by then."""
    code = "sys.addaudithook(lambda event, args: event == 'import' and print('import:' + args[0])); "
    code += "main(sys.argv[1:])"
    with attempt(tmp_path, argv) as run:
        modules = run_code(code, run.folder)
        assert run.record.state == "exited"
    assert [module for module in modules if module.startswith("import:")] == []


def copy_package(folder: Path) -> Path:
    """The shim's path in a copy without bytecode, and without the means to write any, even as root."""
    source = SHIM.parents[3]
    for path in (*SHIM.parent.glob("*.py"), *(parent / "__init__.py" for parent in SHIM.parents[1:3])):
        copy = folder / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
        (copy.parent / "__pycache__").touch()
    return folder / SHIM.relative_to(source)


def test_outlives_its_package_and_needs_no_bytecode(tmp_path: Path) -> None:
    copy = copy_package(tmp_path / "site")
    script = "trap 'exit 4' TERM; echo ready; while :; do sleep 0.02; done"
    with attempt(tmp_path / "attempt", ["sh", "-c", script]) as run:
        run.start(shim=copy)
        run.running()
        retry_until(lambda: run.log.read_text() == "ready\n")
        shutil.rmtree(tmp_path / "site")
        run.signal(signal.SIGTERM)
        assert run.wait().exit_code == 4
