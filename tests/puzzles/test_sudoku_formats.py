from __future__ import annotations

import json
import random

import numpy as np
import pytest
from comparing import assert_round_trip, assert_same, facts, read, refuse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from outgrow import InputError
from outgrow.puzzles import Instance, Options, find_conflict, parse, parse_one, render, sudoku
from outgrow.puzzles.sudoku import SYMBOLS, box_shape, build

NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
NINE_VALUES = [0 if c == "." else int(c) for c in NINE]
ROWS = [NINE[i : i + 9] for i in range(0, 81, 9)]


def pattern(height: int, width: int) -> list[int]:
    """A full valid board."""
    size = height * width
    return [(width * (r % height) + r // height + c) % size + 1 for r in range(size) for c in range(size)]


def puzzle(height: int, width: int, seed: int = 0, share: float = 0.5) -> Instance:
    rng = random.Random(seed)
    return build(height, width, np.array([v if rng.random() < share else 0 for v in pattern(height, width)]))


def draw(
    cells: list[str],
    size: int,
    height: int,
    width: int,
    bar: str = "|",
    rule: str = "-",
    cross: str = "+",
    pad: int = 1,
) -> list[str]:
    """A grid with lines between boxes, drawn without the library."""
    lines: list[str] = []
    for r in range(size):
        if r and r % height == 0:
            lines.append(cross.join([rule * (width * (pad + 1) + 1)] * (size // width)))
        row = [f"{c:>{pad}}" for c in cells[r * size : (r + 1) * size]]
        lines.append(f" {bar} ".join(" ".join(row[c : c + width]) for c in range(0, size, width)))
    return lines


def frame(lines: list[str], bar: str, top: str, bottom: str) -> list[str]:
    wide = max(map(len, lines))
    return [top * (wide + 4), *(f"{bar} {line:<{wide}} {bar}" for line in lines), bottom * (wide + 4)]


SPACED = [" ".join(row) for row in ROWS]
DRAWN = draw(list(NINE), 9, 3, 3)
UNICODE = """\
╔═══════╤═══════╤═══════╗
║ 5 3 . │ . 7 . │ . . . ║
║ 6 . . │ 1 9 5 │ . . . ║
║ . 9 8 │ . . . │ . 6 . ║
╟───────┼───────┼───────╢
║ 8 . . │ . 6 . │ . . 3 ║
║ 4 . . │ 8 . 3 │ . . 1 ║
║ 7 . . │ . 2 . │ . . 6 ║
╟───────┼───────┼───────╢
║ . 6 . │ . . . │ 2 8 . ║
║ . . . │ 4 1 9 │ . . 5 ║
║ . . . │ . 8 . │ . 7 9 ║
╚═══════╧═══════╧═══════╝"""

NINES = {
    "one line with dots": NINE,
    "one line with zeros": NINE.replace(".", "0"),
    "one line with underscores": NINE.replace(".", "_"),
    "one line, dots and zeros": NINE.replace(".", "0", 20),
    "spaces around the line": f"  {NINE}\t ",
    "integers on one line": " ".join(NINE).replace(".", "0"),
    "integers on one line, -1": " ".join(NINE).replace(".", "-1"),
    "integers on one line, tabs": "\t".join(NINE).replace(".", "_"),
    "rows of characters": "\n".join(ROWS),
    "rows of characters, zeros": "\n".join(ROWS).replace(".", "0"),
    "rows of integers, 0": "\n".join(SPACED).replace(".", "0"),
    "rows of integers, .": "\n".join(SPACED),
    "rows of integers, _": "\n".join(SPACED).replace(".", "_"),
    "rows of integers, -1": "\n".join(SPACED).replace(".", "-1"),
    "rows of integers, aligned": "\n".join("".join(f"{c:>4}" for c in row) for row in ROWS).replace(".", "0"),
    "rows in groups of three": "\n".join(f"{r[:3]} {r[3:6]} {r[6:]}" for r in ROWS),
    "empty lines between boxes": "\n\n".join("\n".join(ROWS[i : i + 3]) for i in (0, 3, 6)),
    "empty lines between rows": "\n\n".join(ROWS),
    "drawn": "\n".join(DRAWN),
    "drawn, no spaces": "\n".join("|".join((r[:3], r[3:6], r[6:])) for r in ROWS),
    "drawn with rules alone": "\n---------\n".join("\n".join(SPACED[i : i + 3]) for i in (0, 3, 6)),
    "drawn with zeros": "\n".join(DRAWN).replace(".", "0"),
    "drawn in a frame": "\n".join(frame(DRAWN, "|", "-", "-")),
    "drawn in a frame of plus signs": "\n".join(frame(DRAWN, "|", "+", "=")),
    "drawn with lines around every cell": "+---" * 9
    + "\n"
    + "\n+---+---+\n".join("|" + "|".join(f" {c} " for c in row) + "|" for row in ROWS),
    "drawn in Unicode": UNICODE,
    "drawn in thick Unicode": "\n".join(draw(list(NINE), 9, 3, 3, bar="┃", rule="━", cross="╋")),
    "drawn, empty lines around the rules": "\n".join(f"\n{line}\n" if "--" in line else line for line in DRAWN),
    "letters": NINE.translate(str.maketrans("123456789", "ABCDEFGHI")),
    "small letters": NINE.translate(str.maketrans("123456789", "abcdefghi")),
    "Solo": "3x3:5_3b7d6b1_9_5d9_8d6a8c6c3_4b8a3b1_7c2c6a6d2_8d4_1_9b5d8b7_9",
    "JSON": json.dumps({"puzzle": "sudoku", "box": [3, 3], "givens": NINE_VALUES}),
    "JSON over many lines": json.dumps({"puzzle": "sudoku", "box": [3, 3], "givens": NINE_VALUES}, indent=2),
    "comments around it": f"# a puzzle\n\n  # of many\n{NINE}\n# and no more\n",
    "comments inside it": "\n# next\n".join(ROWS),
    "end of line as on Windows": "\r\n".join(ROWS) + "\r\n",
    "end of line as on old Macs": "\r".join(ROWS) + "\r",
}


@pytest.mark.parametrize("name", NINES)
def test_one_board_in_many_ways(name: str) -> None:
    instance = read(NINES[name])
    assert instance.puzzle == "sudoku"
    assert instance.shape == (3, 3)
    assert instance.givens.tolist() == NINE_VALUES
    assert not any("boxes" in note for note in instance.notes)
    assert_same(read(NINES[name], box=(3, 3)), instance)
    assert_same(read(NINES[name], puzzle="sudoku"), instance)


def test_all_of_them_in_one_file() -> None:
    texts = [text for text in NINES.values() if "\r" not in text]
    for gap in ("\n", "\n\n", "\n# next\n\n"):
        found = parse(gap.join(texts), source="boards.txt")
        assert [i.givens.tolist() for i in found] == [NINE_VALUES] * len(texts)
    found = parse("\n\n".join(texts), source="boards.txt")
    line = 1
    for text, instance in zip(texts, found, strict=True):
        skipped = 3 if text.startswith("# a") else 0
        assert instance.source == f"boards.txt:{line + skipped}"
        line += text.count("\n") + 2


@pytest.mark.parametrize("form", sudoku.FORMS)
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (6, 2), (4, 5)])
def test_the_facts_are_rows_columns_and_boxes(height: int, width: int, form: str) -> None:
    size = height * width
    instance = build(height, width, np.zeros(size * size, dtype=np.int16), form=form)
    cells = [(r, c) for r in range(size) for c in range(size)]

    def same(of: str) -> set[tuple[int, int]]:
        key = {"row": lambda r, c: r, "col": lambda r, c: c, "box": lambda r, c: (r // height, c // width)}[of]
        return {(i, j) for i, a in enumerate(cells) for j, b in enumerate(cells) if i != j and key(*a) == key(*b)}

    units = {of: same(of) for of in ("row", "col", "box")}
    assert facts(instance) == (units if form == "units" else {"nbr": set.union(*units.values())})
    groups = {tuple(g.tolist()) for members in instance.csp.groups.values() for g in members}
    assert all(len(g) == size for g in groups)
    assert sum(map(len, instance.csp.groups.values())) == 3 * size
    verdict = instance.judge(np.array(pattern(height, width)))
    assert verdict.solved


# ---- which symbols


def test_sixteen_from_one_and_from_zero() -> None:
    values = puzzle(4, 4, 1).givens.tolist()
    one = "".join("." if not v else SYMBOLS[v - 1] for v in values)
    zero = "".join("." if not v else "0123456789ABCDEF"[v - 1] for v in values)
    assert 1 in values
    for text, note, notation in ((one, "symbols read as 1-G", "1"), (zero, "symbols read as 0-F", "0")):
        for written in (text, text.lower(), "\n".join(text[i : i + 16] for i in range(0, 256, 16)), " ".join(text)):
            instance = read(written)
            assert instance.givens.tolist() == values
            assert instance.notes == (note,)
            assert instance.notation == notation
            assert render(instance, format="line") == text


def test_full_board_from_zero() -> None:
    values = pattern(4, 4)
    text = "".join("0123456789ABCDEF"[v - 1] for v in values)
    instance = read(text)
    assert instance.givens.tolist() == values
    assert instance.notes == ("symbols read as 0-F",)
    # A zero too many and they are empty cells.
    assert read("0" + text[1:] if text[0] != "0" else "00" + text[2:]).givens.tolist() != values


def test_zero_is_empty_where_nothing_else_is() -> None:
    values = puzzle(4, 4, 1).givens.tolist()
    text = "".join("0" if not v else SYMBOLS[v - 1] for v in values)
    assert read(text).givens.tolist() == values
    assert read(text).notes == ("symbols read as 1-G",)
    with_both = text.replace("0", ".", 3)  # G is a value, so 0 is none
    assert "G" in text
    assert read(with_both).givens.tolist() == values


def test_letters_alone() -> None:
    values = puzzle(4, 4, 2).givens.tolist()
    text = "".join("." if not v else chr(ord("A") + v - 1) for v in values)
    instance = read(text)
    assert instance.givens.tolist() == values
    assert instance.notes == ("letters read as A-P",)
    assert instance.notation == "A"
    assert render(instance, format="line") == text


@pytest.mark.parametrize("size", [10, 12, 16, 25, 26, 28, 35])
def test_a_board_of_high_values_alone_is_not_written_so_that_it_reads_as_others(size: int) -> None:
    """1-9A-G without a digit, or 0-F without a 0, would come back as other values."""
    shape = box_shape(size)
    assert shape is not None
    for high in ([size], [10, size], [2, size], [10], [1, 2]):
        for notation in ("1", "0", "A"):
            givens = np.zeros(size * size, dtype=np.int16)
            givens[: len(high)] = high
            instance = build(*shape, givens, notation=notation)
            for format in ("line", "grid"):
                assert_round_trip(instance, format)


def test_twenty_five_and_thirty_six() -> None:
    board = puzzle(5, 5)
    text = render(board, format="line")
    assert len(text) == 625
    assert set(text) <= set(".123456789ABCDEFGHIJKLMNOP")
    assert_same(read(text), board)
    assert read(text).notes == ("symbols read as 1-P",)
    large = puzzle(6, 6)
    assert "36" in render(large, format="ints").split()
    assert_same(read(render(large, format="ints")), large)
    assert_same(read(" ".join(map(str, large.givens.tolist()))), large)
    assert_same(read(render(large, format="grid")), large)
    with pytest.raises(InputError, match="more values than symbols; use another format, such as ints"):
        render(large, format="line")


# ---- which boxes


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        (4, (2, 2)),
        (6, (2, 3)),
        (8, (2, 4)),
        (9, (3, 3)),
        (10, (2, 5)),
        (12, (2, 6)),
        (15, (3, 5)),
        (16, (4, 4)),
        (20, (4, 5)),
        (24, (4, 6)),
        (25, (5, 5)),
        (30, (5, 6)),
        (35, (5, 7)),
        (36, (6, 6)),
    ],
)
def test_usual_boxes(size: int, shape: tuple[int, int]) -> None:
    assert box_shape(size) == shape
    instance = read("." * size * size) if size < 36 else read("0 " * 1296)
    assert instance.shape == shape
    assumed = f"boxes of {shape[0]} rows and {shape[1]} columns assumed; --box names another shape"
    assert (assumed in instance.notes) == (shape[0] != shape[1])


@pytest.mark.parametrize(
    ("height", "width"), [(2, 2), (2, 3), (3, 2), (2, 6), (3, 4), (4, 3), (6, 2), (2, 5), (4, 5), (3, 8), (6, 6)]
)
def test_boxes_are_read_off_the_drawing(height: int, width: int) -> None:
    board = puzzle(height, width, share=0.6)
    size = board.size
    pad = len(str(size))
    cells = [str(v) if v else "." for v in board.givens.tolist()]
    drawn = draw(cells, size, height, width, pad=pad)
    for lines in (
        drawn,
        frame(drawn, "|", "-", "-"),
        frame(drawn, "║", "═", "═"),
        draw(cells, size, height, width, bar="│", rule="─", cross="┼", pad=pad),
        [line for line in drawn if "--" not in line],  # bars alone
        [line.replace("|", " ") for line in drawn],  # rules alone
        ["" if "--" in line else line.replace("|", " ") for line in drawn],  # empty lines
        [x for line in drawn for x in ([line] if "--" in line else [line, "-" * 20])][:-1],  # and rules under every row
    ):
        found = read("\n".join(lines))
        assert_same(found, board)
        assert not any("boxes" in note for note in found.notes)


def test_a_box_option_decides() -> None:
    text = "." * 144
    assert read(text).shape == (2, 6)
    assert read(text, box=(3, 4)).shape == (3, 4)
    assert read(text, box=(3, 4)).notes == ()
    assert read(text, box=(12, 1)).shape == (12, 1)
    drawn = "\n".join(draw(["."] * 144, 12, 3, 4))
    assert read(drawn).shape == (3, 4)
    assert read(drawn, box=(4, 3)).shape == (4, 3)
    assert read("1 2 3 4 5 6 7\n" * 7, box=(1, 7)).shape == (1, 7)
    assert read("." * 49, box=(7, 1)).shape == (7, 1)
    assert read("1 2\n2 1", box=(1, 2)).shape == (1, 2)
    assert read("1221", box=(2, 1)).givens.tolist() == [1, 2, 2, 1]
    assert read("123\n231\n312", box=(1, 3)).shape == (1, 3)


def test_sparse_boards_are_grids_all_the_same() -> None:
    """Few small values: a row of 9 cells is no board of 3 x 3."""
    assert read("..1.\n....\n2...\n....").shape == (2, 2)
    assert read(". . 1 .\n. . . .\n2 . . .\n. . . .").shape == (2, 2)
    assert read("........1\n" + ".........\n" * 8).shape == (3, 3)
    assert read("0 0 0 0 0 0 0 0 1\n" + "0 0 0 0 0 0 0 0 0\n" * 8).shape == (3, 3)
    assert read("." * 24 + "1" + ("\n" + "." * 25) * 24).shape == (5, 5)


# ---- how many puzzles


def small_boards(count: int) -> list[str]:
    return [render(puzzle(2, 2, seed), format="line") for seed in range(count)]


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 40])
@pytest.mark.parametrize("gap", ["\n", "\n\n", "\r\n"])
def test_many_small_boards_a_line_each(count: int, gap: str) -> None:
    lines = small_boards(count)
    for texts in (lines, [" ".join(line).replace(".", "0") for line in lines]):
        found = parse(gap.join(texts) + gap)
        assert [i.shape for i in found] == [(2, 2)] * count
        assert [render(i, format="line") for i in found] == lines


@pytest.mark.parametrize("seed", range(5))
def test_one_board_of_sixteen_is_not_sixteen_of_four(seed: int) -> None:
    board = puzzle(4, 4, seed, share=0.3)
    text = render(board, format="line")
    rows = [text[i : i + 16] for i in range(0, 256, 16)]
    for lines in (rows, [" ".join(row) for row in rows], render(board, format="ints").split("\n")):
        assert_same(read("\n".join(lines)), board)
        assert_same(read("\n\n".join(lines)), board)
        found = parse("\n".join([*lines, "", *lines]))
        assert len(found) == 2
        for instance in found:
            assert_same(instance, board)


def test_a_small_board_before_a_large_one() -> None:
    board = puzzle(4, 4, 1)
    small = small_boards(1)[0]
    rows = render(board, format="ints")
    first, second = parse(f"{small}\n\n{rows}")
    assert first.size == 4
    assert_same(second, board)
    first, second = parse(f"{rows}\n{small}")
    assert_same(first, board)
    assert second.size == 4


def test_sixteen_empty_rows_are_sixteen_boards_unless_the_box_says_otherwise() -> None:
    text = ("." * 16 + "\n") * 16
    assert [i.shape for i in parse(text)] == [(2, 2)] * 16
    assert read(text, box=(4, 4)).shape == (4, 4)
    assert len(parse(text, options=Options(box=(2, 2)))) == 16
    letters = "A...B...C...D...\n" * 16
    assert [i.shape for i in parse(letters)] == [(2, 2)] * 16


def test_boards_of_36_cells_a_line() -> None:
    lines = [render(puzzle(2, 3, seed), format="line") for seed in range(40)]
    assert [render(i, format="line") for i in parse("\n".join(lines))] == lines


def test_one_slip_in_a_list_is_named() -> None:
    lines = small_boards(30)
    lines[9] = lines[9][:5] + "7" + lines[9][6:]
    refuse("\n".join(lines), "row 2 column 2 holds 7; a Sudoku of size 4 has 4 values", 10)


def test_mixed_sizes_and_formats() -> None:
    boards = [puzzle(2, 2, 1), puzzle(3, 3, 2), puzzle(4, 4, 3), puzzle(2, 3, 4), puzzle(6, 6, 5), puzzle(3, 4, 6)]
    texts = [
        render(boards[0], format="line"),
        render(boards[1], format="grid"),
        render(boards[2], format="sgt"),
        render(boards[3], format="json"),
        render(boards[4], format="ints"),
        render(boards[5], format="grid"),
    ]
    for gap in ("\n", "\n\n", "\n# and\n", "\r\n"):
        found = parse(gap.join(texts))
        assert len(found) == len(boards)
        for instance, board in zip(found, boards, strict=True):
            assert_same(instance, board)


# ---- round trips


@st.composite
def boards(draw: st.DrawFn) -> Instance:
    height = draw(st.integers(1, 36))
    width = draw(st.integers(1, 36 // height))
    size = height * width
    seed, share = draw(st.integers(0, 2**32)), draw(st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.95, 1.0]))
    rng = random.Random(seed)
    values = [rng.randint(1, size) if rng.random() < share else 0 for _ in range(size * size)]
    notation = draw(st.sampled_from(["1", "0", "A"]))
    return build(height, width, np.array(values), notation=notation)


@settings(deadline=None, max_examples=300)
@given(boards(), st.sampled_from(sudoku.PUZZLE.formats))
def test_random_boards_round_trip(board: Instance, format: sudoku.Format) -> None:
    assume(not format.refuses(board))
    box = board.shape
    if format.name not in ("line", "ints"):  # these two do not say it
        assert_round_trip(board, format.name)
    assert_round_trip(board, format.name, box=box)


@settings(deadline=None, max_examples=40)
@given(st.lists(boards(), min_size=1, max_size=4), st.sampled_from(["\n", "\n\n"]))
def test_random_boards_in_one_file(several: list[Instance], gap: str) -> None:
    formats = ["grid", "json", "sgt"]
    texts = [
        render(b, format=next(f for f in formats[i % 3 :] + formats if not sudoku.PUZZLE.format(f).refuses(b)))
        for i, b in enumerate(several)
    ]
    found = parse(gap.join(texts))
    assert len(found) == len(several)
    for instance, board in zip(found, several, strict=True):
        assert_same(instance, board)


@pytest.mark.parametrize(("height", "width"), [(1, 4), (4, 1), (1, 7), (1, 1)])
def test_boxes_of_one_row_are_not_drawn(height: int, width: int) -> None:
    board = puzzle(height, width)
    with pytest.raises(InputError, match="look like lines around every cell; use json or sgt"):
        render(board, format="grid")
    for format in ("json", "sgt"):
        assert_round_trip(board, format)
    for format in ("line", "ints"):
        assert_round_trip(board, format, box=(height, width))


# ---- refusals

ONE_LESS = [*ROWS[:4], ROWS[4][:-1], *ROWS[5:]]
REFUSED = {
    "cut line": (NINE[:-1], "80 cells on the line; a Sudoku of size 9 has 81", 1),
    "long line": (NINE + ".", "82 cells on the line; a Sudoku of size 9 has 81", 1),
    "second line cut": (f"{NINE}\n\n{NINE[:60]}\n", "60 cells on the line; a Sudoku of size 8 has 64", 3),
    "no usual boxes": ("." * 49, "a Sudoku of size 7 has no usual boxes; name their shape, as in --box 1x7", 1),
    "no usual boxes, grid": ("1 2 3 4 5\n" * 5, "a Sudoku of size 5 has no usual boxes", 1),
    "37 values": (" ".join(["0"] * 37 * 37), "1369 cells on the line; a Sudoku of size 36 has 1296", 1),
    "cut grid": ("\n".join(ROWS[:8]) + "\n", "9 rows of 9 cells expected, found 8", 8),
    "cut grid of integers": ("\n".join(SPACED[:5]), "9 rows of 9 cells expected, found 5", 5),
    "cut grid of sixteen": ("1.3.5.7.9.B.D.F.\n" * 15, "16 rows of 16 cells expected, found 15", 15),
    "cut drawing": ("\n".join(DRAWN[:9]), "9 rows of 9 cells expected, found 7", 9),
    "cut grid before another": (
        "\n".join([*ROWS[:8], "", *ROWS]),
        "9 rows of 9 cells expected, found 8",
        8,
    ),
    "cut grid before a line": ("\n".join([*ROWS[:8], NINE]), "this row has 81 cells, the first has 9", 9),
    "cut grid before JSON": ("\n".join([*ROWS[:8], '{"a": 1}']), "9 rows of 9 cells expected, found 8", 8),
    "cut groups": ("12 34\n34 12\n21 43", "4 rows of 4 cells expected, found 3", 3),
    "short row": ("\n".join(ONE_LESS), "this row has 8 cells, the first has 9", 5),
    "short row under comments": ("# one\n# two\n\n" + "\n".join(ONE_LESS), "this row has 8 cells, the first has 9", 8),
    "short row of integers": (
        "\n".join([*SPACED[:3], SPACED[3][:-2], *SPACED[4:]]),
        "this row has 8 cells, the first has 9",
        4,
    ),
    "value out of range": ("1" * 15 + "5", "row 4 column 4 holds 5; a Sudoku of size 4 has 4 values", 1),
    "several out of range": ("1.98567.........", "row 1 column 3 holds 9; a Sudoku of size 4 has 4 values", 1),
    "letter out of range": (NINE[:-1] + "A", "row 9 column 9 holds A; a Sudoku of size 9 has 9 values", 1),
    "number out of range": (
        "\n".join([*SPACED[:6], "10" + SPACED[6][1:], *SPACED[7:]]),
        "row 7 column 1 holds 10; a Sudoku of size 9 has 9 values",
        7,
    ),
    "huge number": (
        "\n".join([*SPACED[:2], "9" * 5000 + SPACED[2][1:], *SPACED[3:]]),
        "row 3 column 1 holds 99999999999999999...; a Sudoku of size 9 has 9 values",
        3,
    ),
    "letter among numbers": (
        "\n".join(["16 x" + " 0" * 14] + ["0 " * 16] * 15),
        "'x' stands among numbers",
        1,
    ),
    "strange sign": (NINE[:40] + "?" + NINE[41:], "'?' is no cell of a Sudoku; write 1-9 and A-Z, or .", 1),
    "strange sign in a grid": (
        "\n".join([*ROWS[:4], "4..8*3..1", *ROWS[5:]]),
        "'*' is no cell of a Sudoku",
        5,
    ),
    "superscript": ("²" * 16, "'²' is no cell of a Sudoku", 1),
    "superscripts in rows": ("²" * 16 + "\n" + "².\n" * 15, "'²' is no cell of a Sudoku", 1),
    "superscripts in a grid": ("1234\n²²²²\n....\n....", "'²' is no cell of a Sudoku", 2),
    "superscripts in groups": ("12 34\n²² 12\n.. ..\n.. ..", "'²' is no cell of a Sudoku", 2),
    "superscripts in a list": (("²" * 16 + "\n") * 3, "'²' is no cell of a Sudoku", 1),
    "digits of another script": ("٣" * 16, "'٣' is no cell of a Sudoku", 1),
    "NUL": (NINE[:40] + "\0" + NINE[41:], r"'\x00' is no cell of a Sudoku", 1),
    "escape": (NINE[:40] + "\x1b" + NINE[41:], r"'\x1b' is no cell of a Sudoku", 1),
    "only rules": ("+---+---+\n\n=====\n", "a Sudoku expected, found only rules", 1),
    "one letter": ("x", "no puzzle: 'x'", 1),
    "prose": ("hello world", "10 rows of 10 cells expected, found 1", 1),
    "unequal boxes": (
        "\n".join(line.replace("|", " ", 1) if i == 5 else line for i, line in enumerate(DRAWN)),
        "the drawn boxes are not all of one shape",
        1,
    ),
    "unequal rules": (
        "\n".join([*SPACED[:2], "---", *SPACED[2:6], "---", *SPACED[6:]]),
        "the drawn boxes are not all of one shape",
        1,
    ),
    "wrong boxes": (
        "\n".join(draw(["."] * 144, 12, 3, 6)),
        "boxes are drawn as 3x6, which do not hold 12 cells",
        1,
    ),
    "wide drawing": ("|" + " 1 |" * 40, "40 cells in the row; a Sudoku has up to 36", 1),
    "Solo cut": ("2x2:a1b", "the id has 4 cells; a Sudoku of size 4 has 16", 1),
    "Solo out of range": ("# id\n2x2:5o", "value 5; a Sudoku of size 4 has 1 to 4", 2),
    "Solo sign": ("2x2:a1a?", "'?' in a Solo id", 1),
    "Solo too large": ("7x7:zzz", "boxes of 7x7; Sudoku goes up to 36 values", 1),
    "Solo diagonals": ("2x2x:a1n", "a Solo game with diagonals; only plain Sudoku is read", 1),
    "Solo jigsaw": ("4j:a1n,aaaa", "a Solo game with jigsaw boxes; only plain Sudoku is read", 1),
    "Solo killer": ("2x2k:p,aaa,3", "a Solo game with killer cages; only plain Sudoku is read", 1),
    "Solo unknown": ("2x2q:a1n", "a Solo game of the kind 'q'; only plain Sudoku is read", 1),
    "Solo seed": ("3x3#123456", "a random seed of Solo, not a board; use the id with a colon", 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_reason(name: str) -> None:
    text, reason, line = REFUSED[name]
    refuse(text, reason, line)
    refuse(text, reason, line, puzzle="sudoku")
    # Below another puzzle the line is counted from the top.
    refuse(f"{NINE}\n# and\n\n{text}", reason, line + 3)


@pytest.mark.parametrize(
    ("text", "box", "reason"),
    [
        (NINE, (2, 3), "boxes of 2x3 do not fit a Sudoku of size 9"),
        (NINE, (-3, -3), "boxes of -3x-3 do not fit a Sudoku of size 9"),
        (NINE, (0, 9), "boxes of 0x9 do not fit a Sudoku of size 9"),
        ("\n".join(ROWS), (4, 4), "boxes of 4x4 do not fit a Sudoku of size 9"),
        ("2x3:zj", (3, 2), "the id says boxes of 2x3, --box another shape"),
    ],
)
def test_a_box_that_does_not_fit(text: str, box: tuple[int, int], reason: str) -> None:
    refuse(text, reason, 1, box=box)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"box": None}, '"box" is [rows, columns]'),
        ({"box": [2]}, '"box" is [rows, columns]'),
        ({"box": ["2", "2"]}, '"box" is [rows, columns]'),
        ({"box": [True, 4]}, '"box" is [rows, columns]'),
        ({"box": [2.0, 2]}, '"box" is [rows, columns]'),
        ({"box": [0, 4]}, '"box" is [rows, columns] of a Sudoku of 1 to 36 values'),
        ({"box": [-2, -2]}, '"box" is [rows, columns] of a Sudoku of 1 to 36 values'),
        ({"box": [7, 7]}, '"box" is [rows, columns] of a Sudoku of 1 to 36 values'),
        ({"box": [10**4000, 1]}, '"box" is [rows, columns] of a Sudoku of 1 to 36 values'),
        ({"givens": None}, '"givens" is a list of whole numbers'),
        ({"givens": "1" * 16}, '"givens" is a list of whole numbers'),
        ({"givens": [0] * 15 + [1.0]}, '"givens" is a list of whole numbers'),
        ({"givens": [0] * 15 + [True]}, '"givens" is a list of whole numbers'),
        ({"givens": [0] * 15 + [None]}, '"givens" is a list of whole numbers'),
        ({"givens": [0] * 15}, '"givens" has 15 numbers; a board of size 4 has 16'),
        ({"givens": [0] * 17}, '"givens" has 17 numbers; a board of size 4 has 16'),
        ({"givens": [0] * 15 + [5]}, '"givens": row 4 column 4 holds 5; values are 1 to 4'),
        ({"givens": [0] * 14 + [-1, 0]}, '"givens": row 4 column 3 holds -1; values are 1 to 4'),
        ({"givens": [10**4000] + [0] * 15}, '"givens": row 1 column 1 holds 10000000000000000...; values are 1 to 4'),
    ],
)
def test_refused_json(change: dict[str, object], reason: str) -> None:
    item = {"puzzle": "sudoku", "box": [2, 2], "givens": [0] * 16} | change
    refuse("\n" + json.dumps(item), reason, 2)
    refuse(json.dumps([{"puzzle": "sudoku", "box": [2, 2], "givens": [0] * 16}, item]), f"puzzle 2: {reason}", 1)


