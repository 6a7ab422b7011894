"""Empty packages in the place of those that prime-rl's config modules import and that are not installed.

Copied into an environment with a `.pth` file that calls `install`: so its modules can be imported without
torch, transformers and vLLM, of which a config needs nothing but the names. Standard library only.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterable
from unittest.mock import MagicMock


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are not there."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        is_absent = fullname.partition(".")[0] in self._names
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if is_absent else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__dict__.update(__path__=[], __getattr__=_anything)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to be done."""


def _anything(name: str) -> MagicMock:
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock(name=name)


def install(names: Iterable[str]) -> None:
    """From now on the packages of these names can be imported, with anything in them."""
    sys.meta_path.insert(0, Absent(frozenset(names)))
