"""Packages that need CUDA to be installed, as far as importing from them goes: nothing of them computes,
but for what `REAL` has.

Lies in the site-packages of a checkout for the CPU, where a .pth file imports it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

NAMES = {"dion", "fla", "ring_flash_attn", "tilelang", "torchtitan"}


class Anything:
    """Stands for a function, a decorator or a value."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) and not named else Anything()

    def __getattr__(self, name: str) -> Anything:
        return _unless_special(name)


class AnyClass(type):
    """A class that can be inherited from, with any attribute."""

    def __getattr__(cls, name: str) -> Anything:
        return _unless_special(name)


class Mock(ModuleType):
    """A module, or a package with any module in it."""

    def __getattr__(self, name: str) -> Any:
        value = _unless_special(name)
        return AnyClass(name, (), {}) if name[0].isupper() else value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the mocks after everything that is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in NAMES:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Mock:
        module = Mock(spec.name)
        vars(module).update(REAL.get(spec.name, {}))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


def clip_grad_norm_(parameters: Any, *, max_norm: float, ep_enabled: bool) -> Any:
    """torchtitan's, without pipelines and experts."""
    assert not ep_enabled
    import torch

    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


REAL = {"torchtitan.distributed.utils": {"clip_grad_norm_": clip_grad_norm_}}
"""What is needed even on a CPU: no release of torchtitan has all that prime-rl imports of its commit."""


def _unless_special(name: str) -> Anything:
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything()


sys.meta_path.append(Finder())
