"""Writing to clients that may not read: one message beyond asyncio's buffer at most, and not for ever."""

from __future__ import annotations

import asyncio

PATIENCE_S = 10.0
"""A client that reads nothing for so long, while data waits for it, is dropped."""


class SlowClientError(Exception):
    """The client does not read. Its connection has been ended."""


class BoundedWriter:
    """Sends whole messages; each sender waits until its own has gone into asyncio's buffer (64 KiB)."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._accepted_bytes = 0

    async def send(self, data: bytes) -> None:
        """Returns when there is room for more.

        Raises:
            SlowClientError: if nothing was read for `PATIENCE_S`; what had not been sent is thrown away.
            ConnectionError: if the client has hung up.
        """
        self._writer.write(data)
        self._accepted_bytes += len(data)
        sent = self._sent_bytes()
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._writer.drain()
                return
            except TimeoutError:
                if self._sent_bytes() == sent:
                    self.hang_up()
                    raise SlowClientError(f"it read nothing for {PATIENCE_S:g} s") from None
                sent = self._sent_bytes()

    def close(self) -> None:
        """End the connection once all is sent."""
        self._writer.close()

    def hang_up(self) -> None:
        """End the connection; what has not been sent is thrown away."""
        self._writer.transport.abort()

    def _sent_bytes(self) -> int:
        """That have left asyncio's buffer for the kernel's."""
        return self._accepted_bytes - self._writer.transport.get_write_buffer_size()
