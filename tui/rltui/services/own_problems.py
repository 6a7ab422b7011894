"""What the framework's own validators say, as problems with file, key and line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.toml_values import format_key
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.services import checkout, own_validation, trust
from rltui.services.config_files import LoadedFiles
from rltui.services.config_problems import located
from rltui.services.own_validation import Answers, NotAsked
from rltui.services.toml_source import Source

REMEMBERED = 32
"""Verdicts that are kept, one for each content of the files."""


class OwnValidators:
    """Asks once for each content of the files; what was no verdict is asked again."""

    def __init__(self, framework: Framework, workspace: Path) -> None:
        self._framework = framework
        self._workspace = workspace
        self._verdicts: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], Answers] = {}

    def problems(self, loaded: LoadedFiles, ours: Sequence[Problem] = ()) -> tuple[Problem, ...]:
        """What they say of the files besides `ours`; blocks for seconds. Empty where there is no checkout."""
        framework = self._framework
        if framework.checkout is None:
            return ()
        name = framework.checkout.project
        try:
            interpreter = self._interpreter(loaded)
        except ConfigError as error:
            return (_not_asked(name, error.title),)
        if interpreter is None:
            return ()
        answers = self._answers(interpreter, loaded)
        if isinstance(answers, NotAsked):
            return (_not_asked(name, answers.reason),)
        spaces = {knob.file: knob.namespace for knob in framework.knobs if knob.namespace}
        found = [
            problem
            for role, answer in answers.items()
            for problem in _of_file(name, answer, loaded.sources[role], spaces.get(role))
        ]
        return located(_news(found, ours), loaded)

    def accepts(self, loaded: LoadedFiles) -> bool:
        """Whether they were asked and find every file valid; blocks for seconds.

        Then a rule of ours that says otherwise is of another release.
        """
        try:
            interpreter = self._interpreter(loaded)
        except ConfigError:
            return False
        answers = self._answers(interpreter, loaded) if interpreter is not None else {}
        if isinstance(answers, NotAsked):
            return False
        return bool(answers) and all("valid" in answers.get(role, {}) for role in loaded.sources)

    def _interpreter(self, loaded: LoadedFiles) -> tuple[str, ...] | None:
        framework = self._framework
        if framework.own_validation is None or framework.checkout is None:
            return None
        paths = [source.path for source in loaded.sources.values()]
        found = checkout.interpreter(framework.checkout, workspace=self._workspace, config_files=paths)
        if found is not None:
            folder, named = Path(found[0]).parents[2], os.environ.get(framework.checkout.variable)
            is_named = named is not None and folder == Path(named).expanduser().absolute()
            if not is_named and not trust.is_trusted(folder):
                raise ConfigError(trust.refusal(folder))
        return found

    def _answers(self, interpreter: tuple[str, ...], loaded: LoadedFiles) -> Answers | NotAsked:
        validation = self._framework.own_validation
        texts = {role: source.text for role, source in loaded.sources.items()}
        key = (interpreter, tuple(texts.items()))
        if (known := self._verdicts.get(key)) is not None or validation is None:
            return known or {}
        answers = own_validation.ask(interpreter, validation, texts, folder=self._workspace)
        if not isinstance(answers, NotAsked) and all(map(_is_verdict, answers.values())):
            self._verdicts[key] = answers
            while len(self._verdicts) > REMEMBERED:
                del self._verdicts[next(iter(self._verdicts))]
        return answers


def _is_verdict(answer: Mapping[str, Any]) -> bool:
    return "valid" in answer or "errors" in answer


def _not_asked(name: str, reason: str) -> Problem:
    return Problem(severity="hint", message=f"{name} itself could not be asked: {reason}")


def _of_file(
    name: str, answer: Mapping[str, Any], source: Source, namespace: str | None
) -> Iterator[Problem]:
    """`namespace`: what the knobs of the file have before their keys."""
    file = str(source.path)
    if "missing" in answer:
        missing = str(answer["missing"]).partition(". ")[0]
        text = (
            f"{name} cannot check {source.path.name} to its end: {missing}; "
            f"install it in the environment of {name}"
        )
        yield Problem(severity="warning", message=text, file=file)
    elif reason := answer.get("failed") or answer.get("unavailable"):
        yield _not_asked(name, str(reason)).model_copy(update={"file": file})
    for error in answer.get("errors", ()):
        path = _path(error["at"], source.data, keep_last=error["type"] == "missing")
        text = str(error["text"]).removeprefix("Value error, ")
        key = format_key((namespace, *path) if namespace else path) if path else None
        yield Problem(key=key, message=f"{name} says: {text}", file=file)


def _path(at: Sequence[str | int], data: object, *, keep_last: bool) -> tuple[str, ...]:
    """Keys of the file on the way to a place in the model.

    The names of the classes that the value could be of are no keys, nor are values that follow from others.
    """
    path: list[str] = []
    for part in at:
        is_key = isinstance(data, Mapping) and part in data
        is_element = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if is_key or is_element:
            data = data[part]  # type: ignore[index]
            path.append(str(part))
    if keep_last and at and (not path or path[-1] != str(at[-1])):
        path.append(str(at[-1]))
    return tuple(path)


def _news(found: Iterable[Problem], ours: Sequence[Problem]) -> Iterator[Problem]:
    """Each once, without those that an error of ours tells: about the same key, or about one below it."""
    told = {(problem.file, problem.key) for problem in ours if problem.severity == "error" and problem.key}
    seen: set[tuple[str | None, str | None, str]] = set()
    for problem in found:
        about = (problem.file, problem.key, problem.message)
        is_told = problem.severity == "error" and any(
            file == problem.file and _is_about(key, problem.key) for file, key in told
        )
        if about not in seen and not is_told:
            yield problem
        seen.add(about)


def _is_about(ours: str | None, theirs: str | None) -> bool:
    return ours is not None and (theirs is None or ours == theirs or ours.startswith(f"{theirs}."))
