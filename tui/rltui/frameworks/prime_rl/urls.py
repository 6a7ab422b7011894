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


def port(configured: TomlValue, default: int = DEFAULT_PORT) -> int:
    """A port from the config, the default where it is none: the check tells of that."""
    is_port = isinstance(configured, int) and not isinstance(configured, bool) and 0 < configured < 65536
    return configured if is_port else default
