"""Graph coloring with k colors and some nodes colored already."""

from __future__ import annotations

import json
import math
import re
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, LiftedCSP
from outgrow.errors import InputError
from outgrow.puzzles.instance import Format, Instance, Layout, Puzzle, Span, Values, neq
from outgrow.puzzles.reading import Reader, Text, shorten

__all__ = ["FORMS", "MAX_COLORS", "MAX_NODES", "PUZZLE", "build", "from_networkx", "read_side"]

MAX_COLORS = 1_000
MAX_NODES = 100_000
_LAYOUTS: WeakKeyDictionary[GroundCSP, Layout] = WeakKeyDictionary()

FORMS = {
    "units": LiftedCSP(predicates=["edge(2)"], relations={"neq": neq}, constraints=["edge(x, y) -> neq(x, y)"]),
}


def build(
    edges: npt.NDArray[np.integer],
    givens: npt.NDArray[np.integer],
    colors: int,
    *,
    form: str = "units",
    notes: tuple[str, ...] = (),
) -> Instance:
    """A graph to color; `edges` (E, 2) in either direction, `givens` (V,) with 0 for an open node."""
    edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    both = np.concatenate([edges, edges[:, ::-1]])
    csp = FORMS[form].ground(variables=len(givens), values=colors, facts={"edge": both})
    return Instance("coloring", csp, csp.assignment(givens), (len(givens),), notes=notes)


def from_networkx(graph: Any, colors: int, given: str = "color") -> Instance:
    """A networkx graph to color with that many colors; nodes that have an attribute `given` keep it, a color from 1 on.

    Variables are in the order of `graph.nodes`, so `dict(zip(graph.nodes, answer.assignment.tolist()))` is the coloring. Directions and
    parallel edges make no difference.

    >>> import networkx
    >>> puzzle = from_networkx(networkx.petersen_graph(), colors=3)
    >>> puzzle.size, puzzle.csp.num_variables, len(puzzle.csp.pairs["edge"])
    (3, 10, 30)
    """
    number = {node: i for i, node in enumerate(graph.nodes)}
    if not number:
        raise ValueError("a graph without nodes")
    if isinstance(colors, bool) or not isinstance(colors, int | np.integer):
        raise ValueError(f"{colors!r} colors; a whole number")
    colors = int(colors)
    if not 1 <= colors <= MAX_COLORS or len(number) > MAX_NODES:
        raise ValueError(
            f"{len(number):,} nodes and {colors:,} colors; up to {MAX_NODES:,} and {MAX_COLORS:,} are possible"
        )
    edges = {(min(x, y), max(x, y)) for x, y in ((number[a], number[b]) for a, b in graph.edges())}
    if any(x == y for x, y in edges):
        raise ValueError(f"node {next(n for n, i in number.items() if (i, i) in edges)!r} has an edge to itself")
    givens = np.zeros(len(number), dtype=np.int64)
    for node, color in graph.nodes(data=given):
        if color is None:
            continue
        if isinstance(color, bool) or not isinstance(color, int | np.integer) or not 1 <= color <= colors:
            raise ValueError(f"node {node!r} is given {color!r}; colors are whole numbers from 1 to {colors}")
        givens[number[node]] = color
    return build(np.array(sorted(edges), dtype=np.int64).reshape(-1, 2), givens, colors)


def _restore(
    *,
    size: int,
    shape: tuple[int, ...],
    pairs: npt.NDArray[np.integer],
    givens: npt.NDArray[np.integer],
    form: str,
) -> Instance:
    return build(pairs, givens, size, form=form)


# ---- reading

_HEADER = re.compile(r"p\s+(edge|edges|col|color)\b.*")
_EDGE = re.compile(r"e(\s+\d+){1,3}")
_SIDE = re.compile(r"c\s+(k|given)\s+[-+\d].*")  # and not 'c given by', which is a comment
_SUDOKU = frozenset("._0123456789abcdefghijklmnopqrstuvwxyz")  # 'c . 3 . .' is a row of one
_LOOK_AHEAD = 1_000

Given = tuple[int, str, int]  # a color, and the file and line that say so


