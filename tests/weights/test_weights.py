"""Weights come back bit for bit, and a file that is anything else is refused in one line."""

from __future__ import annotations

import json
import math
import os
import pickle
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.graphs import Puzzles, Schema
from outgrow.models import BinarizedConfig, Config, GroupedConfig, Model, MultivaluedConfig, build_model
from outgrow.puzzles import Instance, futoshiki, parse, sudoku
from outgrow.weights import Loaded, load_weights, save_weights
from outgrow.weights.file import read_tensors, write_tensors

SUDOKU = parse("1.....3..4.....2\n.4.1..3..1..2.4.")
FUTOSHIKI = [futoshiki.build(3, np.array([(0, 1), (4, 1)]), np.array([0, 0, 3, 0, 0, 0, 1, 0, 0]))]
INFO = {
    "recipe": {"name": "tiny", "model": {"width": 8}, "about": "ü ∑ 🧩 \"'\\\n"},
    "seed": 3,
    "commit": None,
    "validation": {"board": 0.1 + 0.2, "loss": 1e-300},
    "data": {"sudoku-4-train": {"count": 2000, "sha256": "0" * 64}},
    "flags": [True, False, [], {}],
}
CONFIGS: dict[str, Config] = {
    "binarized": BinarizedConfig(width=8, steps=2),
    "multivalued": MultivaluedConfig(width=8, steps=2, max_values=5),
    "grouped": GroupedConfig(width=8, steps=2),
    "binarized, all else": BinarizedConfig(4, 3, 1, 0.25, "mean", "mean", "attention", share_order=False, sharpen=True),
    "multivalued, all else": MultivaluedConfig(
        7, 4, 3, 2, 2, 0.0, "mean", "attention", "attention", "mean", False, True, 0.5
    ),
    "grouped, all else": GroupedConfig(6, 3, 5, 0.25),
}


def build(config: Config = CONFIGS["binarized"], puzzles: list[Instance] = SUDOKU, seed: int = 0) -> Model:
    torch.manual_seed(seed)
    return build_model(Schema.of(puzzles[0].csp), config)


def bits(tensors: dict[str, Tensor]) -> dict[str, tuple[torch.dtype, tuple[int, ...], bytes]]:
    return {n: (t.dtype, tuple(t.shape), t.detach().contiguous().numpy().tobytes()) for n, t in tensors.items()}


