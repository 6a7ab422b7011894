from __future__ import annotations

from pathlib import Path

import pytest

from rltui import paths
from rltui.base.template import render, render_arguments
from rltui.errors import ConfigError
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFile, RunContext
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ExperimentRecord

SHIPPED = sorted(paths.shipped_dir("layouts").glob("*.toml"))
ONE = '[[component]]\nid = "a"\ncommand = ["true"]\n'


@pytest.fixture(autouse=True)
def user_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    folder = tmp_path / "xdg" / "rltui" / "layouts"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_layouts_load(path: Path) -> None:
    layout = layout_files.load(path)
    assert layout.title
    assert layout.framework in ("", *registry.IDS)


def test_tinyrl_layout_is_filled() -> None:
    layout = layout_files.load(layout_files.find("tinyrl"))
    framework = registry.get(layout.framework)
    files = {role: ConfigFile(role, f"/c/{role}.toml", {}) for role in ("rl", "sft")}
    values = framework.launch.template_values(files, RunContext("/w", "/w/out", "/py", resume_step=3))
    for spec in layout.component:
        assert render_arguments(spec.command, values, where="x")
        for text in (spec.cwd, spec.gpus, spec.port, spec.creates, *spec.env.values()):
            render(text, values, where="x")
        if spec.ready is not None and spec.ready.http is not None:
            assert render(spec.ready.http, values, where="x").startswith("http://127.0.0.1:8000/")


def test_every_framework_has_its_layout() -> None:
    names = {path.stem for path in SHIPPED}
    assert {name for each in map(registry.get, registry.IDS) for name in each.layouts.values()} <= names


def test_own_layouts_go_before_shipped_ones(tmp_path: Path, user_config: Path) -> None:
    project = tmp_path / "project" / ".rltui" / "layouts"
    project.mkdir(parents=True)
    (project / "tinyrl.toml").write_text(ONE)
    (project / "mine.toml").write_text(ONE)
    assert layout_files.find("tinyrl", tmp_path / "project") == project / "tinyrl.toml"
    assert layout_files.find("tinyrl") == paths.shipped_dir("layouts") / "tinyrl.toml"
    (user_config / "tinyrl.toml").write_text(ONE)
    assert layout_files.find("tinyrl", tmp_path / "project") == user_config / "tinyrl.toml"
    names = [path.stem for path in layout_files.available(tmp_path / "project")]
    assert names == sorted(names)
    assert {"mine", "tinyrl"} <= set(names)


def test_find_takes_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.toml").write_text(ONE)
    monkeypatch.chdir(tmp_path)
    assert layout_files.find("./x.toml") == tmp_path / "x.toml"
    assert layout_files.find("x.toml") == tmp_path / "x.toml"
    with pytest.raises(ConfigError, match="file not found"):
        layout_files.find("y.toml")
    with pytest.raises(ConfigError) as caught:
        layout_files.find("tinylr")
    assert caught.value.hint == "did you mean tinyrl?"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (ONE + 'comand = "x"\n', ":4:1: component 'a', comand: unknown key; did you mean command?"),
        (
            ONE + 'stop = { signl = "X" }\n',
            ":4:10: component 'a', stop.signl: unknown key; did you mean signal?",
        ),
        ('titel = "x"\n' + ONE, ":1:1: titel: unknown key; did you mean title?"),
        ('[[component]]\nid = "a"\n', ":1:1: component 'a', command: is missing"),
        (ONE.replace('"a"', '"A b"'), ":2:1: component 'A b', id: string should match pattern"),
        (ONE + 'stop = { signal = "KILL" }\n', ":4:10: component 'a', stop.signal: unknown signal 'KILL'"),
        (
            ONE + "ready = { timeout_s = 5 }\n",
            ":4:1: component 'a', ready: set exactly one of http, tcp, log, file",
        ),
        (
            ONE + 'ready = { tcp = "h:1", file = "{a}" }\n',
            ":4:1: component 'a', ready: set exactly one of http, tcp, log, file",
        ),
        (  # B9
            ONE + 'ready = { http = "https://h:80a0/health" }\n',
            ":4:1: component 'a', ready: http must be a URL such as http://127.0.0.1:8000/health, not 'https://h:80a0/health'",
        ),
        (
            ONE + 'ready = { tcp = "8000" }\n',
            ":4:1: component 'a', ready: tcp must be host:port, such as 127.0.0.1:8000, not '8000'",
        ),
        (ONE + 'ready = { log = "(" }\n', ":4:11: component 'a', ready.log: invalid regular expression '('"),
        (
            ONE + 'metrics = "localhost:80/m"\n',
            (
                ":4:1: component 'a', metrics: metrics must be a URL such as http://127.0.0.1:8000/health,"
                " not 'localhost:80/m'"
            ),
        ),
        (ONE + 'after = ["b"]\n', ": component 'a' waits for unknown 'b'; known: a"),
        ("", ": a layout needs at least one [[component]] or [[log]]"),
        (
            ONE + '[[gpu_source]]\nname = "node-2"\ncommand = ["ssh"]\ncommnd = []\n',
            ":7:1: gpu_source 'node-2', commnd: unknown key; did you mean command?",
        ),
        ('[[log]]\nid = "t"\nfile = "x.log"\n', ":1:1: log 't', files: "),
        (
            '[[log]]\nid = "t"\nfiles = ["/x.log"]\n',
            ":3:1: log 't', files: '/x.log' is not a path inside the run's folder",
        ),
        (
            ONE + 2 * '[[gpu_source]]\nname = "node-2"\ncommand = ["ssh"]\n',
            ": gpu_source name 'node-2' is used more than once",
        ),
    ],
)
def test_load_names_place_key_and_fault(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        layout_files.load(path)
    assert caught.value.title.startswith(f"{path}{fault}")


def test_load_reports_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('kind = 1\n[[component]]\nid = "a"\n')
    with pytest.raises(ConfigError) as caught:
        layout_files.load(path)
    assert len(caught.value.details) == 1


EACH = """
[[component]]
id = "env"
each = "env_servers"
command = ["serve", "{instance}"]
"""


def record(layout: Path, **values: object) -> ExperimentRecord:
    return ExperimentRecord("one", "/out", "/work", (), str(layout), "generic", 1.0, **values)  # type: ignore[arg-type]


def test_layout_of_an_experiment_has_its_instances(tmp_path: Path) -> None:
    path = tmp_path / "each.toml"
    path.write_text(ONE + EACH)
    layout = layout_files.load_for(record(path, instances={"env_servers": ("reverse_text",)}))
    assert [spec.id for spec in layout.automatic] == ["a", "env-reverse-text"]
    assert layout["env-reverse-text"].command == ("serve", "reverse_text")


def test_instances_that_leave_no_layout_are_an_error_in_words(tmp_path: Path) -> None:
    path = tmp_path / "each.toml"
    path.write_text(EACH)
    with pytest.raises(
        ConfigError, match=r"each\.toml: with the instances of this config: a layout needs at least one"
    ):
        layout_files.load_for(record(path))
