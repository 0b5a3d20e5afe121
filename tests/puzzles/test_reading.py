"""Files, and what all formats share: JSON, mixed texts, limits."""

from __future__ import annotations

import io
import json
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from comparing import assert_one_line, assert_same, read, refuse

from outgrow import InputError
from outgrow.puzzles import PUZZLES, Options, get_puzzle, parse, parse_one, read_text, render
from outgrow.puzzles.reading import MAX_BYTES, MAX_LINE, MAX_LINES, MAX_VARIABLES, name_of, shorten
from outgrow.puzzles.sudoku import build

NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
FOUR = "1.....3..4.....2"
ITEM = '{"puzzle": "sudoku", "box": [2, 2], "givens": [1, 0, 0, 0, 0, 0, 3, 0, 0, 4, 0, 0, 0, 0, 0, 2]}'


def refuse_file(path: str, reason: str, line: int | None = None, source: str = "") -> None:
    with pytest.raises(InputError) as caught:
        read_text(path)
    assert reason in caught.value.reason
    assert (caught.value.source, caught.value.line) == (source or path, line)
    assert_one_line(caught.value)


# ---- files


def test_files_are_read_as_utf8(tmp_path: Path) -> None:
    path = tmp_path / "boards.txt"
    path.write_bytes("\ufeff│ 1 . │\r\n".encode())
    assert read_text(str(path)) == "│ 1 . │\r\n"


@pytest.mark.parametrize(
    ("data", "line"), [(b"\xff\xfe1\x002\x00", 1), (b"12\n34\n\x80\n", 3), (b"ok\n\xc3", 2), (b"\x89PNG\r\n", 1)]
)
def test_other_bytes_are_refused(tmp_path: Path, data: bytes, line: int) -> None:
    path = tmp_path / "boards.txt"
    path.write_bytes(data)
    refuse_file(str(path), "not a text file", line)


def test_a_hundred_megabytes_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "garbage"
    block = bytes(range(256)) * 4096
    with path.open("wb") as stream:
        for _ in range(100):
            stream.write(block)
    tracemalloc.start()
    try:
        start = time.perf_counter()
        refuse_file(str(path), "larger than 32 MiB; split it")
        assert time.perf_counter() - start < 2
        assert tracemalloc.get_traced_memory()[1] < 50 << 20  # no more than the limit is read
    finally:
        tracemalloc.stop()


def test_the_limit_is_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "boards.txt"
    path.write_bytes(b"#" * MAX_BYTES)
    assert len(read_text(str(path))) == MAX_BYTES
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    refuse_file(str(path), "larger than 32 MiB; split it")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    refuse_file(str(tmp_path / "none.txt"), "cannot be read (No such file or directory)")
    refuse_file(str(tmp_path), "cannot be read (Is a directory)")
    with pytest.raises(InputError, match="cannot be read"):
        read_text("a\0b")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(NINE.encode())))
    assert read_text("-") == NINE
    assert name_of("-") == "standard input"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ok\n\xff")))
    refuse_file("-", "not a text file", 2, "standard input")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"." * (MAX_BYTES + 1))))
    refuse_file("-", "larger than 32 MiB", None, "standard input")


# ---- texts


@pytest.mark.parametrize("text", ["", "\n", "  \n\t\r\n", "# nothing\n\n  # at all", "[]", "\n[]\n[]\n"])
def test_a_text_without_a_puzzle(text: str) -> None:
    refuse(text, "holds no puzzle", None)


def test_one_is_expected() -> None:
    assert parse_one(FOUR).size == 4
    with pytest.raises(InputError, match=r"^a.txt: one puzzle expected, found 2$"):
        parse_one(f"{FOUR}\n{FOUR}", source="a.txt")
    with pytest.raises(InputError, match=r"^text: holds no puzzle$"):
        parse_one("")


