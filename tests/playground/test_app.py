"""The server behind the page: what it answers, what it refuses, and that it outlives what goes wrong."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from asking import Playground, children, linux, networks, until, wire

from outgrow.playground.app import STATIC
from outgrow.playground.serving import DEFAULT_PORT
from outgrow.playground.wire import LIMITS, from_wire
from outgrow.playground.worker import AHEAD
from outgrow.puzzles import parse_one

NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"


def read(playground: Playground, text: str) -> dict[str, object]:
    status, found = playground.ask("read", {"text": text})
    assert status == 200, found
    return wire(found["puzzle"])


# ---- the page


def test_the_page_and_all_its_files_come_from_here(playground: Playground) -> None:
    status, headers, body = playground.send("GET", "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
    for path in STATIC.iterdir():
        assert playground.send("GET", f"/{path.name}")[0] == 200
        text = path.read_text()
        for place in ("http://", "https://", "//cdn"):
            outside = [line for line in text.splitlines() if place in line and "http://www.w3.org/" not in line]
            assert not outside, f"{path.name} names a place elsewhere"
    assert b"<script>" not in body
    assert b" style=" not in body


def test_what_there_is_to_choose_from(playground: Playground) -> None:
    about = playground.about()
    assert about["limits"] == LIMITS
    assert [p["name"] for p in about["puzzles"]] == ["sudoku", "futoshiki", "coloring"]
    for puzzle, first, last in zip(about["puzzles"], (4, 4, 4), (25, 12, 10), strict=True):
        found = [s["size"] for s in puzzle["sizes"]]
        assert (found[0], found[-1]) == (first, last)
    for weights in about["weights"]:
        assert weights["scores"]
        assert all(0 <= s["board"] <= 1 for s in weights["scores"])
    assert about["paper"]["sudoku"]["binarized"][-1] == [16, 27.31, 23.81]
    kinds = {
        w["puzzle"]: {x["model"] for x in about["weights"] if x["puzzle"] == w["puzzle"]} for w in about["weights"]
    }
    assert all({"binarized", "multivalued"} <= models for models in kinds.values()), "BIN and MV side by side"


# ---- solving


@pytest.mark.parametrize(("kind", "size"), [("sudoku", 9), ("sudoku", 16), ("futoshiki", 6), ("coloring", 5)])
def test_a_solve_tells_every_step_and_the_verdict(playground: Playground, kind: str, size: int) -> None:
    puzzle = playground.new(kind, size, "easy")
    instance = from_wire(puzzle)
    weights = next(w for w in playground.about()["weights"] if w["puzzle"] == kind and w["default"])
    events = list(playground.solve(puzzle, (weights["name"], 256)))
    *steps, end, done = events
    assert done == {"event": "done"}
    assert [e["step"] for e in steps] == list(range(1, len(steps) + 1))
    assert end["event"] == "end"
    assert (end["status"], end["steps"]) == ("solved", len(steps))
    for event in steps:
        beliefs = np.frombuffer(base64.b64decode(event["beliefs"]), dtype=np.uint8).reshape(-1, size)
        assert beliefs.shape[0] == len(event["values"])
        assert np.all(np.abs(beliefs.astype(int).sum(axis=1) - 255) <= size)
        verdict = instance.judge(np.array(event["values"]))
        assert event["broken"] == len(verdict.broken)
        assert event["solved"] == verdict.solved
        assert {(b.x, b.y) for b in verdict.broken} >= {tuple(p) for p in event["pairs"]}
    assert [e["solved"] for e in steps] == [False] * (len(steps) - 1) + [True]
    again = list(playground.solve(puzzle, (weights["name"], 256)))
    told = [{k: v for k, v in e.items() if k != "milliseconds"} for e in events]
    assert [{k: v for k, v in e.items() if k != "milliseconds"} for e in again] == told


def test_networks_side_by_side(playground: Playground) -> None:
    puzzle = read(playground, NINE)
    runs = [(w["name"], 64) for w in playground.about()["weights"] if w["puzzle"] == "sudoku"][: LIMITS["runs"]]
    assert len(runs) > 2
    events = list(playground.solve(puzzle, *runs))
    ends = {e["run"]: e for e in events if e["event"] == "end"}
    assert sorted(ends) == list(range(len(runs)))
    for number in ends:
        alone = [e for e in events if e["event"] == "step" and e["run"] == number]
        assert [e["step"] for e in alone] == list(range(1, ends[number]["steps"] + 1))
    first = [e["run"] for e in events[: 2 * len(runs)]]
    assert set(first) == set(range(len(runs))), "they take turns"


def test_attempts_follow_each_other_and_the_exact_solver_finishes(playground: Playground) -> None:
    """A Futoshiki without a solution: no attempt can solve it, and that is proven in the end."""
    puzzle = {
        "puzzle": "futoshiki",
        "size": 4,
        "shape": [4],
        "pairs": [[0, 1], [1, 2], [2, 3], [4, 0], [8, 4], [12, 8]],
    }
    puzzle["givens"] = [1, *[0] * 15]
    weights = next(w for w in playground.about()["weights"] if w["puzzle"] == "futoshiki" and w["default"])
    steps = 2 * weights["attempt"] + 3
    events = list(playground.solve(puzzle, (weights["name"], steps), guarantee=True))
    shown = [e for e in events if e["event"] == "step"]
    assert [e["attempt"] for e in shown] == [i // weights["attempt"] for i in range(steps)]
    assert shown[0]["guess"] is None
    assert [e["event"] for e in events[-4:]] == ["end", "asking", "exact", "done"]
    assert events[-4]["status"] == "unsolved"
    assert events[-2]["status"] == "unsatisfiable"
    assert events[-2]["values"] is None


def test_steps_come_as_they_happen(playground: Playground) -> None:
    """The first step of a large board is there long before the last one."""
    puzzle = playground.new("sudoku", 25, "medium")
    began = time.monotonic()
    times = [time.monotonic() - began for e in playground.solve(puzzle, ("sudoku-grouped", 24)) if e["event"] == "step"]
    assert len(times) > 5
    assert times[0] < times[-1] / 3


def test_the_first_step_of_a_small_board_is_there_at_once(playground: Playground) -> None:
    puzzle = read(playground, NINE)
    list(playground.solve(puzzle, ("sudoku-grouped", 1)))
    began = time.monotonic()
    next(playground.solve(puzzle, ("sudoku-grouped", 64)))
    assert (
        time.monotonic() - began < 5
    )  # half a second on a machine that does nothing else: benchmarks/playground.py measures it


def test_tabs_take_turns(playground: Playground) -> None:
    """While a large board is being solved, a small one is solved from begin to end."""
    large = playground.new("sudoku", 25, "medium")
    small = read(playground, NINE)
    running = playground.solve(large, ("sudoku-grouped", 2048), ("sudoku-6-grouped", 1024))
    next(running)
    began = time.monotonic()
    assert list(playground.solve(small, ("sudoku-grouped", 64)))[-2]["status"] == "solved"
    spent = time.monotonic() - began
    rest = sum(e["event"] == "step" for e in running)
    assert rest > 3, f"the large one ended first ({spent:.1f} s)"


def test_whom_a_cell_listens_to(playground: Playground) -> None:
    puzzle = read(playground, NINE)
    content = {"puzzle": puzzle, "weights": "sudoku-grouped", "steps": 64, "step": 2, "variable": 2, "value": 4}
    status, found = playground.ask("listen", content)
    assert status == 200
    assert {h["kind"] for h in found["from"]} == {"row", "col", "box", "values"}
    for kind in ("row", "col", "box", "values"):
        assert sum(h["weight"] for h in found["from"] if h["kind"] == kind) == pytest.approx(1, abs=0.02)
    status, found = playground.ask("listen", {**content, "step": 60})
    assert status == 400
    assert "solved" in found["error"]


# ---- what else it does


def test_a_seed_makes_the_same_puzzle(playground: Playground) -> None:
    for kind, size in (("sudoku", 16), ("futoshiki", 12), ("coloring", 9)):
        assert playground.new(kind, size, seed=3) == playground.new(kind, size, seed=3)
        assert playground.new(kind, size, seed=3) != playground.new(kind, size, seed=4)


def test_text_is_read_and_written(playground: Playground) -> None:
    puzzle = read(playground, NINE)
    assert playground.ask("text", {"puzzle": puzzle, "format": "line"}) == (200, {"text": NINE})
    solved = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
    values = [int(c) for c in solved]
    assert playground.ask("text", {"puzzle": puzzle, "format": "line", "values": values})[1]["text"] == solved
    status, found = playground.ask("text", {"puzzle": puzzle, "format": "cuneiform"})
    assert (status, "no format" in found["error"]) == (400, True)
    status, found = playground.ask("read", {"text": f"{NINE}\n{NINE}\n"})
    assert found["count"] == 2
    status, found = playground.ask("read", {"text": "p edge 3 2\ne 1 2\ne 2 3", "colors": 3})
    assert (status, found["puzzle"]["size"]) == (200, 3)
    unequal = "4:0,0,1,0,2,0R,0,0,0,0,0D,0,0,0U,0,0,"
    assert playground.ask("read", {"text": unequal})[1]["puzzle"]["puzzle"] == "futoshiki"


def test_the_verdict_in_words(playground: Playground) -> None:
    puzzle = read(playground, NINE)
    given = parse_one(NINE).givens.tolist()
    assert (
        playground.ask("check", {"puzzle": puzzle, "values": given})[1]["words"] == "Nothing is wrong so far; 51 to go."
    )
    wrong = [*given]
    wrong[2] = 5
    found = playground.ask("check", {"puzzle": puzzle, "values": wrong})[1]
    assert found["broken"] == 2  # in the row and in the box
    assert "row 1 column 1 is 5 and row 1 column 3 is 5" in found["words"]
    assert [0, 2] in found["pairs"]
    changed = [9 if i == 0 else v for i, v in enumerate(given)]
    assert "given was changed" in playground.ask("check", {"puzzle": puzzle, "values": changed})[1]["words"]
    solved = [int(c) for c in "534678912672195348198342567859761423426853791713924856961537284287419635345286179"]
    assert playground.ask("check", {"puzzle": puzzle, "values": solved})[1]["solved"] is True


def test_how_many_solutions(playground: Playground) -> None:
    puzzle = read(playground, NINE)
    assert playground.ask("exact", {"puzzle": puzzle, "unique": True})[1]["unique"] is True
    many = {**puzzle, "givens": [0] * 81}
    assert playground.ask("exact", {"puzzle": many, "unique": True})[1]["unique"] is False


@pytest.mark.parametrize(("ending", "begin"), [("gif", b"GIF89a"), ("svg", b"<svg")])
def test_a_run_as_a_moving_picture(playground: Playground, ending: str, begin: bytes) -> None:
    content = {"puzzle": read(playground, NINE), "runs": [{"weights": "sudoku-grouped", "steps": 64}], "format": ending}
    status, headers, body = playground.send("POST", "/api/trace", json.dumps(content).encode())
    assert status == 200
    assert body.startswith(begin)
    assert headers["content-disposition"] == f'attachment; filename="outgrow.{ending}"'


# ---- what it refuses


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("solve", {}, '"puzzle" is an object'),
        ("solve", {"puzzle": []}, '"puzzle" is an object'),
        ("solve", {"puzzle": {"puzzle": "sudoku"}}, '"size" is missing'),
        ("solve", "four", '"runs" is missing'),
        ("solve", {"runs": []}, "1 to 4 are possible"),
        ("solve", {"runs": [1]}, '"runs" holds objects'),
        ("solve", {"runs": [{"weights": "sudoku-grouped"}]}, '"steps" is missing'),
        ("solve", {"runs": [{"weights": "sudoku-grouped", "steps": 2049}]}, '"steps" goes from 1 to 2,048'),
        ("solve", {"runs": [{"weights": "../../etc/passwd", "steps": 1}]}, "no weights"),
        ("solve", {"runs": [{"weights": "futoshiki-grouped", "steps": 1}]}, "for a sudoku; there are:"),
        (
            "solve",
            {"runs": [{"weights": "sudoku-grouped", "steps": 8}], "guarantee": 1},
            '"guarantee" is true or false',
        ),
        ("new", {"kind": "sudoku", "size": 9}, '"difficulty" is missing'),
        ("new", {"kind": "sudoku", "size": 9, "difficulty": "easy", "seed": -1}, '"seed" goes from 0'),
        ("new", {"kind": "sudoku", "size": 7, "difficulty": "easy"}, "no sudoku of size 7"),
        ("new", {"kind": "chess", "size": 8, "difficulty": "easy"}, "no puzzle 'chess'"),
        ("read", {"text": ""}, "holds no puzzle"),
        ("read", {"text": "hello"}, "ext:1:"),
        ("read", {"text": 5}, '"text" is text'),
        ("read", {"text": "c k 3\np edge 10000 1\ne 1 2"}, "the page takes 1,296"),
        ("check", {"values": [1]}, '"values" has 1 values for 16 variables'),
        ("check", {"values": ["1"] * 16}, '"values" holds whole numbers'),
        (
            "listen",
            {"weights": "sudoku-grouped", "steps": 4, "step": 5, "variable": 0, "value": 1},
            '"step" goes from 1 to 4',
        ),
        ("listen", {"weights": "sudoku-grouped", "steps": 4, "step": 1, "variable": 16, "value": 1}, '"variable" goes'),
        ("trace", {"format": "exe"}, '"format" is svg or gif'),
    ],
)
def test_wrong_requests_get_a_sentence(playground: Playground, name: str, content: object, words: str) -> None:
    four = wire(playground.ask("read", {"text": "1.....3..4.....2"})[1]["puzzle"])
    if content == "four":
        content = {"puzzle": four}
    elif (
        isinstance(content, dict)
        and content
        and name in ("solve", "check", "listen", "trace")
        and "puzzle" not in content
    ):
        content = {"puzzle": four, **content}
    status, found = playground.ask(name, content)
    assert status == 400, found
    assert words.lower() in found["error"].lower()
    assert found["error"].endswith(".")
    assert "Traceback" not in found["error"]


def test_bodies_beyond_the_limits_are_refused(playground: Playground) -> None:
    status, _, body = playground.send("POST", "/api/read", b"x" * (LIMITS["body_bytes"] + 1))
    assert (status, b"at most 1,048,576 bytes" in body) == (413, True)
    deep = b'{"puzzle": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    status, _, body = playground.send("POST", "/api/solve", deep)
    assert (status, b"nested too deeply" in body) == (400, True)
    status, _, body = playground.send("POST", "/api/read", b"{}", {"Content-Type": "text/plain"})
    assert status == 415
    assert playground.send("GET", "/api/solve")[0] == 404
    assert playground.send("GET", "/api/nothing")[0] == 404
    assert playground.send("GET", "/../app.py")[0] == 404
    assert playground.send("GET", "/%2e%2e/app.py")[0] == 404
    # Chunks say no length beforehand.
    with socket.create_connection(("127.0.0.1", playground.port), timeout=30) as raw:
        raw.sendall(
            f"POST /api/read HTTP/1.1\r\nHost: 127.0.0.1:{playground.port}\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
        try:
            for _ in range(32):
                raw.sendall(chunk)
        except OSError:
            pass  # it stopped listening
        assert b" 413 " in raw.recv(4096).split(b"\r\n")[0]
    assert playground.send("GET", "/api/about")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "example.com"},
        {"Host": "127.0.0.1.example.com:8765"},
        {"Host": "example.com:8765"},
        {"Host": ""},
        {"Host": "localhost:8765@example.com"},
        {"Origin": "http://example.com"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_foreign_hosts_and_pages_are_refused(playground: Playground, headers: dict[str, str]) -> None:
    for method, path in (("GET", "/"), ("GET", "/api/about"), ("POST", "/api/read")):
        status, _, body = playground.send(method, path, b'{"text": "1.....3..4.....2"}', headers)
        assert status == 403, (headers, path)
        assert json.loads(body)["error"].startswith("The playground answers")


def test_its_own_page_and_tunnels_are_let_in(playground: Playground) -> None:
    body = b'{"text": "1.....3..4.....2"}'
    for host in (f"127.0.0.1:{playground.port}", f"localhost:{playground.port}", "localhost:9000", "[::1]:80"):
        headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert playground.send("POST", "/api/read", body, headers)[0] == 200


# ---- what goes wrong


def resident(pid: int) -> float:
    """MiB."""
    return int((Path("/proc") / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@linux
def test_a_crash_in_a_solve_is_told_and_survived(playground: Playground) -> None:
    puzzle = playground.new("sudoku", 25, "medium")
    events = playground.solve(puzzle, ("sudoku-grouped", 2048))
    next(events)
    before = networks(playground.pid)
    os.kill(before, signal.SIGKILL)
    *_, last = events
    assert last["event"] == "error"
    assert "went wrong" in last["words"]
    assert list(playground.solve(read(playground, NINE), ("sudoku-grouped", 64)))[-2]["status"] == "solved"
    assert networks(playground.pid) != before


@linux
def test_a_job_that_dies_is_told_and_survived(playground: Playground) -> None:
    assert playground.new("sudoku", 4)
    for child, command in children(playground.pid).items():
        if "networks" not in command:
            os.kill(child, signal.SIGKILL)
    answers = [playground.ask("read", {"text": NINE})[0] for _ in range(3)]
    assert answers[-1] == 200


@linux
def test_a_solve_whose_reader_goes_is_cancelled(playground: Playground) -> None:
    puzzle = playground.new("sudoku", 25, "medium")
    content = {"puzzle": puzzle, "runs": [{"weights": "sudoku-grouped", "steps": 2048}] * 4}
    worker = networks(playground.pid)

    def ticks() -> int:
        return sum(map(int, (Path("/proc") / str(worker) / "stat").read_text().rpartition(")")[2].split()[11:13]))

    with socket.create_connection(("127.0.0.1", playground.port)) as raw:
        body = json.dumps(content).encode()
        raw.sendall(
            f"POST /api/solve HTTP/1.1\r\nHost: 127.0.0.1:{playground.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert b"200" in raw.recv(65_536)
        assert until(lambda: b"step" in raw.recv(65_536))

    def rests() -> bool:
        before = ticks()
        time.sleep(0.5)
        return ticks() == before

    assert until(rests, 30)


@linux
def test_fifty_solves_at_once(playground: Playground) -> None:
    puzzles = [playground.new("sudoku", 9, "medium", seed) for seed in range(10)]

    def one(number: int) -> str:
        return list(playground.solve(puzzles[number % 10], ("sudoku-grouped", 256)))[-2]["status"]

    def all_at_once() -> None:
        with ThreadPoolExecutor(50) as pool:
            assert list(pool.map(one, range(50))) == ["solved"] * 50

    all_at_once()
    worker = networks(playground.pid)
    before = resident(worker), resident(playground.pid)
    for _ in range(2):
        all_at_once()
    after = resident(worker), resident(playground.pid)
    assert networks(playground.pid) == worker
    assert after[0] < before[0] + 60
    assert after[1] < before[1] + 30


@linux
def test_a_slow_reader_does_not_fill_memory(playground: Playground) -> None:
    """Nobody reads the events of a large board: the network waits, and so does not run ahead."""
    puzzle = playground.new("sudoku", 16, "easy")
    puzzle["givens"] = [0, *puzzle["givens"][1:]]
    puzzle["givens"][1] = puzzle["givens"][2] = 0
    content = {"puzzle": puzzle, "runs": [{"weights": "sudoku-6-grouped", "steps": 1024}] * 4}
    worker, before = networks(playground.pid), resident(playground.pid)
    with socket.create_connection(("127.0.0.1", playground.port)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = json.dumps(content).encode()
        raw.sendall(
            f"POST /api/solve HTTP/1.1\r\nHost: 127.0.0.1:{playground.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        time.sleep(3)
        assert list(playground.solve(read(playground, NINE), ("sudoku-grouped", 64)))[-2]["status"] == "solved"
        assert resident(playground.pid) < before + 30
        assert networks(playground.pid) == worker


def test_requests_that_never_end_are_ended(playground: Playground) -> None:
    with socket.create_connection(("127.0.0.1", playground.port), timeout=LIMITS["body_seconds"] + 20) as raw:
        raw.sendall(
            f"POST /api/read HTTP/1.1\r\nHost: 127.0.0.1:{playground.port}\r\nContent-Type: application/json\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        assert b" 408 " in raw.recv(4096).split(b"\r\n")[0]


def test_a_worker_waits_for_its_reader_and_lets_go_of_what_is_cancelled(playground: Playground) -> None:
    puzzle = {
        "puzzle": "sudoku",
        "size": 4,
        "shape": [2, 2],
        "pairs": [],
        "givens": [1, 1, *[0] * 14],
    }  # has no solution
    command = [sys.executable, "-m", "outgrow.playground.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(60, process.kill)  # what never comes is not waited for
        watch.start()

        def tell(**message: object) -> None:
            print(json.dumps(message), file=process.stdin, flush=True)

        def hear() -> dict[str, object]:
            assert process.stdout is not None
            return json.loads(process.stdout.readline())

        assert hear() == {"event": "ready"}
        runs = [{"weights": "sudoku-grouped", "steps": 1024}]
        for number in (1, 2):
            tell(id=number, task="solve", puzzle=puzzle, runs=runs)
        heard = [hear() for _ in range(2 * AHEAD)]
        assert sorted((e["id"], e["step"]) for e in heard) == [
            (i, step) for i in (1, 2) for step in range(1, AHEAD + 1)
        ]
        tell(id=2, take=3)
        assert [(e["id"], e["step"]) for e in (hear() for _ in range(3))] == [(2, AHEAD + i) for i in (1, 2, 3)]
        tell(id=1, cancel=True)
        assert hear() == {"event": "done", "id": 1}
        tell(id=1, take=5)  # too late: nobody is there
        tell(id=2, take=1)
        last = hear()
        assert (last["id"], last["step"]) == (2, AHEAD + 4)
        process.stdin.close()
        assert process.wait(20) == 0
        watch.cancel()


# ---- the command


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "outgrow", "play", "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_port_that_is_taken_is_said_in_a_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start("--port", str(taken.getsockname()[1]))
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "is taken" in err
    assert "Traceback" not in err
    assert not out


def test_another_port_is_found_where_the_usual_one_is_taken() -> None:
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", DEFAULT_PORT))
            taken.listen()
        except OSError:
            pass  # somebody else has it: as well
        process = start()
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=20)
    port = int(line.split("127.0.0.1:")[1].split("/")[0])
    assert port != DEFAULT_PORT


@linux
def test_ctrl_c_ends_it_and_its_workers() -> None:
    process = start("--port", "0")
    assert process.stdout is not None
    line = process.stdout.readline()
    playground = Playground(int(line.split("127.0.0.1:")[1].split("/")[0]), process.pid)
    puzzle = playground.new("sudoku", 25, "medium")
    events = playground.solve(puzzle, ("sudoku-grouped", 2048))
    next(events)
    workers = children(process.pid)
    assert workers
    threading.Timer(0.2, lambda: process.send_signal(signal.SIGINT)).start()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert until(lambda: not any((Path("/proc") / str(child)).exists() for child in workers))


@linux
def test_workers_end_with_a_server_that_is_killed() -> None:
    process = start("--port", "0")
    assert process.stdout is not None
    process.stdout.readline()
    workers = children(process.pid)
    assert workers
    process.kill()
    process.communicate(timeout=20)
    assert until(lambda: not any((Path("/proc") / str(child)).exists() for child in workers))
