"""Whatever comes in, a parser answers with puzzles or with an InputError: soon, and without keeping memory."""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from comparing import assert_one_line, assert_same

from outgrow import InputError
from outgrow.puzzles import PUZZLES, Instance, Options, find_conflict, parse, render

COUNT = 10_000
PARSERS = [None, *PUZZLES]
SIDES = {"colors": 3, "side": "given 1 1"}
ALPHABETS = [
    "._0123456789",
    "._0123456789ABCDEFGabcdefg \n",
    ". _<>^v123\n",
    "|-+=. 1234\n",
    "pe cedgkivn 0123456789\n",
    '{}[]":, sudokgivenbx0123456789lt\n',
    "0123456789x:,URDLabz_#\n",
    "│─┼╋²٣∧∨.12 \n",
    "².\n",
]
SEEDS = [
    *(example for puzzle in PUZZLES.values() for example in puzzle.examples),
    "53. | .7. | ...\n6.. | 195 | ...\n.98 | ... | .6.\n----+-----+----\n" * 3,
    "\n".join(["1.3.5.7.9.B.D.F."] * 16),
    "\n".join(" ".join(str(c % 4) for c in range(4)) for _ in range(4)),
    '[{"puzzle": "futoshiki", "size": 2, "givens": [0, 0, 0, 1], "less": [[[1, 1], [1, 2]]]}]',
    "3:1,2L,3,0D,0U,0,0,0R,0,",
    "3x4:b12_1e6a5_9c6a5f6a11_12c9_4_1b3c9a4d12b7a2e11b5_10_1_8_11d3_6d12_9_5_10_11b8e3a6b1d7a10c5b8_1_9c3_5a4f7a12c6_10a6e2_8b",
]


def random_bytes(rng: random.Random) -> bytes:
    length = rng.choice((1, 3, 16, 30, 81, 120, 300))
    if rng.random() < 0.4:
        return rng.randbytes(length)
    return symbols(rng, length)


def symbols(rng: random.Random, length: int) -> bytes:
    """Of one format, so that some of it gets past the first check."""
    return "".join(rng.choices(rng.choice(ALPHABETS), k=length)).encode()