def _claims(text: Text) -> bool:
    if text.options.puzzle == "coloring":
        return True
    words = text.current.split(maxsplit=40)
    if len(words) > 5 and all(word in _SUDOKU for word in words):
        return False
    for line in text.ahead(_LOOK_AHEAD):  # comments may come before the header
        line = line.strip()
        if _is_comment(line):
            if _SIDE.fullmatch(line):
                return True
        elif line and line[0] != "#":
            return bool(_HEADER.fullmatch(line) or _EDGE.fullmatch(line))
    return False


def _is_comment(line: str) -> bool:
    return line == "c" or line.startswith(("c ", "c\t"))


def _read(text: Text) -> Instance:
    """A DIMACS graph, to the end of the text. Comments `c k 4` and `c given NODE COLOR` say what DIMACS cannot."""
    start = header_line = text.line
    nodes = declared = None
    ends: list[int] = []  # two for each edge
    side: list[tuple[int, str]] = []
    for number in range(start, len(text.lines) + 1):
        line = text.lines[number - 1]
        words = line.split(maxsplit=4)  # one more than the longest line has
        if not words or words[0][0] == "#":
            continue
        if words[0] == "e":
            if nodes is None:
                raise text.error("no header 'p edge NODES EDGES' before the first edge", number)
            if len(words) != 3:
                raise text.error("an edge is 'e NODE NODE'", number)
            x, y = _whole(text, words[1], number), _whole(text, words[2], number)
            if not (1 <= x <= nodes and 1 <= y <= nodes):
                raise text.error(f"edge {x} {y}: nodes are 1 to {nodes}", number)
            if x == y:
                raise text.error(f"a self-loop at node {x}: no color is right for it", number)
            ends += (x, y)
        elif words[0] == "c":
            if len(words) > 2 and words[1] in ("k", "given") and _SIDE.fullmatch(line.strip()):
                side.append((number, line))
        elif words[0] == "p":
            if nodes is not None:
                raise text.error(f"a second header 'p', the first is on line {header_line}; one graph a file", number)
            if len(words) != 4 or words[1] not in ("edge", "edges", "col", "color"):
                raise text.error("the header is 'p edge NODES EDGES'", number)
            nodes, declared = _whole(text, words[2], number), _whole(text, words[3], number)
            header_line = number
            if not 1 <= nodes <= MAX_NODES:
                raise text.error(f"{nodes} nodes; a graph has 1 to {MAX_NODES:,}", number)
        elif words[0] != "n" or len(words) != 3:  # a node's weight, which coloring does not use
            raise text.error(f"no line of a DIMACS graph: {shorten(line, 60)!r}", number)
    text.at = len(text.lines)
    if nodes is None or declared is None:
        raise text.error("no header 'p edge NODES EDGES'", start)
    edges = np.array(ends, dtype=np.int64).reshape(-1, 2) - 1
    distinct = len(np.unique(edges.min(axis=1) * nodes + edges.max(axis=1)))
    # Some published files list every edge twice, or count it twice in the header.
    if declared not in (len(edges), distinct, 2 * distinct):
        raise text.error(f"the header says {declared} edges, the text has {len(edges)}; is it cut off?", header_line)
    colors, givens = read_side(text, side, nodes)
    if text.options.side is not None:  # has the last word over the file, and --colors over both
        more = list(enumerate(text.options.side.split("\n"), start=1))
        side_colors, side_givens = read_side(Text([], text.options.side_name), more, nodes)
        colors = side_colors or colors
        givens |= side_givens
    if text.options.colors is not None:
        colors = text.options.colors
    if colors is None:
        raise text.error("how many colors? Name them with --colors K, or a line 'c k K' in the file", header_line)
    if not 1 <= colors <= MAX_COLORS:
        raise text.error(f"{colors} colors; there may be 1 to {MAX_COLORS:,}", header_line)
    values = np.zeros(nodes, dtype=np.int64)
    for node, (color, source, line) in givens.items():
        if color > colors:
            raise InputError(f"node {node} is given color {color}; there are {colors}", source=source, line=line)
        values[node - 1] = color
    return build(edges, values, colors)


