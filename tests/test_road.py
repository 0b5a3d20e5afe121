"""Imports run one way along the road: text -> puzzle -> ground CSP -> graph -> model -> assignment -> verdict."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src" / "outgrow"

# What each folder may import of the others; everyone may import itself, `errors` and `version`.
MAY_IMPORT: dict[str, set[str]] = {
    "csp": set(),
    "puzzles": {"csp"},
    "data": {"csp", "puzzles"},
    "kernels": set(),
    "graphs": {"csp", "puzzles", "data", "kernels"},
    "models": {"graphs", "kernels"},
    "solve": {"csp", "puzzles", "data", "graphs", "models", "weights"},
    "train": {"csp", "puzzles", "data", "graphs", "kernels", "models", "weights"},
    "evaluate": {"csp", "puzzles", "data", "graphs", "models", "solve", "train", "weights"},
    "weights": {"graphs", "models"},
    "playground": {"csp", "puzzles", "data", "models", "solve", "evaluate", "weights"},
}
EVERYONE = {"errors", "provenance", "version", "writing"}
# Packages that a bare GPU machine has not: only these files may import them.
HEAVY = {
    "pysat": {"csp/chains.py", "csp/exact.py", "csp/probing.py"},
    "click": {"cli"},
    "matplotlib": {"train/curves.py", "evaluate/figures.py"},
    "PIL": {"solve/animation.py"},
    "rich": {"cli"},
    "starlette": {"playground/app.py"},
    "uvicorn": {"playground/serving.py"},
    "torch": {
        "kernels",
        "graphs",
        "models",
        "solve",
        "train",
        "evaluate",
        "weights",
        "cli/train.py",
        "playground/worker.py",
    },
}


def imports_of(path: Path) -> set[str]:
    """Every module a file imports anywhere, functions included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def wrong_turns(folder: str, modules: set[str]) -> set[str]:
    """The folders among `modules` that `folder` may not import."""
    targets = {m.split(".")[1] for m in modules if m.startswith("outgrow.")}
    folders = {p.name for p in SRC.iterdir() if p.is_dir()}
    return (targets & folders) - MAY_IMPORT.get(folder, targets) - {folder} - EVERYONE


FILES = sorted(p for p in SRC.rglob("*.py") if p.parent != SRC)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_run_one_way(path: Path) -> None:
    folder = path.relative_to(SRC).parts[0]
    assert not wrong_turns(folder, imports_of(path))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_heavy_packages_stay_where_they_are_used(path: Path) -> None:
    relative = path.relative_to(SRC)
    for package in {m.split(".")[0] for m in imports_of(path)} & set(HEAVY):
        assert HEAVY[package] & {relative.parts[0], str(relative)}, f"{relative} imports {package}"


def test_a_wrong_turn_is_seen() -> None:
    assert wrong_turns("csp", {"outgrow.puzzles.sudoku"}) == {"puzzles"}
    assert wrong_turns("data", {"outgrow.cli.main", "numpy"}) == {"cli"}
    assert not wrong_turns("data", {"outgrow.puzzles", "outgrow.errors"})


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["solve", "--help"], ["solve", "--exact", "-"], ["weights", "list"]]
)
def test_the_command_starts_without_torch(arguments: list[str]) -> None:
    script = "import sys\nfrom outgrow.cli.main import main\ntry:\n    main()\nfinally:\n    assert 'torch' not in sys.modules"
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        input="1.....3..4.....2",
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
