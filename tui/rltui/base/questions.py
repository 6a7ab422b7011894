"""Questions: methods that are declared once, with the types of what they take and answer.

A class of declarations has no bodies. Calling a declared method hands the question and its arguments to
`ask`, or to `ask_now` for one that blocks; a transport implements these, and carries arguments and answers as
plain JSON, by the annotations of the declaration. Whoever answers has methods of the same names.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from functools import cache, cached_property, wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct, defstruct

from rltui.base.protocol import plain
from rltui.base.values import InvalidValueError, Value, from_plain
from rltui.errors import UsageError

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")
_Method = Callable[_Parameters, _Answer]
_STREAMS = (AsyncGenerator, AsyncIterator, Generator, Iterator)


class Question:
    """A declared method, and how its arguments and its answer travel."""

    def __init__(self, declaration: Callable[..., Any], *, changes: bool, starts_supervisor: bool) -> None:
        self.name = declaration.__name__
        self.changes = changes
        """True if it changes something: read-only clients are refused."""
        self.starts_supervisor = starts_supervisor
        """A person wants something done: a supervisor is started for it even after a `down`."""
        self._declaration = declaration

    def arguments(self, *args: object, **kwargs: object) -> dict[str, Any]:
        """Parameter → value, with defaults. The first argument is the object that is asked."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        _, *parameters = bound.arguments.items()
        return dict(parameters)

    def encode(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments for JSON with `plain`: a single `Value` as its fields, others by name."""
        values = [*arguments.values()]
        if len(values) == 1 and isinstance(values[0], Value):
            return cast("dict[str, Any]", plain(values[0]))
        return {_key(name): value for name, value in arguments.items()}

    def decode(self, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """The arguments that came as JSON.

        Raises:
            UsageError: if they are not what the question takes; names the first that is wrong.
        """
        try:
            message = from_plain(self._message, params or {})
        except InvalidValueError as error:
            raise UsageError(f"request: {error}") from None
        if self._single is not None:
            return {self._single: message}
        return {name: getattr(message, _key(name)) for name in self._parameters}

    def decode_answer(self, answer: object) -> Any:  # noqa: ANN401 - of the type that the declaration says
        """Raises InvalidValueError if it is of another type."""
        return from_plain(self._answer, answer)

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self._declaration)

    @cached_property
    def is_stream(self) -> bool:
        """True if it has several answers, one after the other."""
        return get_origin(self._types["return"]) in _STREAMS

    @cached_property
    def _types(self) -> dict[str, Any]:
        declaration = self._declaration
        try:
            return get_type_hints(declaration, include_extras=True)
        except NameError:
            names = _CheckedNames(declaration.__module__)
            return get_type_hints(declaration, localns=names, include_extras=True)

    @cached_property
    def _answer(self) -> Any:  # noqa: ANN401 - an annotation
        """Type of the answer; of a stream, that of an item."""
        kind = self._types["return"]
        return get_args(kind)[0] if self.is_stream else kind

    @cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        _, *parameters = self._signature.parameters.items()
        return dict(parameters)

    @cached_property
    def _single(self) -> str | None:
        """Name of the only parameter, if that is a `Value`."""
        kinds = [(name, self._types[name]) for name in self._parameters]
        if len(kinds) == 1 and isinstance(kinds[0][1], type) and issubclass(kinds[0][1], Value):
            return kinds[0][0]
        return None

    @cached_property
    def _message(self) -> type[Struct]:
        """The type of the arguments as they travel."""
        if self._single is not None:
            return cast("type[Struct]", self._types[self._single])
        fields = (
            (
                _key(name),
                self._types[name],
                NODEFAULT if parameter.default is parameter.empty else parameter.default,
            )
            for name, parameter in self._parameters.items()
        )
        return defstruct(self.name, fields, kw_only=True)


def question(
    *, starts_supervisor: bool = False
) -> Callable[[_Method[_Parameters, _Answer]], _Method[_Parameters, _Answer]]:
    """Declare a method that changes nothing."""
    return _declared(changes=False, starts_supervisor=starts_supervisor)


def command(
    *, starts_supervisor: bool = True
) -> Callable[[_Method[_Parameters, _Answer]], _Method[_Parameters, _Answer]]:
    """Declare a method that changes something."""
    return _declared(changes=True, starts_supervisor=starts_supervisor)


def _declared(
    *, changes: bool, starts_supervisor: bool
) -> Callable[[_Method[_Parameters, _Answer]], _Method[_Parameters, _Answer]]:
    def declare(declaration: Callable[..., Any]) -> Callable[..., Any]:
        new_question = Question(declaration, changes=changes, starts_supervisor=starts_supervisor)
        if inspect.iscoroutinefunction(declaration):

            @wraps(declaration)
            async def later(self: Any, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
                return await self.ask(new_question, new_question.arguments(self, *args, **kwargs))

            later.question = new_question  # type: ignore[attr-defined]
            return later

        @wraps(declaration)
        def now(self: Any, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
            return self.ask_now(new_question, new_question.arguments(self, *args, **kwargs))

        now.question = new_question  # type: ignore[attr-defined]
        return now

    return declare


def remote_method(method: _Method[_Parameters, _Answer]) -> _Method[_Parameters, _Answer]:
    """Let a method that has a body be asked from another machine: its question stands beside it."""
    method.question = Question(method, changes=False, starts_supervisor=False)  # type: ignore[attr-defined]
    return method


def question_of(method: Callable[..., Any]) -> Question:
    method_question: Question = method.question  # type: ignore[attr-defined]
    return method_question


@cache
def questions_of(declarations: type) -> Mapping[str, Question]:
    """Name → question that a class declares or inherits."""
    members = ((name, getattr(declarations, name)) for name in dir(declarations))
    return {name: member.question for name, member in members if hasattr(member, "question")}


def _key(parameter: str) -> str:
    """Wire name of a parameter: `id_` travels as `id`."""
    return parameter.rstrip("_")


class _CheckedNames(dict[str, Any]):
    """Names that a module imports for the type checker alone, imported as a question's types are first
    needed.
    """

    def __init__(self, module: str) -> None:
        super().__init__()
        self._module = module

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - whatever is called so
        value = _checked_imports(self._module)[name]
        return getattr(import_module(value), name)


@cache
def _checked_imports(module: str) -> Mapping[str, str]:
    """Name → module, of the imports below `if TYPE_CHECKING:`."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    blocks = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.name: imported.module
        for block in blocks
        for imported in block.body
        if isinstance(imported, ast.ImportFrom) and imported.module
        for alias in imported.names
    }
