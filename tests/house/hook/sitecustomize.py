"""On the path of a supervisor that is measured: which modules of rltui pass on an edit or a GPU reading.

Python imports this at start. With RLTUI_HOUSE_TRACE, each step from one module to another is written to
that file, once: `edit|gpu TAB from TAB to`. A step counts where a function is handed the thing itself: the
edit, by its key and value, or figures of the GPUs that no request asked for; also where it calls the driver.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from types import FrameType

KEY, VALUE = "max_steps", "150"
DEPTH, WIDTH = 3, 50
DRIVER_CALL = "nvmlDeviceGetMemoryInfo"
ASKED = ("Request", "Plan")
GPU_MODULES = ("rltui.core.gpu.report",)
PREFIX = "rltui."
OWN = f"{os.sep}rltui{os.sep}"


class Walks:
    """The steps that were taken so far, in any thread."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.steps: set[tuple[str, str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.enter(frame)

    def enter(self, frame: FrameType) -> None:
        if frame.f_code.co_name == DRIVER_CALL:
            caller = frame.f_back
            while caller is not None:
                self.note("gpu", caller)
                caller = caller.f_back
        elif own_module(frame) and (kind := kind_of(frame)):
            self.note(kind, frame)

    def note(self, kind: str, frame: FrameType) -> None:
        """The step into this frame's module, where it comes from another one."""
        module, caller = own_module(frame), frame.f_back
        while caller is not None and own_module(caller) is None:
            caller = caller.f_back
        origin = own_module(caller) or "" if caller else ""
        step = (kind, origin, module or "")
        if module is None or origin == module or step in self.steps or (kind == "gpu" and is_asked(frame)):
            return
        self.steps.add(step)
        with open(self.output, "a") as file:  # noqa: PTH123 - pathlib is not imported yet
            file.write("\t".join(step) + "\n")


def is_asked(frame: FrameType | None) -> bool:
    """A request or its plan is under way, which looks at the GPUs, too."""
    while frame is not None:
        if own_module(frame) and any(type(value).__name__ in ASKED for value in frame.f_locals.values()):
            return True
        frame = frame.f_back
    return False


def own_module(frame: FrameType) -> str | None:
    """Its name, for code that stands in a file of rltui. Generated methods are no place to read."""
    if OWN not in frame.f_code.co_filename or frame.f_code.co_name in ("<module>", "<lambda>"):
        return None
    name = frame.f_globals.get("__name__", "")
    return name.removeprefix(PREFIX) if isinstance(name, str) and name.startswith(PREFIX) else None


def kind_of(frame: FrameType) -> str | None:
    """What of the two the function was given, itself or in a value that holds it."""
    code = frame.f_code
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if name != "self" and (kind := carried(frame.f_locals.get(name), DEPTH)):
            return kind
    return None


def carried(value: object, depth: int) -> str | None:
    if isinstance(value, bytes | str):
        text = value if isinstance(value, str) else value.decode(errors="replace")
        return "edit" if KEY in text and VALUE in text else None
    if not depth:
        return None
    if isinstance(value, dict):
        if str(value.get(KEY)) == VALUE:
            return "edit"
        return first(value.values(), depth - 1)
    if isinstance(value, tuple | list):
        return first(value[:WIDTH], depth - 1)
    kind = type(value)
    if not kind.__module__.startswith(PREFIX) or isinstance(value, type):
        return None
    if kind.__module__ in GPU_MODULES:
        return "gpu"
    fields = getattr(kind, "__dataclass_fields__", getattr(kind, "__struct_fields__", ()))
    return first((getattr(value, name, None) for name in fields), depth - 1)


def first(values: Iterable[object], depth: int) -> str | None:
    return next((kind for value in values if (kind := carried(value, depth))), None)


if (path := os.environ.get("RLTUI_HOUSE_TRACE")) and "rltui.supervisor" in sys.orig_argv:
    walks = Walks(path)
    threading.setprofile(walks)
    sys.setprofile(walks)
