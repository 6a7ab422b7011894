"""One NVML handle, and what it is known not to answer. Importing this module imports `pynvml`."""

from __future__ import annotations

from typing import Any

import pynvml

from rltui.services.nvml_errors import ABSENT_CALL, DEVICE_GONE, NvmlCode


class Handle:
    """Calls NVML for one device or MIG slice. A call that is not supported is made once per handle only."""

    def __init__(self, raw: object) -> None:
        self.raw = raw
        """NVML's own handle; may be replaced by a newer one of the same device."""
        self._absent: set[tuple[object, ...]] = set()

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - pynvml is untyped
        """The result of `pynvml.<name>(handle, *arguments)`.

        Raises:
            NVMLError: The call failed, now or, where it is not supported, once before.
        """
        key = (name, *arguments)
        if key in self._absent:
            raise pynvml.NVMLError(NvmlCode.NOT_SUPPORTED)
        function = getattr(pynvml, name, None)
        try:
            if function is None:  # a binding older than the call
                raise pynvml.NVMLError(NvmlCode.FUNCTION_NOT_FOUND)
            return function(self.raw, *arguments)
        except pynvml.NVMLError as error:
            if error.value in ABSENT_CALL:
                self._absent.add(key)
            raise

    def ask(self, name: str, *arguments: object) -> Any | None:  # noqa: ANN401 - pynvml is untyped
        """Like `call`, with `None` where this card, driver or container does not give the value.

        Raises:
            NVMLError: The device itself is gone.
        """
        if (name, *arguments) in self._absent:
            return None
        try:
            return self.call(name, *arguments)
        except pynvml.NVMLError as error:
            if error.value in DEVICE_GONE:
                raise
            return None
