"""From config files to a record: framework, layout, folders. Nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.requests import changed, run_of

from rltui.client.checking import check, identify
from rltui.client.creation import create, examine
from rltui.client.draft import plan_record
from rltui.core.experiment.request import ConfigLine
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.frameworks.registry import AmbiguousConfigError
from rltui.services.config.files import named
from rltui.services.experiment.files import ControlFolder, ExperimentRecord

DATA = Path(__file__).parents[1] / "data" / "prime_rl"
LAYOUT = '[[component]]\nid = "a"\ncommand = ["true"]\n'
LOGS_ONLY = '[[log]]\nid = "trainer"\nfiles = ["*.log"]\n'
ANY_SFT = '[data]\nname = "x"\n'
"""A config that every generation of prime-rl takes."""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_config_decides_where_the_layout_does_not(work: Path) -> None:
    layout = write(work, "own.toml", LAYOUT)
    config = write(work, "rl.toml", "[orchestrator]\ngroup_size = 8\nconcurrency = {}\n")
    assert identify((config,), str(layout))[0].id == "prime-rl"


def test_a_config_that_nobody_knows_is_generic_with_a_layout(work: Path) -> None:
    layout = write(work, "own.toml", LAYOUT)
    config = write(work, "mine.toml", "colour = 3\n")
    assert identify((config,), str(layout))[0].id == "generic"
    with pytest.raises(ConfigError, match="unknown framework"):
        identify((config,), None)


def test_a_placeholder_that_nobody_fills_is_an_error_before_anything_is_made(work: Path) -> None:
    """Finding G4: `check` found nothing, `up` failed and left a supervisor."""
    line = 'command = ["true"]\nready = { http = "http://127.0.0.1:{prot.x}/" }'
    layout = write(work, "own.toml", f'framework = "generic"\n[[component]]\nid = "a"\n{line}\n')
    config = write(work, "mine.toml", "colour = 3\n")
    (problem,) = check((config,), str(layout)).problems
    assert problem.severity == "error"
    assert f"{layout}: component 'a': unknown placeholder {{prot.x}}; known: {{" in problem.text
    with pytest.raises(ConfigError, match="unknown placeholder"):
        examine(run_of((config,), layout=str(layout)))


def test_an_ambiguous_config_asks(work: Path) -> None:
    layout = write(work, "own.toml", LAYOUT)
    config = write(work, "sft.toml", ANY_SFT)
    with pytest.raises(AmbiguousConfigError) as caught:
        identify((config,), str(layout))
    assert len(caught.value.candidates) > 1
    for candidate in caught.value.candidates:
        assert identify((config,), str(layout), candidate)[0].id == candidate


def test_layout_config_and_framework_that_do_not_belong_together_are_told(work: Path) -> None:
    config, sft = write(work, "mine.toml", "colour = 3\n"), write(work, "sft.toml", ANY_SFT)
    layout = write(work, "own.toml", 'framework = "tinyrl"\n' + LAYOUT)
    with pytest.raises(ConfigError, match=r"own\.toml is for tinyrl, not for prime-rl"):
        identify((sft,), str(layout), "prime-rl")
    with pytest.raises(ConfigError, match="is a layout, not a config"):  # G7
        check((layout,), None)
    with pytest.raises(ConfigError, match="starts nothing itself") as caught:
        check((config,), str(write(work, "logs.toml", LOGS_ONLY)))
    assert "rltui watch FOLDER" in caught.value.hint
    with pytest.raises(UsageError, match="no config and no layout given"):
        check((), None)


def test_a_run_folder_of_its_own(work: Path) -> None:
    layout = write(work, "own.toml", 'framework = "generic"\nrun_dir = "run"\n' + LAYOUT)
    config = write(work, "mine.toml", "colour = 3\n")
    record, earlier = plan_record(run_of((config,), layout=str(layout)))
    assert earlier is None
    assert record.output_dir == str(work / "outputs" / "mine")
    assert record.run_dir == str(work / "outputs" / "mine" / "run")
    (work / "outputs" / "mine" / "run").mkdir(parents=True)
    (work / "outputs" / "mine" / "run" / "metrics.jsonl").write_text("{}\n")
    _, earlier = plan_record(run_of((config,), layout=str(layout)))
    assert earlier is not None
    assert earlier.next_free == work / "outputs" / "mine-2"
    record, _ = plan_record(run_of((config,), layout=str(layout), earlier_run="new"))
    assert record.run_dir == str(work / "outputs" / "mine-2" / "run")


def generic(work: Path, text: str = "colour = 3\n") -> tuple[Path, str]:
    layout = write(work, "own.toml", 'framework = "generic"\n' + LAYOUT)
    return write(work, "mine.toml", text), str(layout)


def test_a_relative_output_folder_counts_from_the_shells(work: Path, tmp_path: Path) -> None:
    """Finding P6."""
    config, layout = generic(work)
    checkout = tmp_path / "checkout"
    record, _ = plan_record(run_of((config,), layout=layout, output_dir=Path("out"), workspace=checkout))
    assert record.output_dir == str(work / "out")
    assert record.workspace == str(checkout)


def test_there_must_be_something_to_resume(work: Path) -> None:
    """Finding P5: it once began from scratch."""
    config, layout = generic(work)
    wish = run_of((config,), layout=layout, output_dir=Path("out"), earlier_run="resume")
    with pytest.raises(ConflictError, match=f"no earlier run in {work / 'out'} to resume"):
        examine(wish)
    (work / "out" / "checkpoints" / "step_3").mkdir(parents=True)
    (work / "out" / "checkpoints" / "step_3" / "STABLE").touch()
    assert examine(wish).output_dir == str(work / "out")
    with pytest.raises(ConflictError, match=r"checkpoint 4: .* complete: 3"):
        examine(changed(wish, checkpoint=4))


def test_the_copy_that_an_experiment_keeps_of_its_config_is_its_own(work: Path) -> None:
    """Finding A7: `up outputs/demo` once offered to resume the run that the copied file names."""
    config = write(work, "rl.toml", 'output_dir = "outputs/other"\n[trainer]\n[orchestrator]\n')
    (work / "outputs" / "other" / "checkpoints").mkdir(parents=True)
    copy = work / "outputs" / "demo" / "rl.toml"
    copy.parent.mkdir()
    copy.write_bytes(config.read_bytes())
    wish = run_of((copy,), framework="tinyrl", layout="tinyrl", output_dir=copy.parent)
    record, _ = plan_record(wish)
    ControlFolder(copy.parent).write_record(record)
    again, earlier = plan_record(changed(wish, output_dir=None))
    assert (again.name, again.output_dir) == ("demo", str(copy.parent))
    assert earlier is None
    other, _ = plan_record(changed(wish, config=ConfigLine((config,)), output_dir=None))
    assert other.output_dir == str(work / "outputs" / "other")


THREE = ("train.toml", "orch.toml", "infer.toml")


@pytest.mark.parametrize("names", [THREE, THREE[::-1], ("",)], ids=["one order", "another", "their folder"])
def test_three_files_in_any_order_or_their_folder(work: Path, names: tuple[str, ...]) -> None:
    folder = work / "reverse"
    folder.mkdir()
    for name in THREE:
        (folder / name).write_bytes((DATA / "era_a" / name).read_bytes())
    files = named([folder / name for name in names])
    assert {path.name for path in files} == set(THREE)
    record, _ = plan_record(run_of(files))
    assert (record.framework, Path(record.layout_file).stem) == ("prime-rl-split", "prime-rl-split")


def test_a_folder_of_configs_that_do_not_belong_together(work: Path) -> None:
    write(work, "rl.toml", "[orchestrator]\ngroup_size = 8\n[trainer]\n")
    write(work, "other.toml", "colour = 3\n")
    with pytest.raises(ConfigError, match="unknown framework") as caught:
        identify(named([work]), None)
    assert any("other.toml: has colour" in line for line in caught.value.details)
    (work / "empty").mkdir()
    with pytest.raises(ConfigError, match="has no TOML file"):
        named([work / "empty"])


def test_two_checkouts_with_an_rl_toml_each_get_a_name_of_their_own(work: Path) -> None:
    def planned(folder: Path, name: str | None = None) -> ExperimentRecord:
        folder.mkdir(parents=True, exist_ok=True)
        config = write(folder, "rl.toml", (DATA / "era_c" / "rl.toml").read_text())
        return plan_record(run_of((config,), name=name, workspace=folder))[0]

    one, two = work / "one" / "demo", work / "two" / "demo"
    first = planned(one)
    first.control.write_record(first)
    second = planned(two)
    assert (first.name, second.name) == ("demo", "demo-2")
    assert second.output_dir == str(two / "outputs" / "demo")
    with pytest.raises(ConflictError, match="the name demo is taken"):
        planned(two, "demo")


def test_check_says_why_nothing_can_be_said_of_this_box(work: Path) -> None:
    layout = write(work, "own.toml", 'framework = "generic"\n' + LAYOUT + 'gpu_memory = "much"\n')
    config = write(work, "mine.toml", "colour = 3\n")
    result = check((config,), str(layout), with_memory=True)
    assert result.valid
    assert not result.startable
    assert "gpu_memory is 'much'" in result.blockers[0].reason


def test_a_layout_whose_commands_need_no_config_needs_none(tmp_path: Path) -> None:  # A12
    layout = tmp_path / "parts.toml"
    layout.write_text('[[component]]\nid = "a"\ncommand = ["sleep", "{port.a}"]\n')
    assert check((), str(layout)).valid
    record, earlier = plan_record(run_of((), layout=str(layout), workspace=tmp_path))
    assert (record.name, record.config_files, earlier) == ("parts", (), None)


@pytest.mark.parametrize("name", ["", "%", "a.b", "../x", "-x", "a" * 49, "ü"])
def test_a_name_that_does_not_suit_is_refused_and_nothing_is_made(work: Path, name: str) -> None:
    """Finding H11."""
    layout = write(work, "own.toml", LAYOUT)
    wish = run_of((write(work, "rl.toml", "x = 1\n"),), layout=str(layout), name=name)
    with pytest.raises(ConfigError, match="not a name"):
        create(wish)
    assert sorted(path.name for path in work.iterdir()) == ["own.toml", "rl.toml"]


def test_a_resumed_run_keeps_its_servers_and_the_options_of_its_jobs(work: Path) -> None:
    config = write(work, "rl.toml", "[trainer]\n[orchestrator]\n")
    request = run_of(
        (config,), framework="tinyrl", layout="tinyrl-slurm", output_dir=work / "out",
        inference=("http://gpubox:8000/v1",),
        host_options={"slurm": {"partition": "gpu", "dependency": "afterok:7"}},
    )  # fmt: skip
    (work / "out" / "checkpoints" / "step_3").mkdir(parents=True)
    (work / "out" / "checkpoints" / "step_3" / "STABLE").touch()
    before, _ = plan_record(request)
    before.control.write_record(before)
    resume = changed(
        request, layout=None, inference=None, host_options={"slurm": {"time": "1:00"}}, earlier_run="resume"
    )
    resumed, _ = plan_record(resume)
    assert (resumed.layout_file, resumed.inference) == (before.layout_file, before.inference)
    assert resumed.host_options == {"slurm": {"partition": "gpu", "time": "1:00"}}
    elsewhere, _ = plan_record(changed(resume, inference=("http://other:8000/v1",)))
    assert elsewhere.inference == ("http://other:8000/v1",)
