"""Entry point of `rltui` and of `python -m rltui`."""

from __future__ import annotations

import gc
import sys

gc.disable()  # what is loaded stays: looking through it took a tenth of the time of `rltui status`

from rltui import cli  # noqa: E402


def main() -> int:
    """Run the command of this process, and return its exit code."""
    try:
        return cli.main()
    finally:
        gc.freeze()  # nor does Python look through it at its end, which took as long


if __name__ == "__main__":
    sys.exit(main())
