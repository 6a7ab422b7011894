from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.frameworks import answering
from tests.services.config.models.checkouts import FRAMEWORK, MODEL, Box

from rltui.core.config.report import Problem
from rltui.frameworks.generic import GENERIC
from rltui.services.config.models import FrameworkModels
from rltui.services.experiment import trust

Ask = Callable[..., FrameworkModels]
VALID = "max_steps = 3\n"


def test_an_untrusted_checkout_is_not_run_unless_the_environment_names_it(
    box: Box, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding H2."""
    trust.distrust(box.root)
    own = ask()
    (problem,) = own.problems(box.loaded(VALID))
    assert (problem.severity, f"rltui trust {box.root}" in problem.message) == ("hint", True)
    assert not own.accepts(box.loaded(VALID))
    assert own.schemas([]) == {}
    assert own.reason is not None
    assert "is not trusted" in own.reason
    assert box.starts == 0
    monkeypatch.setenv("RLTUI_NO_SUCH_VARIABLE", str(box.root))
    assert own.accepts(box.loaded(VALID))


def test_a_valid_file_says_nothing_and_leaves_nothing(box: Box, ask: Ask) -> None:
    before = sorted(box.root.rglob("*"))
    own = ask()
    assert own.problems(box.loaded(VALID)) == ()
    assert own.reason is None
    assert own.accepts(box.loaded("\ufeff" + VALID)), "a byte order mark is no part of the text"
    after = sorted(box.root.rglob("*"))
    assert [path.name for path in after if path not in before] == ["rl.toml", "starts"], "no bytecode either"


def test_errors_have_key_and_line(box: Box, ask: Ask) -> None:
    text = (
        '# a comment\n[optim]\ntype = "adamw"\nlr = -1.0\n\n[orchestrator]\nbatch_size = 10\ngroup_size = 4\n'
        '\n[[orchestrator.env]]\nid = "a"\n[[orchestrator.env]]\nid = 5\nextra = 1\n'
    )
    own = ask()
    found = {(item.key, item.line): item.message for item in own.problems(box.loaded(text))}
    assert found == {
        ("max_steps", None): "prime-rl says: Field required",
        ("optim.lr", 4): "prime-rl says: Input should be greater than or equal to 0",
        ("orchestrator.env.1.id", 13): "prime-rl says: Input should be a valid string",
        ("orchestrator.env.1.extra", 14): "prime-rl says: Extra inputs are not permitted",
    }
    rule = own.problems(box.loaded("max_steps = 1\n[orchestrator]\nbatch_size = 10\ngroup_size = 4\n"))
    assert [(item.key, item.line, item.severity) for item in rule] == [("orchestrator", 2, "error")]
    assert "must be divisible" in rule[0].message
    assert not own.accepts(box.loaded(text))


def test_values_are_complete_or_there_is_a_reason(box: Box, ask: Ask) -> None:
    own = ask()
    assert own.accepts(box.loaded(VALID))
    values = own.values(box.loaded(VALID))["rl"]
    assert (values["max_steps"], values["orchestrator"]["batch_size"]) == (3, 128)
    assert own.values(box.loaded("")) == {}
    assert own.reason == "rl.toml: max_steps: Field required"


def test_what_we_told_is_not_told_again(box: Box, ask: Ask) -> None:
    text = 'max_steps = 1\n[optim]\ntype = "adamw"\nlr = -1.0\n'
    text += "[orchestrator]\nbatch_size = 10\ngroup_size = 4\n"
    own, loaded = ask(), box.loaded(text)

    def keys(*ours: Problem) -> set[str | None]:
        return {item.key for item in own.problems(loaded, ours)}

    def told(severity: str) -> Problem:
        document = {
            "severity": severity,
            "key": "optim.lr",
            "message": "x",
            "file": str(box.root / "rl.toml"),
        }
        return Problem.from_plain(document)

    assert keys() == {"optim.lr", "orchestrator"}
    assert keys(told("error")) == {"orchestrator"}
    assert keys(told("warning")) == {"optim.lr", "orchestrator"}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import os; os._exit(0)", "unexpected answer of the validator"),
        ("import os; os.kill(os.getpid(), 11)", "was killed by SIGSEGV"),
        (
            "import os\nfor fd in range(3, 20):\n    try: os.write(fd, b'x\\n')\n    except OSError: pass",
            "unexpected answer",
        ),
    ],
    ids=["exit", "quiet exit", "crash", "garbage"],
)
def test_who_cannot_answer_is_one_hint(box: Box, ask: Ask, source: str, reason: str) -> None:
    box.write(source)
    own = ask()
    [found] = own.problems(box.loaded(VALID))
    assert found.severity == "hint"
    assert found.message.startswith("not checked by prime-rl itself: ")
    assert reason in found.message
    assert own.reason is not None
    assert reason in own.reason


def test_what_must_be_installed_is_named_with_where(box: Box, ask: Ask) -> None:
    box.write("import no_such_package_at_all.part")
    own = ask()
    assert own.schemas([]) == {}
    assert own.reason == (
        "No module named 'no_such_package_at_all': "
        f"install it in the environment of {box.root}/.venv/bin/python"
    )


def test_source_for_a_newer_python_says_which_is_needed(box: Box, ask: Ask) -> None:
    project = box.root / "pyproject.toml"
    project.write_text(project.read_text().replace(">=3.10", "~=3.99.0"))
    box.write("x = 1\ndef later[T](: pass\n")
    own = ask()
    assert own.schemas([]) == {}
    assert own.reason is not None
    assert f"{box.root}/src/prime_rl/configs/rl.py, line 3: " in own.reason
    assert "needs python 3.99 or newer, not" in own.reason


def test_they_see_no_gpu_and_no_hub(box: Box, ask: Ask, tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    box.write(f"import json, os\njson.dump(dict(os.environ), open({str(seen)!r}, 'w'))\n" + MODEL)
    assert ask().problems(box.loaded(VALID)) == ()
    environment = json.loads(seen.read_text())
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["HF_HUB_OFFLINE"]) == ("", "1")


def test_without_checkout_or_models_nobody_is_asked(box: Box, tmp_path: Path) -> None:
    loaded = box.loaded(VALID)
    (box.root / "pyproject.toml").unlink()
    for framework in (FRAMEWORK, GENERIC, answering(FRAMEWORK, models=None)):
        with closing(FrameworkModels(framework, box.root)) as own:
            assert own.problems(loaded) == ()
            assert not own.accepts(loaded)
            assert own.schemas([]) == {}
            assert own.reason
    assert box.starts == 0


def test_an_interpreter_that_cannot_run_is_told(box: Box, ask: Ask) -> None:
    Path(box.interpreter[0]).chmod(0o644)
    [found] = ask().problems(box.loaded(VALID))
    assert f"{box.interpreter[0]} cannot be run: {os.strerror(13)}" in found.message


# --- what changes -----------------------------------------------------------------------------------------


def test_schemas_are_kept_for_other_calls(box: Box, ask: Ask) -> None:
    assert ask().schemas([], ask=False) == {}
    first = ask()
    asked, versions = first.schemas([]), first.versions([])
    assert set(versions) == {"python", "pydantic", "orjson"}
    assert box.starts == 1
    later = ask()
    assert later.schemas([], ask=False) == asked
    assert later.schemas([]) == asked
    assert later.versions([]) == versions
    assert box.starts == 1


def test_a_role_that_cannot_be_imported_leaves_the_others(box: Box) -> None:
    models = {**FRAMEWORK.config.models.models, "sft": ("prime_rl.configs.sft:SFTConfig",)}  # type: ignore[union-attr]
    validation = replace(FRAMEWORK.config.models, models=models)  # type: ignore[type-var]
    for _ in range(2):  # asked, then kept
        with closing(FrameworkModels(answering(FRAMEWORK, models=validation), box.root)) as own:
            assert list(own.schemas([])) == ["rl"]
            assert own.reason is not None
            assert own.reason.startswith("sft: No module named 'prime_rl.configs.sft'")
    assert box.starts == 1


def test_a_verdict_is_kept_and_anything_else_asked_again(box: Box, ask: Ask) -> None:
    counted = f"open({str(box.root / 'asked')!r}, 'a').write('x')"
    box.write(MODEL.replace("        if self", f"        {counted}\n        if self"))
    own = ask()
    valid, other = box.loaded(VALID), box.loaded("max_steps = 4\n")
    assert [own.problems(valid) for _ in range(3)] == [(), (), ()]
    assert own.problems(other) == ()
    once = len((box.root / "asked").read_text())
    assert own.problems(valid) == ()
    assert len((box.root / "asked").read_text()) == once
    box.write(MODEL.replace("        if self", "        raise KeyError('slip')"))
    assert [[item.severity for item in own.problems(valid)] for _ in range(2)] == [["hint"], ["hint"]]
    box.write(MODEL)
    assert own.problems(valid) == ()


def test_threads_each_get_the_answer_to_their_own_question(box: Box, ask: Ask) -> None:
    own = ask()
    files = [box.loaded(f"max_steps = {number}\n" + "x = 1\n" * (number % 2)) for number in range(16)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(own.accepts, files)) == [number % 2 == 0 for number in range(16)]
    assert box.starts == 1


# --- packages that the config asks for --------------------------------------------------------------------

VERIFIERS = """
from typing import Generic, TypeVar
from pydantic import BaseModel, ConfigDict

class Task: pass
class TasksetConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str
One, Other = TypeVar("One"), TypeVar("Other")
class Taskset(Generic[One, Other]): pass

def resolve_env_field(data, annotation=None):
    from verifiers.v1.utils import loaders
    env = data["env"]
    taskset = loaders.import_taskset(env["taskset"]["id"])
    if "solver" in env:
        raise ValueError("env has no solver")
    config = getattr(taskset, taskset.__all__[0]).__orig_bases__[0].__args__[1]
    data["env"] = {"taskset": config.model_validate(env["taskset"])}
    return data
"""
LOADERS = "import importlib\ndef import_taskset(name):\n    return importlib.import_module(name)\n"
WITH_TASKSETS = MODEL.replace(
    "    id: str\n",
    """    env: dict = {}
    ratio: float = Field(1.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def resolve(cls, data):
        import verifiers.v1 as vf
        return vf.resolve_env_field(data)
""",
)
SOURCE = (
    '[[orchestrator.env]]\nratio = {ratio}\nenv = {{ taskset = {{ id = "{name}", any = 1 }}, solver = 1 }}\n'
)


def test_packages_that_are_missing_hide_nothing_else(box: Box, ask: Ask) -> None:
    box.write(VERIFIERS, "verifiers/v1/__init__.py")
    box.write(LOADERS, "verifiers/v1/utils/loaders.py")
    box.write(WITH_TASKSETS)
    own = ask()
    sources = SOURCE.format(ratio=1, name="far_away") + SOURCE.format(ratio=-1, name="gone")
    found = own.problems(box.loaded(sources))
    assert {(item.severity, item.key) for item in found} == {
        ("warning", None),
        ("error", "orchestrator.env.1.ratio"),
        ("error", "max_steps"),
    }
    warnings = [item.message for item in found if item.severity == "warning"]
    assert all("can check only part of rl.toml" in text for text in warnings)
    assert "No module named 'far_away'" in warnings[0]
    assert "No module named 'gone'" in warnings[1]
    fine = box.loaded(VALID + SOURCE.format(ratio=1, name="far_away"))
    assert [item.severity for item in own.problems(fine)] == ["warning"]
    assert own.accepts(fine), "what can be checked is valid"
    box.write(
        "import verifiers.v1 as vf\nclass Config(vf.TasksetConfig):\n    any: str\n"
        "class Near(vf.Taskset[vf.Task, Config]): pass\n__all__ = ['Near']\n",
        "far_away.py",
    )
    [problem] = own.problems(fine)
    assert (problem.severity, "env has no solver" in problem.message) == ("error", True), (
        "it is installed now"
    )


def test_a_missing_package_is_a_warning_where_there_are_no_stand_ins(box: Box, ask: Ask) -> None:
    missing = "raise ModuleNotFoundError(\"taskset 'reverse-text' not found. A taskset is a package\")"
    box.write(MODEL.replace("        return self\n", f"        {missing}\n"))
    own = ask()
    [found] = own.problems(box.loaded("max_steps = 1\n[orchestrator]\ngroup_size = 1\n"))
    assert found.severity == "warning"
    assert "cannot check rl.toml: taskset 'reverse-text' not found; install it" in found.message
    assert not own.accepts(box.loaded("max_steps = 1\n[orchestrator]\ngroup_size = 1\n"))
