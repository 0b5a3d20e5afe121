"""`outgrow data`: the named data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from outgrow.errors import OutgrowError

_folder = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where data sets are kept  [default: datasets]",
)
_CLUES = "sudoku-9-17"


@click.group("data", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The data sets: the paper's training and test sets, validation sets and hard sets.

    \b
    Examples:
      outgrow data list
      outgrow data verify --jobs 2
      outgrow data build sudoku-16-test --dir /tmp/again
      outgrow data build sudoku-9-17 --clues sudoku17.txt.gz
    """


@command.command("list")
@_folder
@click.option("--json", "as_json", is_flag=True, help="The manifest's entries, one JSON object a line.")
def list_sets(folder: Path | None, as_json: bool) -> None:
    """What there is."""
    from outgrow.data.file import find_folder
    from outgrow.data.sets import read_manifest

    folder = folder or find_folder()
    sets = read_manifest(folder)["sets"]
    if as_json:
        for name, entry in sets.items():
            print(json.dumps({"name": name, **entry, "here": (folder / entry["file"]).exists()}))
        return
    from rich.table import Table

    from outgrow.cli.terminal import console

    table = Table("name", "for", "puzzles", "size", "masked, or givens", "here", box=None)
    for name, entry in sets.items():
        settings = entry["settings"]
        low, high = settings.get("levels", settings.get("givens", (0, 0)))
        masked = settings.get("style") == "masked"
        level = "minimal" if settings.get("style") == "minimal" else f"{low}-{high}{'%' if masked else ' givens'}"
        here = "yes" if (folder / entry["file"]).exists() else "build it"
        table.add_row(name, entry["role"], f"{entry['count']:,}", str(entry["size"]), level, here)
    console.print(table)


@command.command("build")
@click.argument("names", nargs=-1, required=True)
@_folder
@click.option(
    "--clues",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A list of 17-clue Sudokus, a line each (.gz too).",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes; they do not change the result."
)
@click.option("--update-manifest", is_flag=True, help="Write what was made into the manifest instead of comparing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a set and line.")
def build(
    names: tuple[str, ...], folder: Path | None, clues: Path | None, jobs: int, update_manifest: bool, as_json: bool
) -> int:
    """Make data sets again from their settings and seeds, and compare them with the manifest.

    NAMES are those of `outgrow data list`, 'all' for every set that needs nothing but the program, or 'sudoku-9-17' (the paper's 9x9
    puzzles, from a list of 17-clue Sudokus that you bring). The exit code is 1 if a set differs from the manifest.
    """
    from outgrow.cli.terminal import track
    from outgrow.data.file import find_folder
    from outgrow.data.sets import CLUES, SETS, build_from_clues, build_set, describe, read_manifest
    from outgrow.data.sets import update_manifest as write_manifest

    target = folder or find_folder()
    wanted: list[str] = []
    for name in names:
        if name == "all":
            wanted += SETS
        elif name in SETS:
            wanted.append(name)
        elif name.startswith(_CLUES):
            wanted += [_CLUES] if _CLUES not in wanted else []
        else:
            raise OutgrowError(f"no data set {name!r}; 'outgrow data list' names them")
    if _CLUES in wanted and clues is None:
        raise OutgrowError(f"{_CLUES} is made from a list of 17-clue Sudokus: name it with --clues FILE")
    known: dict[str, Any] = {}
    for place in (target, find_folder()):
        if (place / "manifest.json").exists():
            known = read_manifest(place)["sets"]
            break
    same = True
    for name in wanted:
        if name == _CLUES:
            assert clues is not None
            with track(f"Building {name}", sum(count for _, count in CLUES.counts)) as advance:
                made = build_from_clues(clues, target, progress=advance)
        else:
            with track(f"Building {name}", SETS[name].settings.count) as advance:
                made = {name: build_set(name, target, jobs=jobs, progress=advance)}
        entries = {n: describe(n, d, target) for n, d in made.items()}
        if update_manifest:
            write_manifest(target, entries)
        for n, entry in entries.items():
            expected = known.get(n, {}).get("sha256")
            outcome = "differs" if expected not in (None, entry["sha256"]) else "new" if expected is None else "same"
            same &= update_manifest or outcome != "differs"
            if as_json:
                print(
                    json.dumps({"name": n, "file": str(target / entry["file"]), "manifest": outcome, **_brief(entry)})
                )
            else:
                words = {
                    "same": "as the manifest says",
                    "new": "not in the manifest",
                    "differs": "DIFFERS from the manifest",
                }
                shown = "manifest updated" if update_manifest else words[outcome]
                print(f"{target / entry['file']}: {entry['count']:,} puzzles, sha256 {entry['sha256'][:16]}, {shown}")
    return 0 if same else 1


def _brief(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("count", "sha256", "bytes")}


@command.command("verify")
@click.argument("names", nargs=-1)
@_folder
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--quick", is_flag=True, help="Checksums, counts and masks only; prove nothing again.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a set and line.")
def verify(names: tuple[str, ...], folder: Path | None, jobs: int, quick: bool, as_json: bool) -> int:
    """Check every claim of the manifest again: solutions, masks, uniqueness, minimality, chromatic numbers, and that sets share no solution.

    The exit code is 1 if a claim does not hold.
    """
    from outgrow.cli.terminal import track
    from outgrow.data.file import find_folder
    from outgrow.data.sets import read_manifest
    from outgrow.data.verify import check_shared, verify_set

    folder = folder or find_folder()
    sets = read_manifest(folder)["sets"]
    unknown = [n for n in names if n not in sets]
    if unknown:
        raise OutgrowError(f"no data set {unknown[0]!r} in {folder}; 'outgrow data list' names them")
    checked = []
    failed = False
    for name in names or sets:
        claims = sets[name]
        if not claims.get("in_tree", True) and not (folder / claims["file"]).exists():
            if name in names:
                raise OutgrowError(
                    f"{folder / claims['file']}: not here; 'outgrow data build {_CLUES} --clues FILE' makes it"
                )
            if not as_json:
                print(f"{name}: not here, left out")
            continue
        with track(f"Verifying {name}", int(claims["count"])) as advance:
            result = verify_set(name, claims, folder, jobs=jobs, quick=quick, progress=advance)
        checked.append(result)
        failed |= not result.ok
        if as_json:
            print(
                json.dumps({"name": name, "ok": result.ok, "problems": list(result.problems[:100]), **result.facts}),
                flush=True,
            )
        else:
            counted = "".join(f", {count:,} {fact}" for fact, count in result.facts.items())
            print(
                f"{name}: {'as claimed' if result.ok else 'FAILED'} ({claims['count']:,} puzzles{counted})", flush=True
            )
            for problem in result.problems[:5]:
                print(f"  {problem}")
    shared = check_shared(checked, sets)
    for problem in shared:
        print(json.dumps({"ok": False, "problems": [problem]}) if as_json else f"FAILED: {problem}")
    return 1 if failed or shared else 0
