"""`python -m rltui.mcp_server`: serves on stdin and stdout until the client leaves."""

from __future__ import annotations

import contextlib

from rltui.mcp_server.server import make_server

with contextlib.suppress(KeyboardInterrupt):
    make_server().run("stdio")
