"""The framework's own config models, asked in its checkout's interpreter. Nothing here depends on an answer.

Only its config classes are imported and called, in a process group of its own that sees no GPU and no
network of model hubs; its programs are never run, not even dry.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.config_schema import ConfigSchema
from rltui.core.toml.scan import BOM
from rltui.core.toml.values import format_key
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigModels, Framework
from rltui.services import checkout, trust
from rltui.services.config.files import LoadedFiles, located
from rltui.services.config.models.state import Schemas, keep, kept, state_of
from rltui.services.config.models.worker import Answer, Limits, NotAsked, Worker
from rltui.services.config.source import Source

__all__ = ["FrameworkModels", "Limits", "informed"]

_REMEMBERED = 32
"""Verdicts that are kept, one for each content of a file."""


@dataclass(frozen=True, slots=True)
class _Asked:
    interpreter: tuple[str, ...]
    validation: ConfigModels
    state: str


def informed(framework: Framework, workspace: Path, paths: Sequence[Path]) -> Framework:
    """`framework` with the schemas that a checkout has told before; as it is where nobody asked."""
    with contextlib.closing(FrameworkModels(framework, workspace)) as models:
        return models.informed(paths, ask=False)


class FrameworkModels:
    """Asks the models of the checkout that is near the config files. Cheap to make; close it.

    Its methods block, for seconds where the models must be imported first, and may be called from any thread:
    one question is answered at a time. The process that answers ends when it is idle, and is another one
    when the checkout has changed.
    """

    def __init__(self, framework: Framework, workspace: Path, *, limits: Limits | None = None) -> None:
        self._framework = framework
        self._workspace = workspace
        self._limits = limits or Limits()
        self.reason: str | None = None
        """Why they could not be asked, in words; `None` where they were, or nobody tried."""
        self._asking = threading.Lock()
        self._worker: tuple[_Asked, Worker] | None = None
        self._closed = False
        self._verdicts: dict[tuple[str, str, str], Answer] = {}
        self._schemas: tuple[str, Schemas] | None = None
        self._silent: tuple[str, float, NotAsked] | None = None
        """State in which they did not come up in time, when that was, and what was said of it."""

    def schemas(self, paths: Sequence[Path], *, ask: bool = True) -> Mapping[str, Mapping[str, Any]]:
        """Role → JSON schema of the config files at `paths`, as `script` describes it.

        Empty where they cannot be asked. Without `ask`, only what an earlier question left.
        """
        found = self._schemas_of(paths, ask=ask)
        return {} if found is None else found.by_role

    def informed(self, paths: Sequence[Path], *, ask: bool = True) -> Framework:
        """The framework with the schemas of what will read the files at `paths`, where they can be had."""
        found = self.schemas(paths, ask=ask)
        whole = {role: self._framework.file_schema(role, document) for role, document in found.items()}
        schemas = {role: ConfigSchema(document) for role, document in whole.items()}
        return self._framework.with_schemas(schemas) if schemas else self._framework

    def versions(self, paths: Sequence[Path]) -> Mapping[str, str]:
        """Of the checkout's python and packages; empty as `schemas` is."""
        found = self._schemas_of(paths, ask=True)
        return {} if found is None else found.versions

    def can_be_asked(self, paths: Sequence[Path]) -> bool:
        """Whether there is somebody to ask about the files at `paths`. Does not wait for anybody."""
        return isinstance(self._place(paths), _Asked)

    def problems(self, loaded: LoadedFiles, ours: Sequence[Problem] = ()) -> tuple[Problem, ...]:
        """What they say of the files besides `ours`. Empty where there is no checkout."""
        framework = self._framework
        if framework.checkout is None:
            return ()
        name = framework.checkout.project
        answers = self._verdicts_of(loaded)
        if isinstance(answers, NotAsked):
            return (_not_asked(name, answers.reason),)
        spaces = {knob.file: knob.namespace for knob in framework.knobs(loaded.files) if knob.namespace}
        found = [
            problem
            for role, answer in answers.items()
            for problem in _of_file(name, answer, loaded.sources[role], spaces.get(role))
        ]
        return located(_news(found, ours), loaded)

    def accepts(self, loaded: LoadedFiles) -> bool:
        """Whether they were asked and find every file valid, but for packages that are not installed.

        Then a rule of ours that says otherwise is of another release.
        """
        answers = self._verdicts_of(loaded)
        if isinstance(answers, NotAsked):
            return False
        return bool(answers) and all("valid" in answers.get(role, {}) for role in loaded.sources)

    def close(self) -> None:
        """End the process. Who is waiting for it, or asks later, gets no answer."""
        self._closed = True
        if (running := self._worker) is not None:
            running[1].end()

    # --- asking -------------------------------------------------------------------------------------------

    def _place(self, paths: Sequence[Path]) -> _Asked | NotAsked | None:
        """Whom to ask; `None` where there is nobody."""
        framework = self._framework
        known, validation = framework.checkout, framework.config_models
        if known is None or validation is None:
            self.reason = f"{framework.title} has no models that could be asked"
            return None
        try:
            folder = checkout.find(known, workspace=self._workspace, config_files=paths)
            if folder is None:
                self.reason = f"no checkout of {known.project} is near the config or the workspace"
                return None
            project = checkout.project_of(folder, known)
            interpreter = checkout.interpreter(project)
            if interpreter is None:
                self.reason = (
                    f"{project} has no {checkout.VENV_PROGRAMS}/python: cd {project} && uv sync --all-extras"
                )
                return None
            # only what a person named, or trusts, is run
            owner, named = Path(interpreter[0]).parents[2], os.environ.get(known.variable)
            is_named = named is not None and owner == Path(named).expanduser().absolute()
            if not is_named and not trust.is_trusted(owner):
                raise ConfigError(trust.untrusted(owner))
        except ConfigError as error:
            self.reason = error.title
            return NotAsked(error.title)
        return _Asked(interpreter, validation, state_of(folder, interpreter, validation))

    def _verdicts_of(self, loaded: LoadedFiles) -> Mapping[str, Answer] | NotAsked:
        """By role; empty where there is nobody to ask."""
        place = self._place([source.path for source in loaded.sources.values()])
        if not isinstance(place, _Asked):
            return place or {}
        answers: dict[str, Answer] = {}
        for role, source in loaded.sources.items():
            if role not in place.validation.models:
                continue
            answer = self._verdict(place, role, source.text.removeprefix(BOM))
            if isinstance(answer, NotAsked):
                return answer
            answers[role] = answer
        return answers

    def _verdict(self, place: _Asked, role: str, text: str) -> Answer | NotAsked:
        """Asked once for each content; what is no verdict to the end is asked again."""
        about = (place.state, role, text)
        with self._asking:
            if (known := self._verdicts.get(about)) is not None:
                return known
            answer = self._ask(place, role, {"text": text})
            if not isinstance(answer, NotAsked) and ("valid" in answer or "errors" in answer):
                if "missing" not in answer:
                    self._verdicts[about] = answer
                while len(self._verdicts) > _REMEMBERED:
                    del self._verdicts[next(iter(self._verdicts))]
            return answer

    def _schemas_of(self, paths: Sequence[Path], *, ask: bool) -> Schemas | None:
        place = self._place(paths)
        if not isinstance(place, _Asked):
            return None
        found = self._known_schemas(place.state)
        if found is None and ask:
            with self._asking:
                found = self._known_schemas(place.state) or self._asked_schemas(place)
        return found

    def _known_schemas(self, state: str) -> Schemas | None:
        if self._schemas is None or self._schemas[0] != state:
            if (found := kept(state)) is None:
                return None
            self._schemas = (state, found)
        found = self._schemas[1]
        self.reason = "; ".join(f"{role}: {reason}" for role, reason in found.unavailable.items()) or None
        return found

    def _asked_schemas(self, place: _Asked) -> Schemas | None:
        by_role, versions, unavailable = {}, {}, {}
        for role in place.validation.models:
            answer = self._ask(place, role, {"schema": True})
            if isinstance(answer, NotAsked):
                return None
            if "schema" in answer:
                by_role[role], versions = answer["schema"], answer["versions"]
            else:
                unavailable[role] = _why_not(answer) or ""
        if not by_role:
            return None
        self._schemas = (place.state, Schemas(by_role, versions, unavailable))
        keep(*self._schemas)
        return self._known_schemas(place.state)

    def _ask(self, place: _Asked, role: str, question: Mapping[str, Any]) -> Answer | NotAsked:
        answer = self._asked(place, role, question)
        self.reason = answer.reason if isinstance(answer, NotAsked) else _why_not(answer)
        return answer

    def _asked(self, place: _Asked, role: str, question: Mapping[str, Any]) -> Answer | NotAsked:
        if self._silent is not None:
            state, until_s, silence = self._silent
            if state == place.state and time.monotonic() < until_s:
                return silence
        while True:
            try:
                worker = self._living(place)
            except OSError as error:
                return NotAsked(f"{place.interpreter[0]} cannot be run: {error.strerror}")
            had_answered = worker.knows(role)
            answer = worker.ask(role, question)
            if self._closed:
                return NotAsked("rltui is about to end")
            if not isinstance(answer, NotAsked):
                return answer
            if had_answered and not answer.late:  # gone, such as for idleness: another one will know
                continue
            if answer.late and not had_answered:
                self._silent = (place.state, time.monotonic() + self._limits.retry_s, answer)
            return answer

    def _living(self, place: _Asked) -> Worker:
        """The process for a state of the checkout, started if need be.

        Raises:
            OSError: if the interpreter cannot be run.
        """
        if self._worker is not None:
            known, worker = self._worker
            if known == place and not worker.is_gone:
                return worker
            worker.end()
        worker = Worker(place.interpreter, place.validation, folder=self._workspace, limits=self._limits)
        self._worker = (place, worker)
        if self._closed:
            worker.end()
        return worker


def _why_not(answer: Answer) -> str | None:
    reason = answer.get("failed") or answer.get("unavailable")
    return None if reason is None else str(reason)


def _not_asked(name: str, reason: str) -> Problem:
    return Problem(severity="hint", message=f"{name} itself could not be asked: {reason}")


# --- what they say, as problems with file, key and line ---------------------------------------------------


def _of_file(name: str, answer: Answer, source: Source, namespace: str | None) -> Iterator[Problem]:
    """`namespace`: what the knobs of the file have before their keys."""
    file = str(source.path)
    how_far = f"{name} cannot check {source.path.name} to its end"
    if "valid" in answer or "errors" in answer:
        how_far = f"{name} cannot check all of {source.path.name}"
    for missing in answer.get("missing", ()):
        text = f"{how_far}: {missing.partition('. ')[0]}; install it in the environment of {name}"
        yield Problem(severity="warning", message=text, file=file)
    if reason := _why_not(answer):
        yield _not_asked(name, reason).model_copy(update={"file": file})
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
