"""Builds the test double of `libcuda.so.1` and says how to make a process load it.

As with the double of NVML beside it: only processes started with the environment made here load it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.fakes.compiled import built

SOURCE = Path(__file__).with_name("libcuda.c")
LIBRARY = "libcuda.so.1"


def environment(uuids: Sequence[str], *, init: str = "0", old: bool = False) -> dict[str, str]:
    """Variables for a process that shall see these devices (`GPU-…`), fastest first.

    Skips the calling test where there is no C compiler.

    Args:
        uuids: of every device.
        init: result of `cuInit`, or `hang`.
        old: the driver is from before CUDA 11.4.
    """
    digits = [uuid.removeprefix("GPU-").replace("-", "") for uuid in uuids]
    return {
        "LD_LIBRARY_PATH": str(built(LIBRARY, (SOURCE,), ("-DOLD",) if old else ())),
        "RLTUI_FAKE_CUDA": ",".join(digits),
        "RLTUI_FAKE_CUDA_INIT": init,
    }


def environment_without_driver(folder: Path) -> dict[str, str]:
    """Variables for a process that shall find no CUDA driver, whatever is installed.

    A text file of the library's name in the empty `folder` ends the loader's search.
    """
    (folder / LIBRARY).write_text("not a library\n")
    return {"LD_LIBRARY_PATH": str(folder)}