def about_of(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as stored:
        return json.loads(stored.metadata()["outgrow"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A good file."""
    save_weights(tmp_path / "weights.safetensors", build(), INFO)
    return tmp_path / "weights.safetensors"


def rewrite(
    path: Path,
    change: Callable[[dict[str, Any]], None] = lambda about: None,
    tensors: Callable[[dict[str, Tensor]], None] = lambda found: None,
    text: str | None = None,
) -> None:
    """As another program would write it, without a sha256: with other metadata or tensors."""
    found, about = read_tensors(path)
    change(about)
    tensors(found)
    save_file(found, path, {"outgrow": json.dumps(about) if text is None else text})


def refusal(path: Path) -> str:
    with pytest.raises(DamagedFile) as caught:
        load_weights(path)
    line = str(caught.value)
    assert str(path) in line
    assert len(line.splitlines()) == 1
    assert len(line) < len(str(path)) + 400
    return line.removeprefix(f"{path}: ")


def assert_same(loaded: Loaded, model: Model, info: dict[str, Any] = INFO) -> None:
    assert type(loaded.model) is type(model)
    assert (loaded.model.kind, loaded.model.config, loaded.model.schema) == (model.kind, model.config, model.schema)
    assert bits(loaded.model.state_dict()) == bits(model.state_dict())
    assert loaded.model.schema.as_json() == model.schema.as_json()
    assert loaded.info == info


# ---- what comes back


@pytest.mark.parametrize("puzzles", [SUDOKU, FUTOSHIKI], ids=["sudoku", "futoshiki"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_everything_comes_back(tmp_path: Path, config: Config, puzzles: list[Instance]) -> None:
    model = build(config, puzzles)
    path = tmp_path / "new" / "folder" / "weights.safetensors"
    save_weights(path, model, INFO)
    loaded = load_weights(path)
    assert_same(loaded, model)
    assert list(loaded.model.state_dict()) == list(model.state_dict())
    assert not loaded.model.training
    assert {p.device.type for p in loaded.model.parameters()} == {"cpu"}
    assert all(p.requires_grad for p in loaded.model.parameters())
    batch = Puzzles.of_instances(puzzles).batch([0])
    with torch.no_grad():
        first, second = (list(m.run(m.prepare(batch)))[-1] for m in (model.eval(), loaded.model))  # pyright: ignore
    assert torch.equal(first, second)
    assert first.isfinite().all()
    # Saved again, it is the same file, and nothing lies beside it.
    save_weights(tmp_path / "again.safetensors", loaded.model, loaded.info)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    assert [p.name for p in path.parent.iterdir()] == ["weights.safetensors"]


def test_the_forms_of_a_puzzle_are_told_apart(tmp_path: Path) -> None:
    for form in ("nbr", "units"):
        schema = Schema.of(sudoku.build(2, 2, np.zeros(16, dtype=int), form=form).csp)
        save_weights(tmp_path / form, build_model(schema, BinarizedConfig(width=4)), {})
        assert load_weights(tmp_path / form).model.schema == schema


def test_extreme_numbers_come_back(path: Path) -> None:
    model = build()
    odd = torch.tensor([0.0, -0.0, 1e-45, -1e-38, 3.4028235e38, 1 / 3, -1.0, 1.0])
    with torch.no_grad():
        model.score.weight.copy_(odd)
    save_weights(path, model, INFO)
    assert_same(load_weights(path), model)


def test_other_weights_in_place_of_the_models(path: Path) -> None:
    model = build()
    other = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    # Views of other tensors, as averages may be.
    other["inputs.weight"] = torch.arange(64.0).view(8, 8).t()[:3]
    save_weights(path, model, INFO, other)
    assert bits(dict(load_weights(path).model.state_dict())) == bits(other)


def test_any_program_can_read_it(path: Path) -> None:
    with safe_open(path, framework="np") as stored:
        about = json.loads(stored.metadata()["outgrow"])
        assert set(stored.keys()) == set(build().state_dict())
        assert stored.get_tensor("score.weight").shape == (1, 8)
    assert about == {
        "format": 1,
        "kind": "binarized",
        "config": {
            "width": 8,
            "steps": 2,
            "layers": 3,
            "dropout": 0.1,
            "constraint": "attention",
            "order": "attention",
            "relation": "mean",
            "share_order": True,
            "sharpen": False,
        },
        "schema": {
            "constraint": [["row", "neq", False], ["col", "neq", False], ["box", "neq", False]],
            "relation": [["neq", "neq", False]],
            "groups": ["row", "col", "box"],
            "complete": ["neq"],
        },
        "info": INFO,
        "sha256": about["sha256"],
    }
    assert len(about["sha256"]) == 64


def test_a_loaded_model_and_its_file_are_apart(path: Path) -> None:
    before = path.read_bytes()
    loaded = load_weights(path)
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            parameter.add_(1)
    assert path.read_bytes() == before
    assert_same(load_weights(path), build())
    loaded = load_weights(path)
    with open(path, "r+b") as stream:  # copied over, not replaced
        stream.write(bytes(len(before)))
    assert_same(loaded, build())


def test_a_file_without_a_sha256_is_taken(path: Path) -> None:
    rewrite(path)
    assert_same(load_weights(path), build())


def test_a_configuration_may_leave_out_defaults(path: Path) -> None:
    rewrite(path, lambda about: about["config"].pop("dropout"))
    assert_same(load_weights(path), build())


def test_files_from_before_there_were_groups_are_read(path: Path) -> None:
    """Models over edges need none, so the weights are as good as ever."""

    def change(about: dict[str, Any]) -> None:
        del about["schema"]["groups"], about["schema"]["complete"], about["config"]["sharpen"]

    rewrite(path, change)
    loaded = load_weights(path).model
    assert loaded.schema == build().schema
    assert loaded.schema.groups == loaded.schema.complete == ()
    assert bits(dict(loaded.state_dict())) == bits(dict(build().state_dict()))


SHIPPED = sorted((Path(__file__).parents[2] / "src" / "outgrow" / "weights").glob("*.safetensors"))


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_the_weights_behind_published_figures_are_read(path: Path) -> None:
    """Whatever the format has become since."""
    loaded = load_weights(path)
    assert loaded.info["recipe"]["model"]["kind"] == loaded.model.kind


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"groups": ["row", "box"]}, "members.weight is 48x8, its configuration says 36x8"),
        ({"groups": ["row", "col", "cell"]}, "update.hear.weight is 32x40, its configuration says 32x48"),
        ({"groups": []}, "members.weight is 48x8, its configuration says 12x8"),
        ({"groups": None}, "members.weight is 48x8, its configuration says 12x8"),
        ({"complete": []}, "update.hear.weight is 32x40, its configuration says 32x48"),
    ],
)
def test_a_grouped_model_needs_to_know_its_groups(path: Path, change: dict[str, Any], line: str) -> None:
    save_weights(path, build(CONFIGS["grouped"]), INFO)
    (key,) = change

    def spoil(about: dict[str, Any]) -> None:
        del about["schema"][key]  # as in files from before there were groups
        about["schema"].update({} if change[key] is None else change)

    rewrite(path, spoil)
    assert refusal(path) == f"does not fit a model ({line})"


# ---- precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("some", [True, False])
def test_other_precisions_are_computed_with_in_float32(path: Path, dtype: torch.dtype, some: bool) -> None:
    def change(found: dict[str, Tensor]) -> None:
        for name in found:
            if not some or "weight" in name:
                found[name] = found[name].to(dtype)

    rewrite(path, tensors=change)
    stored = read_tensors(path)[0]
    assert dtype in {t.dtype for t in stored.values()}
    model = load_weights(path).model
    assert bits(dict(model.state_dict())) == bits({n: stored[n].float() for n in model.state_dict()})
    with torch.no_grad():
        *_, scores = model.run(model.prepare(Puzzles.of_instances(SUDOKU).batch([0, 1])))  # pyright: ignore
    assert scores.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.int32, torch.int8, torch.bool, torch.complex64])
def test_what_is_no_real_number_is_refused(path: Path, dtype: torch.dtype) -> None:
    rewrite(path, tensors=lambda found: found.update({"score.weight": found["score.weight"].to(dtype)}))
    assert str(dtype) in refusal(path)
    assert "score.weight" in refusal(path)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_what_is_no_number_is_refused(path: Path, number: float, dtype: torch.dtype) -> None:
    def change(found: dict[str, Tensor]) -> None:
        found["update.hear.weight"][3, 5] = number
        found["update.hear.weight"] = found["update.hear.weight"].to(dtype)

    rewrite(path, tensors=change)
    assert refusal(path) == "does not fit a model (update.hear.weight holds NaN or infinity)"


def test_what_does_not_fit_float32_is_refused(path: Path) -> None:
    rewrite(path, tensors=lambda found: found.update({"score.bias": torch.tensor([1e300], dtype=torch.float64)}))
    assert "score.bias holds NaN or infinity" in refusal(path)


# ---- damage


def test_a_cut_file_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    lengths = {0, 1, 7, 8, 9, header - 1, header, header + 1, len(whole) - 4, len(whole) - 1}
    for length in sorted(lengths | set(range(0, len(whole), len(whole) // 40))):
        path.write_bytes(whole[:length])
        assert refusal(path).startswith("not a safetensors file, or damaged"), length
    path.write_bytes(whole + b"\0")
    refusal(path)


def test_a_changed_byte_is_refused_or_changes_nothing(path: Path) -> None:
    model = build()
    whole = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(whole[:8], "little")
    refused = 0
    places = [*range(0, header, 17), *range(header, len(whole), len(whole) // 100)]
    for n, place in enumerate(places):
        changed = whole.copy()
        changed[place] ^= 1 << n % 8
        path.write_bytes(changed)
        try:
            loaded = load_weights(path)
        except DamagedFile as error:
            assert len(str(error).splitlines()) == 1
            refused += 1
        else:
            assert_same(loaded, model)
            assert place < header  # in the name of the sha256, say
    assert refused > 0.97 * len(places)


def test_changed_weights_and_changed_metadata_are_named_as_damage(path: Path) -> None:
    whole = path.read_bytes()
    for changed in (whole[:-1] + bytes([whole[-1] ^ 1]), whole.replace(b'\\"steps\\": 2', b'\\"steps\\": 9')):
        assert changed != whole
        path.write_bytes(changed)
        assert refusal(path) == "damaged (its content does not match its sha256)"


def test_tensors_that_changed_names_or_types_are_damage(path: Path) -> None:
    # Same shapes: nothing but the sha256 can tell.
    whole = path.read_bytes()
    changed = whole.replace(b"rest.0.bias", b"rest.?.bias").replace(b"rest.1.bias", b"rest.0.bias")
    path.write_bytes(changed.replace(b"rest.?.bias", b"rest.1.bias"))
    assert refusal(path) == "damaged (its content does not match its sha256)"
    # The same bits as another kind of number.
    write_tensors(path, {"a": torch.ones(4, dtype=torch.float16)}, {})
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = whole[8 : 8 + length].replace(b'"F16"', b'"BF16"')
    path.write_bytes(len(header).to_bytes(8, "little") + header + whole[8 + length :])
    with pytest.raises(DamagedFile, match="does not match its sha256"):
        read_tensors(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a safetensors file"),
        (b"{}", "not a safetensors file"),
        (b"PK\x03\x04" + bytes(100), "not a safetensors file"),
        (b"\xff" * 100, "not a safetensors file"),
        ((1 << 40).to_bytes(8, "little") + b"{" * 100, "not a safetensors file"),
        ((2).to_bytes(8, "little") + b"{}", "not written by outgrow"),
        ((100_000).to_bytes(8, "little") + b"[" * 100_000, "not a safetensors file"),
    ],
)
def test_other_files_are_refused(path: Path, content: bytes, words: str) -> None:
    path.write_bytes(content)
    assert words in refusal(path)


def test_a_pickle_is_refused_and_not_run(path: Path, tmp_path: Path) -> None:
    torch.save(build().state_dict(), path)
    assert "not a safetensors file" in refusal(path)

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    path.write_bytes(pickle.dumps(Trap()))
    refusal(path)
    torch.save(Trap(), path)
    refusal(path)
    assert not (tmp_path / "sprung").exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere.safetensors") == "no such file"
    assert refusal(tmp_path) == "not a file"
    os.mkfifo(tmp_path / "pipe")
    held = os.open(tmp_path / "pipe", os.O_RDWR)  # else a fault would hang here
    try:
        assert refusal(tmp_path / "pipe") == "not a file"
    finally:
        os.close(held)
    (tmp_path / "file").write_bytes(b"")
    refusal(tmp_path / "file" / "beyond.safetensors")
    refusal(tmp_path / ("long" * 100))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refusal(tmp_path / "loop")


def test_a_file_that_cannot_be_read_is_refused(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path.chmod(0)
    refusal(path)


def test_a_huge_file_is_refused_before_it_is_read(path: Path) -> None:
    with open(path, "r+b") as stream:
        stream.truncate((1 << 30) + 1)
    assert refusal(path) == "1,073,741,825 bytes; the limit is 1,073,741,824"


def test_a_checkpoint_is_told_apart(path: Path) -> None:
    write_tensors(path, {"weights/a": torch.zeros(1)}, {"checkpoint": 1, "progress": {}})
    assert "a checkpoint" in refusal(path)


# ---- metadata that fits no model


def test_a_plain_safetensors_file_is_refused(path: Path) -> None:
    save_file(build().state_dict(), path)
    assert refusal(path) == "not written by outgrow (its metadata does not say which model it is)"
    save_file(build().state_dict(), path, {"format": "pt"})
    assert "not written by outgrow" in refusal(path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '"text"', "\0", "[" * 100_000, '{"a":' * 100_000, "9" * 10_000]
)
def test_metadata_that_is_no_table_is_refused(path: Path, text: str) -> None:
    rewrite(path, text=text)
    assert "not written by outgrow" in refusal(path)


@pytest.mark.parametrize("number", [0, 2, "1", None, 10**4000, [[]], 1.5], ids=lambda n: str(n)[:9])
def test_another_format_is_refused(path: Path, number: Any) -> None:
    rewrite(path, lambda about: about.update(format=number))
    assert refusal(path) == "another format; this version reads format 1"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "transformer"}, "no model 'transformer'; there is binarized, multivalued, grouped"),
        ({"kind": ["binarized"]}, "no model"),
        ({"kind": {}}, "no model"),
        ({"kind": "x" * 10**6}, "no model 'xxx"),
        ({"kind": "a\nb\n"}, "no model"),
        ({"kind": "multivalued"}, "sharpen: no such key"),  # another model's configuration
        ({"kind": "grouped"}, "layers: no such key"),
        ({"kind": "multivalued", "config": {"width": 8}}, "is missing"),
        ({"kind": "grouped", "config": {}}, "inputs.weight is 3x8, its configuration says 3x96"),
        ({"kind": "grouped", "config": {"width": 8}}, "is missing"),
        ({"kind": "grouped", "config": {"heads": 0}}, "heads is 0; it goes from 1 to 256"),
        ({"kind": "grouped", "config": {"heads": 257}}, "heads is 257; it goes from 1 to 256"),
        ({"kind": "grouped", "config": {"layers": 1}}, "layers: no such key"),  # of an earlier form
        ({"kind": "grouped", "config": {"pooling": "max"}}, "pooling: no such key"),
        ({"config": []}, "no config"),
        ({"config": None}, "no config"),
        ({"schema": []}, "no schema"),
        ({"info": [["a", 1]]}, "no info"),
        ({"info": "text"}, "no info"),
        ({"config.wide": 8}, "wide: no such key; did you mean 'width'?"),
        ({"config.a\nb": 8}, "no such key"),
        ({"config.width": "8"}, "width is '8'; a whole number is expected"),
        ({"config.width": 8.0}, "width is 8.0; a whole number"),
        ({"config.width": True}, "width is True; a whole number"),
        ({"config.width": None}, "width is None; a whole number"),
        ({"config.width": [8]}, "width is [8]; a whole number"),
        ({"config.width": 10**9}, "width is 1000000000; it goes from 1 to 4096"),
        ({"config.width": 10**4000}, "width is "),
        ({"config.width": 0}, "width is 0"),
        ({"config.width": -8}, "width is -8"),
        ({"config.layers": 10**9}, "layers is"),
        ({"config.steps": 10**9}, "steps is"),
        ({"config.steps": 0}, "steps is 0"),
        ({"config.dropout": "0"}, "dropout is '0'; a number is expected"),
        ({"config.dropout": 1.0}, "dropout is 1.0"),
        ({"config.dropout": math.nan}, "dropout is nan; a finite number"),
        ({"config.dropout": -math.inf}, "dropout is -inf; a finite number"),
        ({"config.dropout": 10**400}, ""),
        ({"config.constraint": "sum"}, "constraint is 'sum'; there is attention, mean"),
        ({"config.constraint": []}, "constraint is []"),
        ({"config.share_order": 1}, "share_order is 1; true or false is expected"),
        ({"config.max_values": 5}, "max_values: no such key"),
        ({"config.width": 9}, "its configuration says 9x18"),
        ({"config.layers": 4}, "rest.3.weight is missing"),
        ({"config.layers": 2}, "rest.2.bias belongs to no part of it"),
        ({"config.relation": "attention"}, "is missing"),
    ],
)
def test_metadata_that_fits_no_model_is_refused(path: Path, changes: dict[str, Any], words: str) -> None:
    def change(about: dict[str, Any]) -> None:
        for key, value in changes.items():
            within, _, last = key.rpartition(".")
            (about[within] if within else about)[last] = value

    rewrite(path, change)
    line = refusal(path)
    assert line.startswith("does not fit a model (")
    assert words in line


@pytest.mark.parametrize("key", ["format", "kind", "config", "schema", "info"])
def test_metadata_that_lacks_something_is_refused(path: Path, key: str) -> None:
    rewrite(path, lambda about: about.pop(key))
    assert {"format": "format", "kind": "no model"}.get(key, f"no {key}") in refusal(path)


def nest(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


ROW = ["row", "neq", False]
UNITS = {
    "constraint": [ROW, ["col", "neq", False], ["box", "neq", False]],
    "relation": [["neq", "neq", False]],
    "groups": ["row", "col", "box"],
    "complete": ["neq"],
}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"constraint": []},
        {"constraint": [], "relation": []},
        {"constraint": None, "relation": None},
        {"constraint": 7, "relation": 7},
        {"constraint": "row", "relation": "neq"},
        {"constraint": ["row"], "relation": ["neq"]},
        {"constraint": [ROW[:2]], "relation": []},
        {"constraint": [[*ROW, 1]], "relation": []},
        {"constraint": [["row", "neq", "no"]], "relation": []},
        {"constraint": [["a.b", "neq", False]], "relation": [["neq", "neq", False]]},
        {"constraint": [["", "", False]], "relation": [["", "", False]]},
        {"constraint": [[1, 2, 3]], "relation": []},
        {"constraint": [[nest(300)] * 3], "relation": []},
        {"constraint": nest(900), "relation": []},
        {"constraint": {"row": ROW}, "relation": []},
        {"constraint": [[f"row{i}", "neq", False] for i in range(100_000)], "relation": []},
        {"constraint": [ROW], "relation": [["neq", "neq", False]]},
        {"constraint": [ROW, ROW, ROW], "relation": [["neq", "neq", False]]},
        {"constraint": [["box", "neq", False], ROW], "relation": [["neq", "neq", False]]},
        {"constraint": [ROW, ["col", "neq", False], ["box", "neq", False]], "relation": []},
        {"constraint": [ROW, ["col", "neq", False], ["box", "neq", False]], "relation": ["neq"], "more": 1},
        {**UNITS, "more": []},
        *(
            {**UNITS, key: wrong}
            for key in ("groups", "complete")
            for wrong in (
                None,
                7,
                True,
                "row",
                {},
                {"row": 1},
                [1],
                [None],
                [["row"]],
                [["row", "neq", False]],
                nest(900),
                [f"row{i}" for i in range(100_000)],
            )
        ),
    ],
    ids=lambda schema: str(schema)[:40],
)
def test_a_schema_that_is_none_or_another_is_refused(path: Path, schema: Any) -> None:
    rewrite(path, lambda about: about.update(schema=schema))
    assert refusal(path).startswith("does not fit a model (")


def test_the_schema_that_others_are_made_of_is_taken(path: Path) -> None:
    """Else the test above could not fail."""
    rewrite(path, lambda about: about.update(schema=UNITS))
    assert_same(load_weights(path), build())


def test_names_and_words_are_those_of_the_schema(path: Path) -> None:
    # Relation edges may share a function of the same name: only the types tell the difference.
    rewrite(path, lambda about: about["schema"].update(relation=[["neq", "neq", 0]]))
    assert load_weights(path).model.schema.relation[0].reverse is False
    rewrite(path, lambda about: about["schema"].update(relation=["neq"]))
    assert "schema" in refusal(path)
    rewrite(path, lambda about: about["schema"].update(relation=[["neq", "neq", "false"]]))
    assert "its schema is no list of edge types" in refusal(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: found.pop("score.bias"), "score.bias is missing"),
        (lambda found: found.update(more=torch.zeros(1)), "more belongs to no part of it"),
        (lambda found: found.update({"score.bias": torch.zeros(2)}), "score.bias is 2, its configuration says 1"),
        (lambda found: found.update({"score.bias": torch.tensor(1.0)}), "score.bias is a number"),
        (
            lambda found: found.update({"score.weight": torch.zeros(8, 1)}),
            "score.weight is 8x1, its configuration says 1x8",
        ),
        (lambda found: found.update({"score.weight": torch.zeros(0, 8)}), "score.weight is 0x8"),
        (lambda found: found.clear(), "is missing"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(path: Path, change: Any, words: str) -> None:
    rewrite(path, tensors=change)
    assert words in refusal(path)


def test_nothing_is_allocated_for_a_configuration_that_does_not_fit(path: Path) -> None:
    rewrite(path, lambda about: about["config"].update(width=2048, layers=8))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "its configuration says" in refusal(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kB, bytes on a Mac
    assert grown * (1 if sys.platform == "darwin" else 1024) < 10**8  # the model would take 7 * 10**8


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.sampled_from(["kind", "config", "schema", "info"])
    | st.tuples(st.just("config"), st.sampled_from(["width", "steps", "dropout", "order", "share_order", "", "x"]))
    | st.tuples(st.just("schema"), st.sampled_from(["constraint", "relation", "groups", "complete"])),
    value=JSON,
)
def test_whatever_the_metadata_says_loads_or_is_refused_in_a_line(tmp_path: Path, place: Any, value: Any) -> None:
    path = tmp_path / "any.safetensors"
    model = build()
    save_weights(path, model, INFO)

    def change(about: dict[str, Any]) -> None:
        if isinstance(place, tuple):
            about[place[0]][place[1]] = value
        else:
            about[place] = value

    rewrite(path, change)
    try:
        loaded = load_weights(path)
    except DamagedFile:
        refusal(path)
    else:
        assert bits(dict(loaded.model.state_dict())) == bits(dict(model.state_dict()))


# ---- writing


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("call", ["replace", "fsync"])
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "stopped"]
)
def test_a_write_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(f"outgrow.writing.os.{call}", failing(error))
        with pytest.raises((OutgrowError, KeyboardInterrupt)) as caught:
            save_weights(path, build(seed=1), INFO)
    if isinstance(error, OSError):
        assert str(caught.value) == f"{path}: cannot be written (No space left on device)"
    else:
        assert caught.value is error
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["weights.safetensors"]


def test_the_old_file_is_whole_until_the_new_one_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    replace = os.replace

    def look(source: Path, target: Path) -> None:
        assert path.read_bytes() == before
        assert_same(load_weights(source), build(seed=1), {})
        assert source.parent == target.parent  # a rename within one file system
        assert source.name.startswith(".")
        replace(source, target)

    monkeypatch.setattr("outgrow.writing.os.replace", look)
    save_weights(path, build(seed=1), {})
    assert_same(load_weights(path), build(seed=1), {})


def test_what_cannot_be_written_is_said_in_a_line(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    for place in (path / "within.safetensors", tmp_path):
        with pytest.raises(OutgrowError, match="cannot be written") as caught:
            save_weights(place, build(), INFO)
        assert str(place) in str(caught.value)
    with pytest.raises(TypeError):
        save_weights(path, build(seed=1), {"recipe": object()})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["weights.safetensors"]


def test_any_tensor_can_be_kept(tmp_path: Path) -> None:
    """Checkpoints hold counts, empty and single numbers too."""
    tensors = {
        "number": torch.tensor(7.5),
        "empty": torch.zeros(0, 3),
        "whole": torch.arange(5),
        "yes": torch.tensor([True, False]),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "turned": torch.arange(6.0).view(2, 3).t(),
    }
    about: dict[Any, Any] = {"loss": math.inf, 3: (1, 2), "third": np.float64(1 / 3)}
    write_tensors(tmp_path / "a", tensors, about)
    found, about = read_tensors(tmp_path / "a")
    assert about == {"loss": math.inf, "3": [1, 2], "third": 1 / 3}
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