def test_every_puzzle_in_every_format_in_one_text() -> None:
    """But for graphs in DIMACS's format, which end only where the text does."""
    texts, wanted = [], []
    for puzzle in PUZZLES.values():
        for example in map(read, puzzle.examples):
            for format in puzzle.formats:
                if format.name != "col" and not format.refuses(example):
                    texts.append(render(example, format=format.name))
                    wanted.append(example)
    texts.append(PUZZLES["coloring"].examples[0])
    wanted.append(read(texts[-1]))
    for gap in ("\n", "\n\n", "\n# next\n", "\r\n"):
        for order in (1, -1):
            some = [*texts[:-1][::order], texts[-1]]
            found = parse(gap.join(some))
            assert len(found) == len(wanted)
            for instance, other in zip(found, [*wanted[:-1][::order], wanted[-1]], strict=True):
                assert_same(instance, other)


def test_asking_for_one_puzzle() -> None:
    for name in PUZZLES:
        for other, puzzle in PUZZLES.items():
            for example in puzzle.examples:
                if name == other:
                    assert read(example, puzzle=name).puzzle == name
                elif example.startswith("{"):
                    refuse(example, f'"puzzle" must be one of {name}', 1, puzzle=name)
    with pytest.raises(InputError, match="no puzzle 'chess'; there is coloring, futoshiki, sudoku"):
        parse(FOUR, options=Options(puzzle="chess"))
    with pytest.raises(InputError, match="no puzzle 'chess'"):
        get_puzzle("chess")
    with pytest.raises(InputError, match="sudoku has no format 'col'; there is line, ints, grid, json, sgt"):
        render(read(FOUR), format="col")


def test_notes_and_sources_are_kept_apart() -> None:
    found = parse(f"# list\n{FOUR}\n\n{'.' * 144}\n{ITEM}", source="a.txt")
    assert [i.source for i in found] == ["a.txt:2", "a.txt:4", "a.txt:5"]
    assert [len(i.notes) for i in found] == [0, 1, 0]


# ---- JSON


@pytest.mark.parametrize(
    "text",
    [
        ITEM,
        f"  {ITEM}  ",
        f"[{ITEM}]",
        f"[\n{ITEM}\n]\n",
        json.dumps(json.loads(ITEM), indent=2),
        json.dumps(json.loads(ITEM), indent=2).replace("\n", "\r\n"),
        ITEM.replace(",", "\n,\n"),
        ITEM.replace('"puzzle": "sudoku", ', ""),
        ITEM.replace("{", '{"more": [1, {"a": null}], '),
    ],
)
def test_json_over_any_number_of_lines(text: str) -> None:
    options = {} if "puzzle" in text else {"puzzle": "sudoku"}
    assert_same(read(text, **options), read(FOUR))
    assert len(parse(f"{text}\n{text}\n\n{FOUR}", options=Options(**options))) == 3


