"""The other end of a link: `rltui serve --stdio`, on the machine that is looked at from another one."""

from __future__ import annotations

import asyncio
import os

from rltui.client.transports.frames import Frames, NoHelloError
from rltui.client.transports.ssh import OURS
from rltui.errors import RltuiError
from rltui.services.actor import introduce

_HELLO_S = 10.0
"""Short: the other end sends its hello as it connects."""


def serve(read_fd: int, write_fd: int) -> None:
    """Answer who is at the other end of these descriptors, until it is gone.

    Raises:
        RltuiError: if that is no rltui.
    """
    os.write(write_fd, OURS.line())  # before all that takes long to load
    frames = Frames(read_fd, write_fd)
    try:
        peer = frames.read_hello_line(_HELLO_S)
    except NoHelloError as error:
        if error.is_late:
            raise RltuiError(
                "the rltui at the other end does not respond",
                hint=(
                    "a login file of this machine, such as ~/.bashrc, may have read its output; only"
                    " an interactive shell should read its input"
                ),
            ) from error
        if not error.output:
            return
        raise RltuiError(
            "this command is only for another rltui, over a connection",
            hint="use it from there: rltui --host HOST",
        ) from error
    introduce("agent" if peer.is_agent else "host", peer.name)
    if (peer.link, peer.api) == (OURS.link, OURS.api):  # else the other end says so
        from rltui.client.laptop.session import LinkSession  # after the hello: it takes long to load

        asyncio.run(LinkSession(frames).serve())
