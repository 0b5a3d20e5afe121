"""The playground's server as a command runs it: on this machine alone, on a free port, until it is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from types import FrameType

import uvicorn

from outgrow.errors import OutgrowError
from outgrow.playground.app import create_app

__all__ = ["DEFAULT_PORT", "serve"]

DEFAULT_PORT = 8765
_HOST = "127.0.0.1"


def serve(port: int | None = None, *, ready: Callable[[str], None] = lambda _: None) -> None:
    """Serves until it is interrupted; `ready` is told the address once the page can be opened.

    Without a port it takes 8765, or any free one if that is taken. Port 0 is any free one.
    """
    with contextlib.closing(_bind(port)) as listener:
        address = f"http://{_HOST}:{listener.getsockname()[1]}/"
        logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of readers that have gone: they may
        app = create_app()
        config = uvicorn.Config(
            app,
            log_config=None,  # its own asks a closed standard output for its colors
            log_level="error",
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=1,
        )
        server = _Server(config, lambda: ready(address), app.state.close)
        with contextlib.suppress(SystemExit):  # what it does when it cannot start
            server.run(sockets=[listener])
        if server.unsaid is not None:
            raise server.unsaid
        if not server.started:
            raise OutgrowError("the playground did not start; what stands above says why")


class _Server(uvicorn.Server):
    """Says when it has started, and ends its work before it waits for those who wait for it."""

    def __init__(
        self, config: uvicorn.Config, started: Callable[[], None], close: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(config)
        self._on_start, self._on_end = started, close
        self.unsaid: OSError | None = None  # nobody could be told the address

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # A second Ctrl-C has nothing more to end: workers are ended at once, and connections after a second.
        if not self.should_exit:
            super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        early = asyncio.create_task(self._end_early())
        try:
            await super().startup(sockets)
        finally:
            early.cancel()
        if not self.should_exit:
            try:
                self._on_start()
            except OSError as error:
                self.unsaid, self.should_exit = error, True

    async def _end_early(self) -> None:
        """Opening the networks takes a few seconds, and nobody who has changed their mind waits for that."""
        while not self.should_exit:
            await asyncio.sleep(0.05)
        await self._on_end()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._on_end()
        await super().shutdown(sockets)


def _bind(port: int | None) -> socket.socket:
    for wanted in (DEFAULT_PORT, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, wanted))
            listener.listen(256)
        except OSError as error:
            listener.close()
            if port is None and wanted and error.errno == errno.EADDRINUSE:
                continue
            reason = "is taken; leave out --port for a free one" if error.errno == errno.EADDRINUSE else error.strerror
            raise OutgrowError(f"port {wanted} {reason}") from None
        return listener
    raise AssertionError("port 0 is any free one")