TALL = json.dumps(json.loads(ITEM), indent=1).split("\n")
assert len(TALL) == 25
REFUSED = {
    "cut": (ITEM[:-20], "not JSON (Expecting", 1),
    "cut over lines": ("\n".join(TALL[:10]) + "\n\n", "not JSON (Expecting value); it begins on line 1", 10),
    "cut before another": (f"{ITEM[:-2]}\n{ITEM}", "not JSON (Expecting ',' delimiter); it begins on line 1", 2),
    "word": (ITEM.replace("[2, 2]", "two"), "not JSON (Expecting value)", 1),
    "line break in a string": ('{"puzzle": "sud\noku"}', "not JSON (Invalid control character at)", 1),
    "rest": (f"{ITEM} {FOUR}", f"something follows the JSON: '{FOUR}'", 1),
    "rest over lines": ("\n".join([*TALL[:24], "}\x1b[2J"]), r"something follows the JSON: '\x1b[2J'", 25),
    "two on a line": (ITEM + ITEM, 'something follows the JSON: \'{"puzzle"', 1),
    "deep": ("[" * 200_000, "not JSON (nested too deep)", 1),
    "deep objects": ('{"a":' * 200_000, "not JSON (nested too deep)", 1),
    "deep over lines": ("[\n" * 200_000, "not JSON (nested too deep)", 1),
    "list of numbers": ("[1, 2]", "puzzle 1: a JSON object expected", 1),
    "list of lists": (f"[{ITEM}, []]", "puzzle 2: a JSON object expected", 1),
    "no name": ("{}", '"puzzle" must be one of coloring, futoshiki, sudoku', 1),
    "null": ('{"puzzle": null}', '"puzzle" must be one of coloring, futoshiki, sudoku', 1),
    "number": ('{"puzzle": 3}', '"puzzle" must be one of coloring, futoshiki, sudoku', 1),
    "list": ('{"puzzle": ["sudoku"]}', '"puzzle" must be one of coloring, futoshiki, sudoku', 1),
    "unknown": ('{"puzzle": "chess"}', '"puzzle" must be one of coloring, futoshiki, sudoku', 1),
    "too many digits": (f'{{"puzzle": "sudoku", "box": {"9" * 5000}}}', "not JSON (a number of too many digits)", 1),
    "NaN": ('{"puzzle": "sudoku", "box": NaN, "givens": []}', '"box" is [rows, columns]', 1),
    "Infinity": ('{"puzzle": "futoshiki", "size": Infinity, "givens": []}', '"size" is a number', 1),
    "lone surrogate": (r'{"puzzle": "\ud800"}', '"puzzle" must be one of', 1),
    "NUL": ('{"puzzle": "sudoku\0"}', "not JSON (Invalid control character at)", 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_json(name: str) -> None:
    text, reason, line = REFUSED[name]
    refuse(text, reason, line)
    refuse(f"\n\n{FOUR}\n{text}", reason.replace("line 1", "line 4"), line + 3)


# ---- limits


def test_long_lines_and_many_lines() -> None:
    refuse(f"{FOUR}\n{'1' * (MAX_LINE + 1)}", "a line of 20,001 characters is no puzzle", 2)
    refuse("1 " * (1 << 20), "a line of 2,097,152 characters is no puzzle", 1)
    refuse(f"p edge 1 0\n{'x' * (1 << 20)}", "no line of a DIMACS graph: 'xxx", 2)
    refuse(f". < .\n{'.' * (1 << 20)}", "no row of a Futoshiki: '...", 2)
    refuse(f". < .\n{'v' * (1 << 20)}", "no row of a Futoshiki: 'vvv", 2)
    refuse(f". < .\n{chr(9) * (1 << 20)}.", "no row of a Futoshiki: '", 2)
    refuse("1234\n" + "." * (1 << 20), "4 rows of 4 cells expected, found 1", 1)
    refuse("\n" * (MAX_LINES + 1), "more than 4,000,000 lines; split it", MAX_LINES + 1)


def test_short_texts_that_stand_for_large_boards() -> None:
    """The limit on cells keeps 60 bytes from standing for 200 KB, half a million times over."""
    graph = '{"puzzle": "coloring", "colors": 3, "nodes": 100000, "edges": []}'
    allowed = MAX_VARIABLES // 100_000
    assert len(parse(f"{graph}\n" * 20)) == 20
    reason = "more than 50,000,000 cells and nodes in one text; split it"
    refuse(f"{graph}\n" * (allowed + 1), reason, allowed + 1)
    refuse("[" + ",".join([graph] * (allowed + 1)) + "]", reason, 1)


def test_shorten() -> None:
    assert shorten("a  b\n\tc") == "a b c"
    assert shorten("x" * 120) == "x" * 120
    assert shorten("x" * 121) == "x" * 117 + "..."
    assert shorten("x" * 10**8, 20) == "x" * 17 + "..."
    assert shorten(" " * 10**6 + "x", 20).endswith("...")


def test_instances_share_what_they_can() -> None:
    one, two = parse(f"{FOUR}\n{FOUR}")
    assert one.csp is two.csp
    assert one.csp is build(2, 2, one.givens).csp
