"""Asks the framework's own config models in its checkout's interpreter. Nothing here depends on an answer.

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

from rltui.base.toml.scan import BOM
from rltui.base.toml.values import format_key
from rltui.core.config.report import Problem
from rltui.core.config.schema import ConfigSchema
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.config import ConfigModels
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.services.config.files import located
from rltui.services.config.models.state import Schemas, load_schemas, save_schemas, state_of
from rltui.services.config.models.worker import Answer, Limits, NotAsked, Worker
from rltui.services.experiment import checkout, trust

_CACHED_VERDICTS = 32
"""One per content of a file."""


@dataclass(frozen=True, slots=True)
class _Checkout:
    interpreter: tuple[str, ...]
    validation: ConfigModels
    state: str


def informed(framework: Framework, workspace: Path, paths: Sequence[Path], *, ask: bool = False) -> Framework:
    """`framework` with the schemas that a checkout has reported before; unchanged if it never was asked.
    `ask`: it is asked now, which may take seconds.
    """
    with contextlib.closing(FrameworkModels(framework, workspace)) as models:
        return models.informed(paths, ask=ask)


class FrameworkModels:
    """Asks the models of the checkout that is near the config files. Cheap to make; close it.

    Its methods block, for seconds if the models must be imported first, and may be called from any thread:
    one question is answered at a time. The process that answers exits when it is idle, and is replaced when
    the checkout has changed.
    """

    def __init__(self, framework: Framework, workspace: Path, *, limits: Limits | None = None) -> None:
        self._framework = framework
        self._workspace = workspace
        self._limits = limits or Limits()
        self.reason: str | None = None
        """Reason why they could not be asked; `None` if they were, or nobody tried."""
        self._asking = threading.Lock()
        self._worker: tuple[_Checkout, Worker] | None = None
        self._closed = False
        self._verdicts: dict[tuple[str, str, str, bool], Answer] = {}
        self._schemas: tuple[str, Schemas] | None = None
        self._unresponsive: tuple[str, float, NotAsked] | None = None
        """State whose classes could not be imported in time, monotonic time of the next try, and the
        answer.
        """

    def schemas(self, paths: Sequence[Path], *, ask: bool = True) -> Mapping[str, Mapping[str, Any]]:
        """Role → JSON schema of the config files at `paths`, as `script` describes it.

        Empty if the models cannot be asked. Without `ask`, only schemas that an earlier question stored.
        """
        schemas = self._schemas_of(paths, ask=ask)
        return {} if schemas is None else schemas.by_role

    def informed(self, paths: Sequence[Path], *, ask: bool = True) -> Framework:
        """The framework with the schemas of the programs that read the files at `paths`, if available."""
        by_role = self.schemas(paths, ask=ask)
        models = self._framework.config.models
        whole = None if models is None else models.file_schema
        schemas = {
            role: ConfigSchema(document if whole is None else whole(document))
            for role, document in by_role.items()
        }
        return self._framework.with_schemas(schemas) if schemas else self._framework

    def versions(self, paths: Sequence[Path]) -> Mapping[str, str]:
        """Package, or `python`, → version; empty if the models cannot be asked."""
        schemas = self._schemas_of(paths, ask=True)
        return {} if schemas is None else schemas.versions

    def can_be_asked(self, paths: Sequence[Path]) -> bool:
        """Does not block."""
        return isinstance(self._find_checkout(paths), _Checkout)

    def problems(self, files: ConfigFiles, ours: Sequence[Problem] = ()) -> tuple[Problem, ...]:
        """The problems that the models report besides `ours`. Empty if there is no checkout."""
        framework = self._framework
        if framework.checkout is None:
            return ()
        name = framework.checkout.project
        answers = self._verdicts_by_role(files)
        if isinstance(answers, NotAsked):
            return (_not_asked_hint(name, answers.reason),)
        spaces = {knob.file: knob.namespace for knob in framework.config.knobs(files) if knob.namespace}
        problems = [
            problem
            for role, answer in answers.items()
            for problem in _file_problems(name, answer, files[role], spaces.get(role))
        ]
        return located(_new_problems(problems, ours), files)

    def accepts(self, files: ConfigFiles) -> bool:
        """True if the models were asked and find every file valid, except for packages that are not
        installed.

        Then a rule of ours that disagrees belongs to another release.
        """
        answers = self._verdicts_by_role(files)
        if isinstance(answers, NotAsked):
            return False
        return bool(answers) and all("valid" in answers.get(role, {}) for role in files)

    def values(self, files: ConfigFiles) -> Mapping[str, Mapping[str, Any]]:
        """Role → every value of the file as its model's validators leave it, defaults and those that follow
        from others included. Empty if the models cannot be asked, or refuse one of the files: `reason` says
        why.
        """
        answers = self._verdicts_by_role(files, values=True)
        if isinstance(answers, NotAsked):
            return {}
        for role, file in files.items():
            answer = answers.get(role, {})
            if "values" not in answer:
                errors = [f"{'.'.join(map(str, e['at']))}: {e['text']}" for e in answer.get("errors", ())]
                lacks = errors or answer.get("missing") or [_failure_reason(answer) or "no such model"]
                self.reason = f"{Path(file.path).name}: {lacks[0]}"
                return {}
        return {role: answers[role]["values"] for role in files}

    def close(self) -> None:
        """Stop the process. A pending or later question gets no answer."""
        self._closed = True
        if (running := self._worker) is not None:
            running[1].end()

    # --- asking -------------------------------------------------------------------------------------------

    def _find_checkout(self, paths: Sequence[Path]) -> _Checkout | NotAsked | None:
        """The checkout to ask; `None` if there is none, `NotAsked` if it must not or cannot be asked."""
        framework = self._framework
        project, validation = framework.checkout, framework.config.models
        if project is None or validation is None:
            self.reason = f"{framework.title} has no config models"
            return None
        try:
            nearby = checkout.NearbyCheckout(project, workspace=self._workspace, config_files=paths)
            folder, root = nearby.folder, nearby.project
            if folder is None or root is None:
                self.reason = f"no checkout of {project.project} found"
                return None
            interpreter = checkout.interpreter(root)
            if interpreter is None:
                self.reason = f"{root} has no {checkout.VENV_PROGRAMS}/python"
                return None
            # only what a person named, or trusts, is run
            owner, named = Path(interpreter[0]).parents[2], os.environ.get(project.variable)
            is_named = named is not None and owner == Path(named).expanduser().absolute()
            if not is_named and not trust.is_trusted(owner):
                raise ConfigError(trust.untrusted(owner))
        except ConfigError as error:
            self.reason = error.title
            return NotAsked(error.title)
        return _Checkout(interpreter, validation, state_of(folder, interpreter, validation))

    def _verdicts_by_role(
        self, files: ConfigFiles, *, values: bool = False
    ) -> Mapping[str, Answer] | NotAsked:
        """Empty if there is no checkout to ask."""
        checkout = self._find_checkout([Path(file.path) for file in files.values()])
        if not isinstance(checkout, _Checkout):
            return checkout or {}
        answers: dict[str, Answer] = {}
        for role, file in files.items():
            if role not in checkout.validation.models:
                continue
            answer = self._verdict(checkout, role, file.text.removeprefix(BOM), values=values)
            if isinstance(answer, NotAsked):
                return answer
            answers[role] = answer
        return answers

    def _verdict(self, checkout: _Checkout, role: str, text: str, *, values: bool) -> Answer | NotAsked:
        """Ask once per content; an answer that is no complete verdict is requested again."""
        key = (checkout.state, role, text, values)
        with self._asking:
            if (cached := self._verdicts.get(key)) is not None:
                return cached
            answer = self._ask(checkout, role, {"text": text, "values": values})
            if not isinstance(answer, NotAsked) and ("valid" in answer or "errors" in answer):
                if "missing" not in answer:
                    self._verdicts[key] = answer
                while len(self._verdicts) > _CACHED_VERDICTS:
                    del self._verdicts[next(iter(self._verdicts))]
            return answer

    def _schemas_of(self, paths: Sequence[Path], *, ask: bool) -> Schemas | None:
        checkout = self._find_checkout(paths)
        if not isinstance(checkout, _Checkout):
            return None
        schemas = self._cached_schemas(checkout.state)
        if schemas is None and ask:
            with self._asking:
                schemas = self._cached_schemas(checkout.state) or self._request_schemas(checkout)
        return schemas

    def _cached_schemas(self, state: str) -> Schemas | None:
        if self._schemas is None or self._schemas[0] != state:
            if (schemas := load_schemas(state)) is None:
                return None
            self._schemas = (state, schemas)
        schemas = self._schemas[1]
        self.reason = "; ".join(f"{role}: {reason}" for role, reason in schemas.unavailable.items()) or None
        return schemas

    def _request_schemas(self, checkout: _Checkout) -> Schemas | None:
        by_role, versions, unavailable = {}, {}, {}
        for role in checkout.validation.models:
            answer = self._ask(checkout, role, {"schema": True})
            if isinstance(answer, NotAsked):
                return None
            if "schema" in answer:
                by_role[role], versions = answer["schema"], answer["versions"]
            else:
                unavailable[role] = _failure_reason(answer) or ""
        if not by_role:
            return None
        self._schemas = (checkout.state, Schemas(by_role, versions, unavailable))
        save_schemas(*self._schemas)
        return self._cached_schemas(checkout.state)

    def _ask(self, checkout: _Checkout, role: str, question: Mapping[str, Any]) -> Answer | NotAsked:
        answer = self._ask_worker(checkout, role, question)
        self.reason = answer.reason if isinstance(answer, NotAsked) else _failure_reason(answer)
        return answer

    def _ask_worker(self, checkout: _Checkout, role: str, question: Mapping[str, Any]) -> Answer | NotAsked:
        if self._unresponsive is not None:
            state, until_s, cached_answer = self._unresponsive
            if state == checkout.state and time.monotonic() < until_s:
                return cached_answer
        while True:
            try:
                worker = self._running_worker(checkout)
            except OSError as error:
                return NotAsked(f"{checkout.interpreter[0]} cannot be run: {error.strerror}")
            has_answered = worker.knows(role)
            answer = worker.ask(role, question)
            if self._closed:
                return NotAsked("rltui is shutting down")
            if not isinstance(answer, NotAsked):
                return answer
            if has_answered and not answer.late:  # gone, such as for idleness: another one will know
                continue
            if answer.late and not has_answered:
                self._unresponsive = (checkout.state, time.monotonic() + self._limits.retry_s, answer)
            return answer

    def _running_worker(self, checkout: _Checkout) -> Worker:
        """The process for a state of the checkout, started if necessary.

        Raises:
            OSError: if the interpreter cannot be run.
        """
        if self._worker is not None:
            worker_checkout, worker = self._worker
            if worker_checkout == checkout and not worker.has_exited:
                return worker
            worker.end()
        worker = Worker(
            checkout.interpreter, checkout.validation, folder=self._workspace, limits=self._limits
        )
        self._worker = (checkout, worker)
        if self._closed:
            worker.end()
        return worker


def _failure_reason(answer: Answer) -> str | None:
    reason = answer.get("failed") or answer.get("unavailable")
    return None if reason is None else str(reason)


def _not_asked_hint(name: str, reason: str) -> Problem:
    return Problem(severity="hint", message=f"not checked by {name} itself: {reason}")


# --- what they say, as problems with file, key and line ---------------------------------------------------


def _file_problems(name: str, answer: Answer, file: ConfigFile, namespace: str | None) -> Iterator[Problem]:
    """`namespace`: prefix of the file's keys in the names of its knobs."""
    file_name = Path(file.path).name
    limitation = f"{name} cannot check {file_name}"
    if "valid" in answer or "errors" in answer:
        limitation = f"{name} can check only part of {file_name}"
    for missing in answer.get("missing", ()):
        text = f"{limitation}: {missing.partition('. ')[0]}; install it in the environment of {name}"
        yield Problem(severity="warning", message=text, file=file.path)
    if reason := _failure_reason(answer):
        yield _not_asked_hint(name, reason).replace(file=file.path)
    for error in answer.get("errors", ()):
        path = _path(error["at"], file.data, keep_last=error["type"] == "missing")
        text = str(error["text"]).removeprefix("Value error, ")
        key = format_key((namespace, *path) if namespace else path) if path else None
        yield Problem(key=key, message=f"{name} says: {text}", file=file.path)


