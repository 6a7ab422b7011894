"""Where the inference server answers."""

from __future__ import annotations

from rltui.core.knobs import TomlValue

_EVERY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104
DEFAULT_PORT = 8000


def host(configured: TomlValue) -> str:
    """A host at which a server that listens on `configured` answers from this machine."""
    if not isinstance(configured, str) or configured in _EVERY_INTERFACE:
        return "127.0.0.1"
    return f"[{configured}]" if ":" in configured else configured


def is_here(configured: TomlValue, port: int) -> bool:
    """Whether clients are sent to this machine's `port`, or the config leaves it to that."""
    addresses = configured if isinstance(configured, list) else [configured]
    here = {f"http://{name}:{port}/v1" for name in ("localhost", "127.0.0.1", "0.0.0.0")}  # noqa: S104
    return configured is None or (len(addresses) == 1 and str(addresses[0]).rstrip("/") in here)


def port(configured: TomlValue, default: int = DEFAULT_PORT) -> int:
    """A port from the config, the default where it is none: the check tells of that."""
    is_port = isinstance(configured, int) and not isinstance(configured, bool) and 0 < configured < 65536
    return configured if is_port else default
