"""The benchmark of what kernels become for a card that is not there. Triton compiles only where its interpreter is off: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmark_files import FOLDER

pytest.importorskip("triton")


def test_kernels_are_compiled_for_a_card(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    target = tmp_path / "registers.json"
    command = [sys.executable, str(FOLDER / "registers.py"), "--width", "32", "--json", str(target)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    found = json.loads(target.read_text())
    kernels = {row["kernel"]: row for row in found["kernels"]}
    assert list(kernels) == ["forward", "layer 3", "layer 2", "layer 1"]
    for row in kernels.values():
        assert 0 < row["registers"] <= 255
        assert row["instructions"] > 50
        assert row["products"] > 0
    refused = subprocess.run(command, env={**environment, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "TRITON_INTERPRET" in refused.stderr


def test_a_loop_is_found() -> None:
    """The longest one; the branch to itself at the end of a program is none."""
    sys.path.insert(0, str(FOLDER))
    try:
        os.environ.setdefault("TRITON_INTERPRET", "1")
        from registers import find_loop
    finally:
        sys.path.remove(str(FOLDER))
    lines = ["MOV R1, R2"] + ["FADD R1, R1, R2"] * 9 + ["@P0 BRA `(.L_x_1)", "EXIT", "BRA `(.L_x_2)"]
    text = [f"        /*{at:04x}*/                   {line} ;" for at, line in enumerate(lines)]
    text.insert(1, ".L_x_1:")
    text.insert(-1, ".L_x_2:")
    assert find_loop("\n".join(text)) == ["FADD"] * 9 + ["BRA"]
    assert len(find_loop("\n".join(text[2:]))) == len(lines) - 1