def mutate(rng: random.Random, text: bytes) -> bytes:
    """Flips, cuts, repeats, and pieces of other texts."""
    data = bytearray(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        to = at + rng.choice((1, 1, 2, 9, len(data)))
        match rng.randrange(7):
            case 0 if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                del data[at:to]
            case 2:
                data[at:at] = data[at:to] * rng.randint(1, 3)
            case 3:
                data[at:to] = symbols(rng, len(data[at:to]))
            case 4:
                data[at:at] = rng.choice(SEEDS).encode()[: rng.randint(1, 60)]
            case 5:
                data = data + rng.choice((b"\n", b"\n\n", b" ")) + rng.choice(SEEDS).encode()
            case _:
                data[at:at] = rng.choice((b"\n", b"\r\n", b" ", b"\0", b"#", b"|", b"-", b"\xff", b"9" * 30))
    return bytes(data)


def inputs(seed: int, count: int) -> Iterator[str]:
    """Random bytes and mutated texts in turn, in one encoding and the other."""
    rng = random.Random(seed)
    for number in range(count):
        for data in (random_bytes(rng), mutate(rng, rng.choice(SEEDS).encode())):
            yield data.decode("latin-1") if number % 2 else data.decode("utf-8", errors="replace")


def try_parse(text: str, puzzle: str | None, **options: object) -> list[Instance]:
    try:
        return parse(text, source="fuzz", options=Options(puzzle=puzzle, **options))  # type: ignore[arg-type]
    except InputError as error:
        assert_one_line(error)
        assert error.source in ("fuzz", "side file")
        if error.line is not None:
            assert 1 <= error.line <= text.count("\n") + text.count("\r") + 1
        return []


@pytest.mark.parametrize("puzzle", PARSERS)
def test_random_bytes_give_puzzles_or_errors(puzzle: str | None) -> None:
    found = 0
    for number, text in enumerate(inputs(1, COUNT)):
        for instance in try_parse(text, puzzle, **(SIDES if number % 3 == 0 else {}))[:3]:
            found += 1
            assert puzzle in (None, instance.puzzle)
            find_conflict(instance)
            # What was read can be written, and then reads the same.
            box = instance.shape if instance.puzzle == "sudoku" else None
            for format in PUZZLES[instance.puzzle].formats:
                if not format.refuses(instance):
                    (again,) = try_parse(render(instance, format=format.name), instance.puzzle, box=box)
                    assert_same(again, instance)
    assert found > COUNT // 100  # the fuzz reaches beyond the first check


def test_no_memory_is_kept() -> None:
    """The same texts a second time leave nothing behind; the first fills the caches."""
    texts = list(inputs(2, 1_000))
    for text in texts:
        try_parse(text, None)
    gc.collect()
    tracemalloc.start()
    try:
        for text in texts:
            try_parse(text, None)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 300_000


# Texts that would take minutes if a line were looked at once for every line before it.
ADVERSARIAL: dict[str, Callable[[], str]] = {
    "30 MB of comments": lambda: "c x\n" * (30 << 18),
    "comments": lambda: "c x\n" * 1_000_000,
    "hash comments": lambda: "#\n" * 1_000_000,
    "empty lines": lambda: "\n" * 2_000_000,
    "30 MB of braces": lambda: "{" * (30 << 20),
    "lines of braces": lambda: "{\n" * 2_000_000,
    "lines of brackets": lambda: "[\n" * 2_000_000,
    "an open string": lambda: '{"a": "' + "x\n" * 2_000_000,
    "an open list": lambda: "[" + "0,\n" * 500_000,
    "1 MB on a line": lambda: "1 " * (1 << 19),
    "500,000 short lines": lambda: "x\n" * 500_000,
    "500,000 pairs": lambda: "1 x\n" * 500_000,
    "signs": lambda: ". < .\n" + "v\n" * 500_000,
    "rules": lambda: "---\n" * 1_000_000,
    "bars": lambda: "|||||\n" * 500_000,
    "a header and comments": lambda: "p edge 3 1\n" + "c\n" * 1_000_000,
    "a long edge": lambda: "p edge 3 1\ne " + "12 " * (8 << 20),
    "tabs": lambda: ". < .\n" + "\t" * (8 << 20) + ".",
    "long rows": lambda: ("." * 19_999 + "\n") * 500,
    "rows of long numbers": lambda: ("1" * 9_000 + " " + "2" * 9_000 + "\n") * 500,
    "an id of letters": lambda: "3x3" + "a" * 19_000,
    "an id of letters and digits": lambda: "3x3" + "a1" * 9_000 + "?",
}
# And valid ones: the time for a puzzle must not grow with the number of puzzles.
BULK: dict[str, tuple[str, int]] = {
    "lines of 9 x 9": ("." * 80 + "1\n", 400),
    "lines of 4 x 4": ("1" + "." * 15 + "\n", 400),
    "lines of letters": ("c . . . . . . . . . . . . . . .\n", 400),
    "lines of 35 x 35": ("." * 1225 + "\n", 60),
    "grids": ("1.2.\n....\n....\n....\n", 400),
    "Futoshiki": (". < .\n. .\n", 400),
    "JSON over lines": ('{"puzzle":"sudoku",\n"box":[2,2],\n"givens":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]}\n', 1_500),
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_texts_end_soon(name: str) -> None:
    text = ADVERSARIAL[name]()
    for puzzle in PARSERS:
        start = time.process_time()
        assert not try_parse(text, puzzle)
        assert time.process_time() - start < 5


@pytest.mark.parametrize("name", BULK)
def test_time_grows_with_the_number_of_puzzles_and_no_faster(name: str) -> None:
    unit, count = BULK[name]
    assert len(parse(unit)) == 1

    def seconds(text: str) -> float:
        start = time.process_time()
        parse(text)
        return time.process_time() - start

    few = min(seconds(unit * count) for _ in range(3))
    assert len(parse(unit * count)) == count
    assert seconds(unit * count * 8) < 8 * 4 * few + 0.1
