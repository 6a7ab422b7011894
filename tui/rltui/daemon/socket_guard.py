"""A socket that vanished: made anew, since no client could reach this supervisor otherwise.

systemd-logind removes `$XDG_RUNTIME_DIR` when its user's last session ends, an SSH session for example.
"""

from __future__ import annotations

import asyncio
import logging

from rltui.daemon.api_server import ApiServer
from rltui.errors import RltuiError

logger = logging.getLogger(__name__)

INTERVAL_S = 2.0
"""Between two looks at the socket."""


async def guard_socket(server: ApiServer) -> None:
    """Look after the socket for ever."""
    problem: str | None = None
    while True:
        await asyncio.sleep(INTERVAL_S)
        if server.is_reachable():
            continue
        try:
            await server.open()
        except (OSError, RltuiError) as error:
            if str(error) != problem:
                problem = str(error)
                logger.error("the socket is gone and cannot be made anew: %s", problem)
        else:
            problem = None
            logger.info("the socket was gone and has been made anew")