def _whole(text: Text, word: str, line: int) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 12):
        raise text.error(f"{shorten(word, 20)!r} is no number", line)
    return int(word)


def read_side(text: Text, lines: list[tuple[int, str]], nodes: int) -> tuple[int | None, dict[int, Given]]:
    """The number of colors (`k 4`) and the givens (`given NODE COLOR`) from numbered lines."""
    colors: int | None = None
    givens: dict[int, Given] = {}
    for number, line in lines:
        words = line.split(maxsplit=4)
        if not words or words[0][0] == "#":
            continue
        if words[0] == "c":  # as in the graph's own file
            if not _SIDE.fullmatch(line.strip()):
                continue
            words = words[1:]
        if words[0] == "k" and len(words) == 2:
            if colors is not None:
                raise text.error("the number of colors is named twice", number)
            colors = _whole(text, words[1], number)
            if not 1 <= colors <= MAX_COLORS:
                raise text.error(f"{colors} colors; there may be 1 to {MAX_COLORS:,}", number)
        elif words[0] == "given" and len(words) == 3:
            node, color = _whole(text, words[1], number), _whole(text, words[2], number)
            if not 1 <= node <= nodes:
                raise text.error(f"given node {node}; nodes are 1 to {nodes}", number)
            if not 1 <= color <= MAX_COLORS:
                raise text.error(f"given color {color}; colors are 1 to {MAX_COLORS:,}", number)
            if node in givens and givens[node][0] != color:
                raise text.error(f"node {node} is given twice, as {givens[node][0]} and {color}", number)
            givens[node] = (color, text.source, number)
        else:
            raise text.error(f"'k COLORS' or 'given NODE COLOR' expected: {shorten(line, 60)!r}", number)
    return colors, givens


def _from_json(item: dict[str, Any]) -> Instance:
    colors, nodes, edges, givens = item["colors"], item["nodes"], item["edges"], item.get("givens", {})
    if type(nodes) is not int or not 1 <= nodes <= MAX_NODES:
        raise ValueError(f'"nodes" is a number from 1 to {MAX_NODES:,}')
    if type(colors) is not int or not 1 <= colors <= MAX_COLORS:
        raise ValueError(f'"colors" is a number from 1 to {MAX_COLORS:,}')
    pairs: list[tuple[int, int]] = []
    for edge in edges if isinstance(edges, list) else [edges]:
        if not (isinstance(edge, list) and len(edge) == 2 and all(type(n) is int and 1 <= n <= nodes for n in edge)):
            raise ValueError(f'"edges" holds pairs of nodes from 1 to {nodes}')
        if edge[0] == edge[1]:
            raise ValueError(f"a self-loop at node {edge[0]}: no color is right for it")
        pairs.append((edge[0] - 1, edge[1] - 1))
    values = np.zeros(nodes, dtype=np.int64)
    if not isinstance(givens, dict):
        raise ValueError('"givens" maps nodes to colors: {"3": 1}')
    for node, color in givens.items():
        if not (node.isascii() and node.isdigit() and len(node) < 12 and 1 <= int(node) <= nodes):
            raise ValueError(f'"givens" names node {shorten(node, 20)!r}; nodes are 1 to {nodes}')
        if type(color) is not int or not 1 <= color <= colors:
            raise ValueError(f'"givens" holds colors from 1 to {colors}')
        if values[int(node) - 1] not in (0, color):
            raise ValueError(f"node {int(node)} is given twice, as {values[int(node) - 1]} and {color}")
        values[int(node) - 1] = color
    return build(np.array(pairs, dtype=np.int64).reshape(-1, 2), values, colors)


# ---- writing


def _edges(instance: Instance) -> list[list[int]]:
    pairs = instance.csp.pairs["edge"]
    return (pairs[pairs[:, 0] < pairs[:, 1]] + 1).tolist()


def _col(instance: Instance, values: Values) -> str:
    edges = _edges(instance)
    lines = [f"c k {instance.size}"]
    lines += [f"c given {i} {v}" for i, v in enumerate(values.tolist(), start=1) if v]
    lines += [f"p edge {instance.csp.num_variables} {len(edges)}"]
    lines += [f"e {x} {y}" for x, y in edges]
    return "\n".join(lines)


