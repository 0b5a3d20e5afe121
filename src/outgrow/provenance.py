"""Where a figure comes from: the commit, the machine, the versions, the day."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from outgrow.version import __version__

__all__ = ["find_commit", "name_hardware", "provenance"]

_ROOT = Path(__file__).resolve().parents[2]


def provenance(device: str = "cpu", **more: Any) -> dict[str, Any]:
    """What is known without being told, and `more` (recipe, seed, seconds) before it.

    >>> provenance(recipe="sudoku-9-binarized", seed=0)["recipe"]
    'sudoku-9-binarized'
    """
    return {
        **more,
        "commit": find_commit(),
        "hardware": name_hardware(device),
        "platform": f"{platform.system()} {platform.machine()}",
        "outgrow": __version__,
        "python": platform.python_version(),
        "torch": _version_of("torch"),
        "date": datetime.now(UTC).date().isoformat(),
    }


def find_commit(root: Path = _ROOT) -> str | None:
    """The commit of the checkout this package runs from, '-dirty' if what makes its figures was changed since; None outside a checkout.

    A copy of the source without its history can be told by the variable OUTGROW_COMMIT.
    """
    if "OUTGROW_COMMIT" in os.environ:
        return os.environ["OUTGROW_COMMIT"]
    if not (root / ".git").exists():  # else git would name a repository that merely has this package installed inside
        return None
    commit = _run("git", "-C", str(root), "rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    changed = _run(
        "git",
        "-C",
        str(root),
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "src",
        "recipes",
    )
    return f"{commit}-dirty" if changed != "" else commit


def name_hardware(device: str = "cpu") -> str:
    """The name of the processor, or of the GPU for a device like 'cuda:0'."""
    if device.split(":")[0] == "cuda":
        names = _run("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
        return " and ".join(sorted(set(names.splitlines()))) if names else "GPU of unknown name"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version_of(package: str) -> str | None:
    """Without importing it: torch takes seconds."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _run(*command: str) -> str | None:
    """What it prints; None if it is not there, fails or takes too long."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, env=environment)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
