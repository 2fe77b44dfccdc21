"""uvicorn's HTTP protocol with a time limit for the head of a request, which uvicorn lacks."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def limited_protocol(header_seconds: float) -> type[HttpToolsProtocol]:
    """Returns a protocol class that closes connections whose request head takes too long.

    The time begins with the connection, or with the first byte of a further request. Between two
    requests, uvicorn's `timeout_keep_alive` applies.

    Args:
        header_seconds: time for the head of a request.
    """

    class LimitedProtocol(HttpToolsProtocol):
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start_head_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_head_timer()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if self._head_timer is None:
                self._start_head_timer()

        def on_headers_complete(self) -> None:
            self._stop_head_timer()
            super().on_headers_complete()

        def _start_head_timer(self) -> None:
            self._head_timer = self.loop.call_later(header_seconds, self._close_late)

        def _stop_head_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _close_late(self) -> None:
            self._head_timer = None
            if not self.transport.is_closing():
                self.transport.close()

    return LimitedProtocol