@pytest.mark.parametrize("key", ["box", "givens"])
def test_refused_json_without_a_part(key: str) -> None:
    item = {"puzzle": "sudoku", "box": [2, 2], "givens": [0] * 16}
    del item[key]
    refuse(json.dumps(item), f"no '{key}'", 1)


def test_a_given_that_breaks_a_rule_is_named() -> None:
    for cells, wanted in (
        ({0: 4, 3: 4}, "row 1 column 1 is 4 and row 1 column 4 is 4, against 'row'"),
        ({1: 2, 13: 2}, "row 1 column 2 is 2 and row 4 column 2 is 2, against 'col'"),
        ({10: 3, 15: 3}, "row 3 column 3 is 3 and row 4 column 4 is 3, against 'box'"),
    ):
        text = "".join(str(cells.get(i, ".")) for i in range(16))
        assert find_conflict(parse_one(text)) == f"a given breaks a rule: {wanted}"
    assert find_conflict(parse_one("11" + "." * 14)) == (
        "a given breaks a rule: row 1 column 1 is 1 and row 1 column 2 is 1, against 'row' (and 1 more)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "53..7.... 6..195... .98....6. 8...6...3 4..8.3..1 7...2...6 .6....28. ...419..5 ....8..79",
        "*-----------*\n|53.|.7.|...|\n|6..|195|...|\n|.98|...|.6.|\n|---+---+---|\n|8..|.6.|..3|\n|4..|8.3|..1|\n|7..|.2.|..6|\n"
        "|---+---+---|\n|.6.|...|28.|\n|...|419|..5|\n|...|.8.|.79|\n*-----------*\n",
        ".---.---.---.\n|53.|.7.|...|\n|6..|195|...|\n|.98|...|.6.|\n:---+---+---:\n|8..|.6.|..3|\n|4..|8.3|..1|\n|7..|.2.|..6|\n"
        ":---+---+---:\n|.6.|...|28.|\n|...|419|..5|\n|...|.8.|.79|\n'---'---'---'\n",
    ],
    ids=["rows side by side", "stars", "dots and colons"],
)
def test_other_ways_that_programs_write_a_board(text: str) -> None:
    line = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
    assert render(parse_one(text), format="line") == line


def test_a_zero_beside_another_empty_sign_is_noted() -> None:
    board = ["0", "-1", "10"] + ["."] * 141
    assert "0 read as an empty cell" in parse_one(" ".join(board)).notes