def _path(location: Sequence[str | int], data: object, *, keep_last: bool) -> tuple[str, ...]:
    """The keys of the file that lead to a location in the model.

    Names of the classes that a value could belong to are no keys, nor are values that follow from others.
    """
    path: list[str] = []
    for segment in location:
        is_key = isinstance(data, Mapping) and segment in data
        is_element = isinstance(data, list) and isinstance(segment, int) and segment < len(data)
        if is_key or is_element:
            data = data[segment]  # type: ignore[index]
            path.append(str(segment))
    if keep_last and location and (not path or path[-1] != str(location[-1])):
        path.append(str(location[-1]))
    return tuple(path)


def _new_problems(problems: Iterable[Problem], ours: Sequence[Problem]) -> Iterator[Problem]:
    """Each problem once, without those that an error of ours reports on the same key, or on one below it."""
    error_keys = {(problem.file, problem.key) for problem in ours if problem.is_error and problem.key}
    yielded: set[tuple[str | None, str | None, str]] = set()
    for problem in problems:
        key = (problem.file, problem.key, problem.message)
        is_told = problem.is_error and any(
            file == problem.file and (problem.key is None or f"{error_key}.".startswith(f"{problem.key}."))
            for file, error_key in error_keys
        )
        if key not in yielded and not is_told:
            yield problem
        yielded.add(key)
