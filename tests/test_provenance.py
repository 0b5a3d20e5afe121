"""Where a figure comes from."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from outgrow.provenance import find_commit, name_hardware, provenance

module = importlib.import_module("outgrow.provenance")


def git(root: Path, *arguments: str) -> str:
    identity = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        identity |= {f"GIT_{role}_NAME": "a", f"GIT_{role}_EMAIL": "a@b"}
    run = subprocess.run(
        ["git", "-C", str(root), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], **identity},
    )
    return run.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("src/code.py", "recipes/a.toml", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    return tmp_path


def test_the_commit_is_that_of_the_checkout(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    assert len(commit) == 40
    assert find_commit(checkout) == commit
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as inside a git hook
    assert find_commit(checkout) == commit


@pytest.mark.parametrize("name", ["src/code.py", "recipes/a.toml"])
@pytest.mark.parametrize("staged", [False, True])
def test_changed_code_is_said(checkout: Path, name: str, staged: bool) -> None:
    (checkout / name).write_text("two\n")
    if staged:
        git(checkout, "add", name)
    assert find_commit(checkout) == git(checkout, "rev-parse", "HEAD") + "-dirty"


def test_deleted_code_is_said(checkout: Path) -> None:
    (checkout / "src" / "code.py").unlink()
    assert str(find_commit(checkout)).endswith("-dirty")


def test_what_makes_no_figure_may_change(checkout: Path) -> None:
    (checkout / "README.md").write_text("two\n")
    (checkout / "src" / "new.py").write_text("untracked\n")
    assert find_commit(checkout) == git(checkout, "rev-parse", "HEAD")


def test_outside_a_checkout_there_is_none(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_commit(checkout / "src") is None  # inside a repository, and not its root
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_commit(checkout) is None  # git is not installed


def test_a_repository_without_a_commit_has_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert find_commit(tmp_path) is None
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").write_text("broken")
    assert find_commit(tmp_path / "other") is None


def test_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    known = provenance(recipe="a", seed=3, seconds=1.5)
    assert (known["recipe"], known["seed"], known["seconds"]) == ("a", 3, 1.5)
    assert known["torch"] == version("torch")
    assert abs((datetime.now(UTC).date() - datetime.fromisoformat(known["date"]).date()).days) <= 1
    assert known["hardware"]
    assert set(known) == {
        "recipe",
        "seed",
        "seconds",
        "commit",
        "hardware",
        "platform",
        "outgrow",
        "python",
        "torch",
        "date",
    }
    assert json.loads(json.dumps(known)) == known


def test_a_package_that_is_not_there_has_no_version() -> None:
    assert module._version_of("no-such-package") is None


@pytest.mark.parametrize(
    ("printed", "name"),
    [("NVIDIA H200", "NVIDIA H200"), ("NVIDIA H200\nNVIDIA H200", "NVIDIA H200"), (None, "GPU of unknown name")],
)
def test_a_gpu_has_its_name(monkeypatch: pytest.MonkeyPatch, printed: str | None, name: str) -> None:
    monkeypatch.setattr(module, "_run", lambda *_: printed)
    assert name_hardware("cuda:0") == name
    assert name_hardware("cpu") != name
