"""Run by the checkout's interpreter, never imported: answers questions about its config classes.

Its argument is JSON: `{"models": {role: ["module:Class", …]}, "tables": {role: table}, "packages": [name, …],
"interpreter": path, "stand_ins": path, "idle_s": seconds}`; of a role's classes the first that can be
imported counts.
`package/folder/file.py:Class` is read from its file alone, without what its package imports. A class is of
the whole file, or of one dotted table of it; it is a model of pydantic, or a dataclass whose arguments are
the keys of that table. Questions and answers are one JSON object a line, told apart by `id`. It ends when
nobody asked for `idle_s`, and at once, with all that it started, when its stdin closes.

- `{"id", "role", "schema": true}` → `schema` and `versions`. Keys are the names that a TOML file uses; a text
  below a field in the source is its description. Beside JSON Schema: `x-aliases`, further names of a property
  (dotted: a key in a table), and `x-extra: "ignore"` for tables that pass over keys they do not know, where
  `additionalProperties` is false for those that refuse them and true for those that take them.
- `{"id", "role", "text": TOML}` → `valid` or `errors` (place, type and text of each), and with
  `"values": true` the `values` of a valid file as their validators leave them. With either or alone:
  `missing`, why packages that the config itself asks for could not be imported; what else it says was then
  found with stand-ins for them.
- `failed`: their code broke in another way. `unavailable`: none of the classes could be imported.

Figures that JSON lacks are written as in TOML: "inf", "nan". Only the standard library, and python 3.10
at least; what other code prints goes to stderr.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import importlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import json
import math
import os
import queue
import re
import signal
import sys
import threading
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    """Answer questions until none comes for `idle_s`."""
    sys.path[:] = [folder for folder in sys.path if folder != str(Path(__file__).parent)]
    job = json.loads(sys.argv.pop())  # settings classes read what is left
    questions_fd, answers_fd, me = os.dup(0), os.dup(1), os.getpid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    questions: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(questions_fd, questions), daemon=True).start()
    with contextlib.suppress(queue.Empty):
        while True:
            question = json.loads(questions.get(timeout=job["idle_s"]))
            answer = {**_answer(question, job), "id": question["id"]}
            if os.getpid() != me:  # what they forked came back here
                os._exit(0)
            line = (json.dumps(_plain(answer), default=str) + "\n").encode()
            while line:
                line = line[os.write(answers_fd, line) :]
    os._exit(0)


def _listen(questions_fd: int, questions: queue.Queue[bytes]) -> None:
    with os.fdopen(questions_fd, "rb") as lines:
        for line in lines:
            questions.put(line)
    os.killpg(0, signal.SIGKILL)  # whatever is under way: nobody wants to know


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _answer(question: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    try:
        model, reason = _model(job["models"][question["role"]], job["interpreter"])
        if model is None:
            return {"unavailable": reason}
        is_plain = dataclasses.is_dataclass(model) and not hasattr(model, "model_validate")
        if "text" in question:
            table = job["tables"].get(question["role"], "")
            return (
                _dataclass_verdict(model, question["text"], table)
                if is_plain
                else _verdict(model, question, job["stand_ins"])
            )
        if is_plain:
            return {"schema": _dataclass_schema(model), "versions": _versions(job["packages"])}
        schema = model.model_json_schema(by_alias=False, schema_generator=_generator())
        return {"schema": schema, "versions": _versions(job["packages"])}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - validators of theirs raise what they like
        return {"failed": _error_text(error)}


# --- their classes ----------------------------------------------------------------------------------------


def _model(names: list[str], interpreter: str) -> tuple[Any, str]:
    """The first class that can be imported; else the reasons why none can."""
    reasons: list[str] = []
    absent: list[str] = []
    for name in names:
        module, _, attribute = name.partition(":")
        try:
            return getattr(_import(module), attribute), ""
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever their code does at import
            lacks = error.name if isinstance(error, ModuleNotFoundError) else None
            reason = _error_text(error)
            if lacks is not None:
                reason = f"No module named {lacks!r}: install it in the environment of {interpreter}"
            reason += _wrong_python(error)
            is_absent = lacks is not None and f"{module}.".startswith(f"{lacks}.")
            (absent if is_absent else reasons).append(reason)
    return None, "; ".join(dict.fromkeys(reasons or absent))


def _import(name: str) -> Any:  # noqa: ANN401 - a module of theirs
    """Import a module by its name, or by its file in a package, without what the packages around it
    import.
    """
    if not name.endswith(".py"):
        return importlib.import_module(name)
    package, _, inner = name.partition("/")
    package_spec = importlib.util.find_spec(package)
    folders = (package_spec.submodule_search_locations or ()) if package_spec is not None else ()
    file = next((path for folder in folders if (path := Path(folder) / inner).is_file()), None)
    if file is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=package)
    return _load(name, file)


def _load(name: str, file: Path) -> Any:  # noqa: ANN401 - a module of theirs
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look for it there
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _error_text(error: BaseException) -> str:
    """One line like `SyntaxError: rl.py, line 3: invalid syntax`."""
    text = str(error)
    if isinstance(error, SyntaxError):
        text = f"{error.filename}, line {error.lineno}: {error.msg}"
    return f"{type(error).__name__}: {text}"


def _wrong_python(error: BaseException) -> str:
    """A note that the project of the failing file needs a newer python; empty if it does not."""
    if isinstance(error, SyntaxError):
        file = error.filename or ""
    else:
        trace, file = error.__traceback__, ""
        while trace is not None:
            name = trace.tb_frame.f_code.co_filename
            file = file if name.startswith("<frozen ") else name
            trace = trace.tb_next
    for folder in Path(file).parents:
        with contextlib.suppress(OSError):
            text = (folder / "pyproject.toml").read_text(encoding="utf-8")
            required = re.search(r"^requires-python\s*=\s*[\"']\D*(\d+)\.(\d+)", text, re.MULTILINE)
            if required and sys.version_info[:2] < (int(required[1]), int(required[2])):
                return f"; needs python {required[1]}.{required[2]} or newer, not {_python()}"
    return ""


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _versions(packages: list[str]) -> dict[str, str]:
    versions = {"python": _python()}
    for name in ("pydantic", *packages):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


# --- verdicts ---------------------------------------------------------------------------------------------


def _verdict(model: Any, question: dict[str, Any], stand_ins: str) -> dict[str, Any]:  # noqa: ANN401
    try:
        return _validate(model, question)
    except ImportError as error:
        lacks = [str(error)]
    with contextlib.suppress(Exception):  # then only what is missing is known
        with _load("stand_ins", Path(stand_ins)).stand_ins(model) as missing:
            answer = _validate(model, question)
        return {**answer, "missing": list(dict.fromkeys(missing)) or lacks}
    return {"missing": lacks}


def _validate(model: Any, question: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    import tomllib  # here: an older python says that it lacks it

    try:
        config = model.model_validate(tomllib.loads(question["text"]))
    except ImportError:
        raise
    except Exception as error:
        if not hasattr(error, "errors"):
            raise
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        return {"errors": [{"at": item["loc"], "type": item["type"], "text": item["msg"]} for item in errors]}
    if not question.get("values"):
        return {"valid": True}
    again = model.model_validate(tomllib.loads(question["text"]))
    return {"valid": True, "values": _lasting(_values(config), _values(again))}


def _lasting(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is another one at each validation: times, random names, and what is made of them."""
    pairs = ((name, value, second.get(name)) for name, value in first.items())
    return {
        name: _lasting(value, other) if isinstance(value, dict) and isinstance(other, dict) else value
        for name, value, other in pairs
        if value == other or (isinstance(value, dict) and isinstance(other, dict))
    }


