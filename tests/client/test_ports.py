from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rltui import paths
from rltui.client import launch, ports
from rltui.client.reader import ExperimentReader
from rltui.frameworks import registry
from rltui.services import processes
from rltui.services.config.passed import passed_values
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import Launcher

RL = """\
max_steps = 20
[model]
name = "m"
[[orchestrator.env]]
id = "reverse-text"
[inference.server]
port = PORT
"""


pytestmark = pytest.mark.usefixtures("own_user")


@pytest.fixture
def held_port() -> Iterator[int]:
    """A port that this process listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield int(holder.getsockname()[1])


def experiment(
    folder: Path, port: int, *, name: str = "a", more: str = "", layout: str = "tinyrl"
) -> ExperimentRecord:
    """Written down, on the list."""
    config = folder / name / "rl.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(RL.replace("PORT", str(port)) + more)
    record = ExperimentRecord(
        name=name,
        output_dir=str(folder / name / "out"),
        workspace=str(folder),
        config_files=(str(config),),
        layout_file=str(layout_files.find(layout, folder)),
        framework="tinyrl",
        created_at=1.0,
    )
    record.control.write_record(record)
    return record


def alive(*names: str) -> Callable[..., list[ExperimentRecord]]:
    return lambda records, **_: [record for record in records if record.name in names]


def test_a_free_port_is_taken_as_it_is(tmp_path: Path, free_port: int) -> None:
    record = experiment(tmp_path, free_port)
    assert ports.with_ports(record) == (record, ())


def test_held_port_is_replaced_by_the_next_free_one(
    tmp_path: Path, held_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, notes = ports.with_ports(experiment(tmp_path, held_port))
    port = record.overrides["inference.server.port"]
    assert isinstance(port, int)
    assert port > held_port
    own_name = Path("/proc/self/comm").read_text().strip()
    moved = f"port {held_port} is in use by pid {os.getpid()} {own_name}; this experiment uses {port}"
    assert notes == (moved,)
    monkeypatch.setattr(ports, "served_model", lambda port: "Qwen3")
    server = "a server already serves Qwen3 there"
    use = f"; to use it: --inference http://127.0.0.1:{held_port}"
    assert ports.with_ports(experiment(tmp_path, held_port))[1] == (moved, server + use)
    vf_rl = experiment(tmp_path, held_port, layout="verifiers")
    seed = (Path(__file__).parents[1] / "data/verifiers/reverse-text.toml").read_text()
    with_port = seed.replace("enforce_eager = true", f"port = {held_port}")
    Path(vf_rl.config_files[0]).write_text(with_port)
    notes = ports.with_ports(replace(vf_rl, framework="verifiers"))[1]
    assert notes[1] == server, "its programs cannot be sent to another one"


def test_port_of_a_living_experiment_is_left_to_it(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment(tmp_path, free_port, name="other")
    mine = experiment(tmp_path, free_port)
    assert ports.with_ports(mine) == (mine, ()), "dead ones need no port"
    monkeypatch.setattr(launch, "running_experiments", alive("other"))
    record, notes = ports.with_ports(mine)
    assert notes[0].startswith(
        f"port {free_port} is reserved for the experiment other; this experiment uses "
    )
    # … and the port that the third experiment would take is the second one's now.
    record.control.write_record(record)
    monkeypatch.setattr(launch, "running_experiments", alive("other", "a"))
    third, _ = ports.with_ports(experiment(tmp_path, free_port, name="third"))
    assert len({free_port, *record.overrides.values(), *third.overrides.values()}) == 3


def test_living_experiment_whose_config_is_broken_is_passed_over(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(experiment(tmp_path, free_port, name="other").config_files[0]).write_text("[")
    monkeypatch.setattr(launch, "running_experiments", alive("other"))
    assert ports.with_ports(experiment(tmp_path, free_port))[1] == ()


def test_override_is_kept_while_its_port_is_free(tmp_path: Path, held_port: int, free_port: int) -> None:
    with_override = replace(
        experiment(tmp_path, held_port),
        overrides={"inference.server.port": free_port},
        overridden={"inference.server.port": held_port},
    )
    record, notes = ports.with_ports(with_override)
    assert record == with_override
    assert notes == (f"inference uses port {free_port}, as before; the config says {held_port}",)


def test_override_ends_when_a_person_writes_another_port(tmp_path: Path, free_port: int) -> None:
    stale = replace(
        experiment(tmp_path, free_port),
        overrides={"inference.server.port": 8001},
        overridden={"inference.server.port": 8000},
    )
    assert dict(ports.with_ports(stale)[0].overrides) == {}
    assert ports.listening_ports(stale) == (free_port,)


def test_port_that_the_config_names_twice_is_left_alone(tmp_path: Path, held_port: int) -> None:
    more = f'[orchestrator.client]\nbase_url = "http://127.0.0.1:{held_port}/v1"\n'
    record = experiment(tmp_path, held_port, more=more)
    assert ports.with_ports(record) == (record, ())


def test_layout_that_passes_no_options_on_keeps_its_port(tmp_path: Path, held_port: int) -> None:
    own = tmp_path / ".rltui" / "layouts" / "own.toml"
    own.parent.mkdir(parents=True)
    shipped = (paths.shipped_dir("layouts") / "tinyrl.toml").read_text()
    own.write_text(shipped.replace('"{config.rl}", "{overrides}"]', '"{config.rl}"]'))
    record = experiment(tmp_path, held_port, layout="own")
    assert ports.with_ports(record) == (record, ())


def test_override_reaches_commands_readiness_and_the_record(tmp_path: Path, held_port: int) -> None:
    record, _ = ports.with_ports(experiment(tmp_path, held_port))
    port = record.overrides["inference.server.port"]
    control = record.control
    control.write_record(record)
    assert control.read_record() == record
    framework = registry.get(record.framework)
    launcher = Launcher(record, layout_files.load(Path(record.layout_file)), framework)
    files = ExperimentReader(record).document().load()
    inference = launcher.context(files).launch("inference")
    assert inference.argv[-2:] == ("--inference.server.port", str(port))
    assert inference.port == port == launcher.context(files).port("inference")
    assert inference.ready is not None
    assert inference.ready.http == f"http://127.0.0.1:{port}/health"
    orchestrator = launcher.context(files, resume_step=4).launch("orchestrator")
    assert orchestrator.argv[-4:] == (
        "--ckpt.resume-step", "4", "--inference.server.port", str(port)
    )  # fmt: skip
    text = Path(record.config_files[0]).read_text()
    assert f"port = {held_port}" in text, "the config file is the user's"
    assert passed_values("inference", launcher.context(files, resume_step=4)) == {
        "rl": {"inference.server.port": port}
    }
    assert passed_values("orchestrator", launcher.context(files, resume_step=4))["rl"] == {
        "output_dir": record.output_dir,
        "ckpt.resume_step": 4,
        "inference.server.port": port,
    }
    usual = replace(record, output_dir=f"{record.workspace}/outputs/reverse-text")
    layout = layout_files.load(Path(record.layout_file))
    passed = passed_values("trainer", Launcher(usual, layout, framework).context(files))["rl"]
    assert passed == {"inference.server.port": port}, "the folder is the one that the config means"


def prime_rl(folder: Path, name: str, era: str) -> ExperimentRecord:
    """An experiment of an example of prime-rl, which names no port."""
    data = Path(__file__).parents[1] / "data" / "prime_rl" / era / "rl.toml"
    record = experiment(folder, 1, name=name, layout="prime-rl")
    Path(record.config_files[0]).write_text(data.read_text())
    return replace(record, framework="prime-rl", instances={"env_servers.train": ("reverse-text",)})


@pytest.mark.parametrize(("era", "of_env_servers"), [("era_c", {5000}), ("era_d", set())])
def test_two_runs_of_prime_rl_have_no_port_in_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str, of_env_servers: set[int]
) -> None:
    """Finding P3."""
    monkeypatch.setattr(launch, "running_experiments", alive("one"))
    monkeypatch.setattr(processes, "port_holder", lambda port, host: None)
    monkeypatch.setattr(ports, "served_model", lambda port: None)
    one, nothing_moves = ports.with_ports(prime_rl(tmp_path, "one", era))
    one.control.write_record(one)
    assert nothing_moves == ()
    fixed = {8000, 8100, 29_000, 29_501, 5555, 5556, 5557}
    assert set(ports.listening_ports(one)) == fixed | of_env_servers
    two, notes = ports.with_ports(prime_rl(tmp_path, "two", era))
    assert set(ports.listening_ports(one)).isdisjoint(ports.listening_ports(two))
    moved = "port 5000 is reserved for the experiment one; this experiment uses 5001 for env servers"
    assert (moved in notes) == bool(of_env_servers)
    assert len(notes) == 4 + len(of_env_servers)