def _to_json(instance: Instance, values: Values) -> str:
    givens = {str(i): v for i, v in enumerate(values.tolist(), start=1) if v}
    item = {
        "puzzle": "coloring",
        "colors": instance.size,
        "nodes": len(values),
        "edges": _edges(instance),
        "givens": givens,
    }
    return json.dumps(item)


def _draw(instance: Instance, values: Values) -> list[list[Span]]:
    """A line of counts, then every node with its color."""
    edges = len(instance.csp.pairs["edge"]) // 2
    lines: list[list[Span]] = [[(f"{len(values)} nodes, {edges} edges, {instance.size} colors", "rule")]]
    pad = len(str(len(values)))
    per_line = max(1, 76 // (pad + 2 + len(str(instance.size)) + 2))
    for at in range(0, len(values), per_line):
        row: list[Span] = []
        for i in range(at, min(at + per_line, len(values))):
            color = f"{values[i]}" if values[i] else "."
            mark = "=" if instance.givens[i] else ":"
            row.append((f"{i + 1:>{pad}}{mark}{color:<{len(str(instance.size))}}", f"color-{values[i]}"))
            row.append(("  ", "rule"))
        lines.append(row)
    return lines


def _layout(instance: Instance) -> Layout:
    """Kept for the next picture: springs take a while."""
    if instance.csp not in _LAYOUTS:
        side = min(1600.0, 120 + 60 * math.sqrt(instance.csp.num_variables))
        pairs = instance.csp.pairs["edge"]
        _LAYOUTS[instance.csp] = Layout(
            width=side,
            height=side,
            places=np.round(24 + _lay_out(instance) * (side - 48), 2),
            shape="disc",
            side=24,
            lines=(),
            links=pairs[pairs[:, 0] < pairs[:, 1]].astype(np.int64),
            symbols=tuple(map(str, range(1, instance.size + 1))),
            colored=True,
        )
    return _LAYOUTS[instance.csp]


def _lay_out(instance: Instance) -> npt.NDArray[np.float64]:
    """Positions (V, 2) in the unit square: springs along edges, nodes that repel; a circle for large graphs."""
    count = instance.csp.num_variables
    angle = 2 * math.pi * np.arange(count) / max(count, 1)
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pairs = instance.csp.pairs["edge"]
    if 2 < count <= 400:
        ideal = math.sqrt(4 / count)
        for step in np.linspace(0.2, 0.005, 150):
            apart = place[:, None] - place[None]
            distance = np.maximum(np.linalg.norm(apart, axis=-1), 1e-6)
            force = (apart * (ideal**2 / distance**2)[..., None]).sum(axis=1)
            pull = place[pairs[:, 1]] - place[pairs[:, 0]]
            pull *= (np.linalg.norm(pull, axis=1) / ideal)[:, None]
            np.add.at(force, pairs[:, 0], pull)
            length = np.maximum(np.linalg.norm(force, axis=1), 1e-9)[:, None]
            place = place + force / length * np.minimum(length, step)
    low, high = place.min(axis=0), place.max(axis=0)
    wide = high - low > 1e-9
    return np.where(wide, (place - low) / np.where(wide, high - low, 1.0), 0.5)  # a single node lies in the middle


PUZZLE = Puzzle(
    name="coloring",
    forms=FORMS,
    restore=_restore,
    varying="edge",
    reader=Reader("coloring", _claims, _read),
    read_json=_from_json,
    formats=(Format("col", _col), Format("json", _to_json)),
    examples=(
        "c k 3\nc given 1 1\np edge 5 6\ne 1 2\ne 2 3\ne 3 4\ne 4 5\ne 5 1\ne 1 3",
        '{"puzzle": "coloring", "colors": 4, "nodes": 4, "edges": [[1, 2], [1, 3], [1, 4], [2, 3], [2, 4], [3, 4]], "givens": {"2": 4}}',
    ),
    name_variable=lambda instance, i: f"node {i + 1}",
    draw=_draw,
    layout=_layout,
)