def _values(value: Any) -> Any:  # noqa: ANN401
    """All fields of a model, also those of a subclass where the field is declared with its base."""
    if hasattr(value, "model_dump"):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        return _values({**fields, **(getattr(value, "model_extra", None) or {})})
    if isinstance(value, dict):
        return {str(key): _values(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_values(inner) for inner in value]
    return value.value if isinstance(value, enum.Enum) else value


def _dataclass_verdict(model: Any, text: str, table: str) -> dict[str, Any]:  # noqa: ANN401
    """The verdict of constructing a dataclass from a table, on the CPU if it has `use_cpu`."""
    import tomllib

    path, values = table.split(".") if table else [], tomllib.loads(text)
    for name in path:
        values = values.get(name, {})
    fields = {field.name for field in dataclasses.fields(model) if field.init}
    unknown = [key for key in values if key not in fields]
    if unknown:
        message = f"{model.__name__} has no such argument"
        return {
            "errors": [{"at": [*path, key], "type": "extra_forbidden", "text": message} for key in unknown]
        }
    try:
        model(**{**({"use_cpu": True} if "use_cpu" in fields else {}), **values})
    except (AssertionError, TypeError, ValueError) as error:
        return {"errors": [{"at": path, "type": "value_error", "text": str(error)}]}
    return {"valid": True}


# --- schemas ----------------------------------------------------------------------------------------------


def _generator() -> Any:  # noqa: ANN401 - a class of pydantic's, which is imported only here
    from pydantic.json_schema import GenerateJsonSchema

    class WithNames(GenerateJsonSchema):
        """Adds the keys that the module's docstring promises; a value without schema accepts anything."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
            super().__init__(*arguments, **options)
            self._classes: list[Any] = []
            self._help = _Help()

        def model_schema(self, schema: Any) -> Any:  # noqa: ANN401
            config = schema["cls"].model_config
            self._classes.append(schema["cls"])
            try:
                document = super().model_schema(schema)
            finally:
                self._classes.pop()
            if document.get("properties") is not None and config.get("extra", "ignore") == "ignore":
                document["x-extra"] = "ignore"
            return document

        def model_fields_schema(self, schema: Any) -> Any:  # noqa: ANN401
            document = super().model_fields_schema(schema)
            model = self._classes[-1]
            by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
            keys = {}
            for name, field in schema["fields"].items():
                names = _names(field.get("validation_alias"))
                names += [name] if by_name or not names else []
                keys[name] = (
                    name if name in names else next((alias for alias in names if "." not in alias), name)
                )
                aliases = [alias for alias in dict.fromkeys(names) if alias != keys[name]]
                inner = document["properties"].get(name, {})
                if aliases:
                    inner["x-aliases"] = aliases
                if help_text := self._help.of(model, name):
                    inner.setdefault("description", help_text)
            document["properties"] = {keys[name]: inner for name, inner in document["properties"].items()}
            if "required" in document:
                document["required"] = [keys[name] for name in document["required"]]
            return document

        def default_schema(self, schema: Any) -> Any:  # noqa: ANN401
            make = schema.get("default_factory")
            if make is not None and not schema.get("default_factory_takes_data"):
                with contextlib.suppress(Exception):  # one that cannot say
                    value = make()
                    # neither a time nor a random name
                    second_value = make()
                    if bool(value == second_value) or value is second_value:
                        without_factory = {
                            key: inner for key, inner in schema.items() if key != "default_factory"
                        }
                        schema = {**without_factory, "default": value}
            return super().default_schema(schema)

        def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Any:  # noqa: ANN401, ARG002
            return {}

    return WithNames


def _dataclass_schema(model: Any) -> dict[str, Any]:  # noqa: ANN401
    """JSON schema of the constructor's arguments. A type without an equivalent accepts anything."""
    types_of = typing.get_type_hints(model)
    properties: dict[str, Any] = {}
    required = []
    for field in dataclasses.fields(model):
        if not field.init:
            continue
        make = field.default_factory
        default = field.default if make is dataclasses.MISSING else make()
        schema = _type_schema(types_of[field.name])
        if default is dataclasses.MISSING:
            required.append(field.name)
        elif _type_schema(type(default)) or default is None:
            schema["default"] = default.value if isinstance(default, enum.Enum) else default
        if help_text := field.metadata.get("help"):
            schema["description"] = help_text
        properties[field.name] = schema
    return {
        "type": "object", "properties": properties, "required": required, "additionalProperties": False,
    }  # fmt: skip


_PLAIN_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string", list: "array"}


def _type_schema(annotation: Any) -> dict[str, Any]:  # noqa: ANN401 - an annotation
    """Empty for a type that accepts anything. A string next to an enumeration is one of its values."""
    members = typing.get_args(annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType) and members:
        enums = [member for member in members if isinstance(member, type) and issubclass(member, enum.Enum)]
        schemas = [_type_schema(member) for member in members if not (enums and member is str)]
        return {"anyOf": schemas} if all(schemas) else {}
    annotation = typing.get_origin(annotation) or annotation
    if annotation is type(None):
        return {"type": "null"}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation], "type": "string"}
    return {"type": _PLAIN_TYPES[annotation]} if annotation in _PLAIN_TYPES else {}


