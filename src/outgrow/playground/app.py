"""The playground's server: its page, and a small JSON interface behind it (docs/guide/play.md)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from outgrow.data.difficulty import difficulties, sizes
from outgrow.errors import OutgrowError
from outgrow.evaluate import paper_set
from outgrow.evaluate.paper import RESULTS
from outgrow.playground.guard import Guard
from outgrow.playground.tasks import say_verdict
from outgrow.playground.wire import LIMITS, BadRequest, field, from_wire, name_formats, parse_json, read_values, whole
from outgrow.playground.workers import Crashed, Jobs, TookTooLong, Worker
from outgrow.puzzles import PUZZLES, Instance, get_puzzle, render
from outgrow.version import __version__
from outgrow.weights import read_catalog, steps_for

__all__ = ["STATIC", "create_app"]

STATIC = Path(__file__).resolve().parent / "static"
_JOBS = 2  # processes of each kind
_SHORT = ("new", "read")
_SEED = 2**31 - 1
_FRAMES = 96  # of a moving picture, before the ones that are shown are chosen
_MEDIA = {".svg": "image/svg+xml", ".gif": "image/gif"}
_GONE = 499  # nobody reads it
_UNREAD = 30  # seconds in which somebody takes the next event, or loses the turn
_WORDS = 400  # characters of a sentence
_FULL = f"{LIMITS['waiting']} requests are at work or waiting; try again in a minute."
_SORRY = "Something went wrong inside; the server goes on. Its terminal says more."


class _Server:
    """What the requests share."""

    def __init__(self) -> None:
        self.networks = Worker(networks=True)
        # Nobody who wants a puzzle waits for those who ask the exact solver about theirs.
        self.short, self.long = Jobs(_JOBS), Jobs(_JOBS)
        self.turns = asyncio.Semaphore(LIMITS["solving"])
        self.busy = 0  # requests that work or wait
        self.closing = False

    async def start(self) -> None:
        await asyncio.gather(self.networks.start(), self.short.start())

    async def close(self) -> None:
        self.closing = True
        await asyncio.gather(self.networks.close(), self.short.close(), self.long.close())

    @property
    def full(self) -> bool:
        """Whether so many wait that no more are taken in."""
        return self.busy >= LIMITS["waiting"]

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place among those that work or wait."""
        if self.full:
            raise HTTPException(503, _FULL)
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1

    async def job(self, task: str, request: dict[str, Any]) -> dict[str, Any]:
        """What a job says."""
        async with self.place():
            jobs = self.short if task in _SHORT else self.long
            return await jobs.run(task, request, LIMITS["job_seconds"])

    async def watch(self, task: str, request: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a network's task, once it is its turn."""
        run = self.networks.run(task, request, LIMITS["solve_seconds"])
        async with self.place(), self.turns, aclosing(run) as events:
            async for event in events:
                yield event


def create_app() -> Starlette:
    """The application; its worker processes start and end with it."""
    server = _Server()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            try:
                await server.start()
            except Crashed:
                if not server.closing:  # interrupted meanwhile
                    raise
            yield
        finally:
            await server.close()

    async def about(_: Request) -> Response:
        return JSONResponse(_about())

    async def new(content: dict[str, Any]) -> dict[str, Any]:
        request = {
            "kind": _kind(content),
            "size": whole(content, "size", 1, LIMITS["values"]),
            "difficulty": field(content, "difficulty", str),
            "seed": whole(content, "seed", 0, _SEED, 0),
        }
        return {"puzzle": (await server.job("new", request))["puzzle"]}

    async def read(content: dict[str, Any]) -> dict[str, Any]:
        request = {
            "text": field(content, "text", str),
            "kind": _kind(content) if "kind" in content else None,
            "colors": whole(content, "colors", 1, LIMITS["values"], None),
        }
        found = await server.job("read", request)
        return {"puzzle": found["puzzle"], "count": found["count"]}

    async def change(content: dict[str, Any]) -> dict[str, Any]:
        """What changes when givens do: how the puzzle is written."""
        return await asyncio.to_thread(name_formats, await _puzzle(content))

    async def check(content: dict[str, Any]) -> dict[str, Any]:
        instance = await _puzzle(content)
        values = _values(content, instance)
        return await asyncio.to_thread(say_verdict, instance, values)

    async def text(content: dict[str, Any]) -> dict[str, Any]:
        instance = await _puzzle(content)
        values = _values(content, instance) if "values" in content else None
        chosen = field(content, "format", str, get_puzzle(instance.puzzle).formats[0].name)
        return {"text": await asyncio.to_thread(render, instance, values, chosen)}

    async def exact(content: dict[str, Any]) -> dict[str, Any]:
        await _puzzle(content)
        request = {"puzzle": content["puzzle"], "unique": field(content, "unique", bool, False)}
        return await server.job("exact", request)

    async def listen(content: dict[str, Any]) -> dict[str, Any]:
        instance = await _puzzle(content)
        steps = whole(content, "steps", 1, LIMITS["steps"])
        request = {
            "puzzle": content["puzzle"],
            "weights": field(content, "weights", str),
            "steps": steps,
            "step": whole(content, "step", 1, steps),
            "variable": whole(content, "variable", 0, len(instance.givens) - 1),
            "value": whole(content, "value", 1, instance.size),
        }
        async with aclosing(server.watch("listen", request)) as events:
            async for event in events:
                return event
        raise Crashed("nothing was heard")

    async def trace(content: dict[str, Any]) -> Response:
        """A run again, as a moving picture."""
        instance = await _puzzle(content)
        ending = "." + field(content, "format", str)
        if ending not in _MEDIA:
            raise BadRequest('"format" is svg or gif')
        request = _solving(content, instance.puzzle)
        if len(request["runs"]) != 1:
            raise BadRequest("a moving picture shows one run")
        frames: list[dict[str, Any]] = []
        every, last = 1, None
        async with aclosing(server.watch("solve", request)) as events:
            async for event in events:
                if event["event"] == "end" and event["status"] == "refused":
                    raise BadRequest(event["words"])
                if event["event"] != "step":
                    continue
                last = event
                if event["step"] % every == 0 or event["step"] == 1:
                    frames.append(event)
                if len(frames) > 2 * _FRAMES:
                    frames, every = frames[::2], 2 * every
        if last is not None and frames[-1] is not last:
            frames.append(last)
        try:
            drawn = await server.job("draw", {"puzzle": request["puzzle"], "frames": frames, "ending": ending})
        except TookTooLong as error:
            raise TookTooLong(f"{error}; fewer steps, or an SVG in place of a GIF, are drawn faster") from None
        name = f'attachment; filename="outgrow{ending}"'
        return Response(b64decode(drawn["content"]), media_type=_MEDIA[ending], headers={"content-disposition": name})

    async def solve(content: dict[str, Any]) -> Response:
        request = _solving(content, (await _puzzle(content)).puzzle)
        if server.full:
            raise HTTPException(503, _FULL)
        return _Events(_solve(server, request, field(content, "guarantee", bool, False)))

    routes = [
        Route("/api/about", about),
        *(
            Route(f"/api/{name}", _posted(handler), methods=["POST"])
            for name, handler in {
                "new": new,
                "read": read,
                "change": change,
                "check": check,
                "text": text,
                "exact": exact,
                "listen": listen,
                "trace": trace,
                "solve": solve,
            }.items()
        ),
        Mount("/", StaticFiles(directory=STATIC, html=True)),
    ]
    handlers = {
        HTTPException: _say_http,
        OutgrowError: _say_wrong,
        TookTooLong: _say_late,
        Crashed: _say_sorry,
        Exception: _say_sorry,
    }
    app = Starlette(routes=routes, middleware=[Middleware(Guard)], exception_handlers=handlers, lifespan=lifespan)
    app.state.close = server.close  # before connections are: then what they wait for ends
    return app


# ---- what requests say


def _posted(
    handler: Callable[[dict[str, Any]], Awaitable[dict[str, Any] | Response]],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await work_for(request)
        except ClientDisconnect:
            return Response(status_code=_GONE)

    async def work_for(request: Request) -> Response:
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":  # what a form on another page could not send unasked
            raise HTTPException(415, "A request's body is JSON, and its Content-Type says so.")
        content = parse_json(await _read_body(request))
        work = asyncio.ensure_future(handler(content))
        gone = asyncio.ensure_future(_wait_until_gone(request.receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return Response(status_code=_GONE)
            found = work.result()
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
        return found if isinstance(found, Response) else JSONResponse(found)

    return endpoint


async def _read_body(request: Request) -> bytes:
    """The body, as long as it stays within bounds."""
    most = LIMITS["body_bytes"]
    too_large = HTTPException(413, f"A request has at most {most:,} bytes.")
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said[:20]) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(LIMITS["body_seconds"]):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise HTTPException(408, f"The request did not arrive within {LIMITS['body_seconds']} s.") from None
    return bytes(body)


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _puzzle(content: dict[str, Any]) -> Instance:
    """The puzzle of a request. The largest take a few tenths of a second, in which others are answered too."""
    return await asyncio.to_thread(from_wire, content.get("puzzle"))


def _values(content: dict[str, Any], instance: Instance) -> npt.NDArray[np.int16]:
    values = read_values(content, "values", instance.size)
    if len(values) != len(instance.givens):
        raise BadRequest(f'"values" has {len(values):,} values for {len(instance.givens):,} variables')
    return values


def _kind(content: dict[str, Any]) -> str:
    kind = field(content, "kind", str)
    if kind not in PUZZLES:
        raise BadRequest(f"no puzzle {kind[:40]!r}; there is {', '.join(PUZZLES)}")
    return kind


def _solving(content: dict[str, Any], puzzle: str) -> dict[str, Any]:
    """The puzzle and the runs of a request to solve it."""
    runs = field(content, "runs", list)
    if not 1 <= len(runs) <= LIMITS["runs"]:
        raise BadRequest(f'"runs" has {len(runs):,} networks; 1 to {LIMITS["runs"]} are possible')
    asked: list[dict[str, Any]] = []
    for run in runs:
        if not isinstance(run, dict):
            raise BadRequest('"runs" holds objects')
        name = field(run, "weights", str)
        entry = read_catalog().get(name)
        if entry is None or entry.puzzle != puzzle:
            there = ", ".join(e.name for e in read_catalog().values() if e.puzzle == puzzle)
            raise BadRequest(f"no weights {name[:60]!r} for a {puzzle}; there are: {there}")
        asked.append({"weights": name, "steps": whole(run, "steps", 1, LIMITS["steps"])})
    return {"puzzle": content["puzzle"], "runs": asked}


def _about() -> dict[str, Any]:
    """What there is to choose from, how well it does, and the limits."""
    return {
        "version": __version__,
        "limits": LIMITS,
        "puzzles": [
            {
                "name": name,
                "sizes": [{"size": size, "difficulties": difficulties(name, size)} for size in sizes(name)],
                "formats": [f.name for f in PUZZLES[name].formats],
                "example": PUZZLES[name].examples[0],
            }
            for name in sorted(PUZZLES, key=_by_fame)
        ],
        "weights": [
            {
                "name": e.name,
                "puzzle": e.puzzle,
                "model": e.model,
                "parameters": e.parameters,
                "trained_on": e.trained_on,
                "max_trained_values": e.max_trained_values,
                "default": e.default,
                "attempt": min(e.restart or steps_for(e, 1), LIMITS["steps"]),
                "most": min(steps_for(e, LIMITS["values"]), LIMITS["steps"]),
                "results": e.results,
                "scores": [
                    {"dataset": m.dataset, "size": m.size, "steps": m.steps, "count": m.count, "board": m.board}
                    for m in e.scores
                    if m.dataset == f"{e.puzzle}-{m.size}-test" or m.dataset == paper_set(e.puzzle, m.size)
                ],
            }
            for e in read_catalog().values()
        ],
        "paper": {
            name: {
                model: [[size, figure.mean, figure.std] for size, figure in row.items() if figure is not None]
                for model, row in RESULTS.get((name, "board"), {}).items()
            }
            for name in PUZZLES
        },
    }


def _by_fame(name: str) -> tuple[int, str]:
    known = ("sudoku", "futoshiki", "coloring")
    return (known.index(name) if name in known else len(known), name)


# ---- what is answered


class _Events(Response):
    """Events as lines of JSON, each sent when it happens; when the reader goes, they end."""

    media_type = "application/x-ndjson"

    def __init__(self, events: AsyncGenerator[dict[str, Any], None]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        tasks = [asyncio.ensure_future(self._send(send)), asyncio.ensure_future(_wait_until_gone(receive))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await asyncio.gather(*tasks)

    async def _send(self, send: Send) -> None:
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    async with asyncio.timeout(_UNREAD):
                        await send(_line(event))
        except TimeoutError:  # the turn is another's now; this one hears so if it ever reads on
            await send(_line({"event": "error", "words": f"Nobody read on for {_UNREAD} s, so this has ended."}))
        await send({"type": "http.response.body", "body": b""})


def _line(event: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps(event, separators=(",", ":")).encode() + b"\n"
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _solve(server: _Server, request: dict[str, Any], guarantee: bool) -> AsyncGenerator[dict[str, Any], None]:
    """The events of all runs; of what no network solved, the exact solver's word if that was asked for. Whatever happens, the last event is 'done' or 'error'."""
    try:
        if server.turns.locked():
            yield {"event": "waiting", "ahead": server.busy}
        solved = False
        try:
            async with aclosing(server.watch("solve", request)) as events:
                async for event in events:
                    solved = solved or event.get("status") == "solved"
                    yield event
        except TookTooLong:
            yield {"event": "late", "words": f"The time is over: a solve takes at most {LIMITS['solve_seconds']} s."}
        if guarantee and not solved:
            yield {"event": "asking"}
            yield await server.job("exact", {"puzzle": request["puzzle"], "unique": False})
        yield {"event": "done"}
    except (OutgrowError, TookTooLong) as error:
        yield {"event": "error", "words": _sentence(str(error))}
    except HTTPException as error:
        yield {"event": "error", "words": error.detail}
    except Crashed:
        yield {"event": "error", "words": _SORRY}


async def _say_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "There is no such page.", 405: "That address is asked in another way."}.get(
        error.status_code, error.detail
    )
    return JSONResponse({"error": words}, error.status_code)


async def _say_wrong(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": _sentence(str(error))}, 400)


async def _say_late(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": _sentence(str(error) or "it took too long")}, 408)


async def _say_sorry(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": _SORRY}, 500)


def _sentence(words: str) -> str:
    """With a capital and a full stop; of what was asked no more than helps."""
    words = " ".join(words.split())
    if len(words) > _WORDS:
        words = f"{words[:_WORDS]} ..."
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '!', '?')) else '.'}"
