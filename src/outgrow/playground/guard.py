"""Who may ask: pages of this server on this machine, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["Guard", "answer"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Names of this machine alone. A page elsewhere can have its own name lead here (DNS rebinding), so the name counts and not the address.
_NAMES = {"127.0.0.1", "localhost", "[::1]"}
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """Refuses requests under a foreign name or from a foreign page, and says in every answer what the page may do."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def marked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        refused = _refuse(scope)
        if refused:
            await answer(marked, 403, {"error": refused})
        else:
            await self._app(scope, receive, marked)


def _refuse(scope: Scope) -> str:
    """Why not; '' if it may."""
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    hosts = headers.get("host", [])
    if len(hosts) != 1 or not _is_here(hosts[0]):
        return "The playground answers under 127.0.0.1 or localhost alone."
    if any(origin != f"http://{hosts[0]}" for origin in headers.get("origin", [])):
        return "The playground answers its own pages alone."
    if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", [])):
        return "The playground answers its own pages alone."
    return ""


def _is_here(host: str) -> bool:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, "80"
    return name.lower() in _NAMES and port.isascii() and port.isdigit()


async def answer(send: Send, status: int, content: dict[str, Any]) -> None:
    """A whole answer of JSON."""
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