class _Help:
    """The strings below the fields of classes in their source."""

    def __init__(self) -> None:
        self._of_module: dict[str, dict[tuple[str, str], str]] = {}

    def of(self, model: Any, field: str) -> str | None:  # noqa: ANN401
        """The text of a field of `model`, from whichever class it inherits it."""
        for cls in model.__mro__:
            if cls.__module__ not in self._of_module:
                self._of_module[cls.__module__] = dict(self._read(cls.__module__))
            if text := self._of_module[cls.__module__].get((cls.__qualname__, field)):
                return text
        return None

    def _read(self, module: str) -> Iterator[tuple[tuple[str, str], str]]:
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is None or not file.endswith(".py"):
            return
        classes = (cls for cls in ast.parse(Path(file).read_bytes()).body if isinstance(cls, ast.ClassDef))
        for cls in classes:
            for line, below in itertools.pairwise(cls.body):
                if (
                    isinstance(line, ast.AnnAssign)
                    and isinstance(line.target, ast.Name)
                    and isinstance(below, ast.Expr)
                    and isinstance(below.value, ast.Constant)
                    and isinstance(below.value.value, str)
                ):
                    yield (cls.name, line.target.id), inspect.cleandoc(below.value.value)


def _names(alias: Any) -> list[str]:  # noqa: ANN401
    """The names in a `validation_alias`, which is a name, one path, or several."""
    if alias is None:
        return []
    paths = [[alias]] if isinstance(alias, str) else alias if isinstance(alias[0], list) else [alias]
    return [".".join(map(str, path)) for path in paths]


if __name__ == "__main__":
    main()
