"""Recipes: what is read, what is refused and how it is said, and that every shipped one can be used."""

from __future__ import annotations

import ast
import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tiny import KINDS, REMASK, as_toml, rich, tiny

from outgrow.data.file import find_folder
from outgrow.data.sets import CLUES, SETS
from outgrow.errors import OutgrowError
from outgrow.evaluate.paper import HYPERPARAMETERS, TRAINING_COST
from outgrow.models import MODELS, BinarizedConfig, GroupedConfig, MultivaluedConfig
from outgrow.puzzles import PUZZLES
from outgrow.train import DataRecipe, Recipe, TrainRecipe, load_recipe

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))
SMALL = """
name = "small"
[model]
width = 16
[data]
train = ["sudoku-4-train"]
[train]
lr = 1e-3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def refusal(path: Path, *changes: str) -> str:
    with pytest.raises(OutgrowError) as caught:
        load_recipe(path, changes)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_what_a_file_does_not_say_has_a_default(file: Path) -> None:
    recipe = load_recipe(file)
    assert recipe.name == "small"
    assert recipe.model == BinarizedConfig(width=16)
    assert recipe.data == DataRecipe(train=("sudoku-4-train",))
    assert recipe.train == TrainRecipe(lr=1e-3)
    assert recipe.kind == "binarized"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[train]\nlerning_rate = 1", ("train.lerning_rate: no such key",)),
        ("[train]\nupdate = 5", ("train.update: no such key", "did you mean 'updates'?")),
        ("[model]\nwidht = 5", ("model.widht", "'width'")),
        ("[model]\nmax_values = 5", ("model.max_values",)),  # a binarized model has none
        ("[model]\nknd = 'binarized'", ("model.knd", "'kind'")),
        ("[data]\ntrian = 'a'", ("data.trian", "'train'")),
        ("nmae = 'x'", ("nmae", "'name'")),
        ("[modle]\nwidth = 8", ("modle", "'model'")),
        ("qqqq = 1", ("qqqq: no such key; there are name",)),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(text if "[data]" in text else f"{text}\n[data]\ntrain = ['sudoku-4-train']\n")
    said = refusal(path)
    assert said.startswith(f"{path}: ")
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("train.updates=1.5", "train.updates is 1.5; a whole number is expected"),
        ("train.updates=true", "train.updates is True; a whole number"),
        ("train.lr=fast", "train.lr is 'fast'; a number is expected"),
        ("train.lr=true", "train.lr is True"),
        ("train.lr=nan", "train.lr is nan; a finite number"),
        ("train.lr=inf", "train.lr is inf; a finite number"),
        ("train.lr=1e31", "train.lr is 1e+31; a finite number is expected, at most 1e+30"),
        ("train.weight_decay=-1e31", "train.weight_decay is -1e+31; a finite number"),
        ("train.lr=-1", "train.lr is -1.0; it must be above 0"),
        ("train.lr=0", "train.lr is 0.0"),
        ("train.average=1", "train.average is 1; true or false"),
        ("train.decay=exponential", "train.decay is 'exponential'; there is none, linear, cosine"),
        ("train.decay=1", "train.decay is 1"),
        ("train.decay=[1]", "train.decay is [1]"),
        ("train.precision=fp16", "auto, fp32, bf16"),
        ("train.ema=1", "train.ema is 1.0"),
        ("train.ema=-0.1", "train.ema is -0.1"),
        ("train.updates=0", "train.updates is 0; it must be at least 1"),
        ("train.batch=0", "train.batch is 0"),
        ("train.validate_every=0", "train.validate_every is 0"),
        ("train.log_every=0", "train.log_every is 0"),
        ("train.flat_window=0", "train.flat_window is 0"),
        ("train.seed=-1", "train.seed is -1; it cannot be negative"),
        ("train.patience=-1", "train.patience is -1"),
        ("train.warmup=-1", "train.warmup is -1"),
        ("train.micro_batch=-1", "train.micro_batch is -1"),
        ("train.clip=-1", "train.clip is -1"),
        ("train.recoveries=-1", "train.recoveries is -1"),
        ("train.max_seconds=-1", "train.max_seconds is -1"),
        ("train.start=5", "train.start is 5; text is expected"),
        ("data.train=5", "data.train is 5; a list of names"),
        ("data.train=[1, 2]", "data.train is [1, 2]; a list of names"),
        ("data.train=[]", "data.train names no data set"),
        ("data.limit=-1", "data.limit is -1"),
        ("data.valid_limit=-1", "data.valid_limit is -1"),
        ("data.shares=1", "data.shares is 1; a list of numbers is expected"),
        ("data.shares=often", "data.shares is 'often'; a list of numbers is expected"),
        ("data.shares=['1']", "data.shares is ['1']; a list of numbers is expected"),
        ("data.shares=[true]", "data.shares is [True]; a list of numbers is expected"),
        ("data.shares=[nan]", "data.shares is [nan]; a list of numbers is expected"),
        ("data.shares=[[1]]", "data.shares is [[1]]; a list of numbers is expected"),
        ("data.shares=[1, 2]", "data.shares has 2 numbers; one above 0 for each of 1 sets"),
        ("data.shares=[0]", "data.shares has 1 numbers; one above 0 for each of 1 sets"),
        ("data.shares=[-1.5]", "data.shares has 1 numbers; one above 0"),
        ("data.more_givens=0.5", "data.more_givens is 0.5; two numbers, as in [0.0, 1.0] is expected"),
        ("data.more_givens=[0.5]", "data.more_givens is [0.5]; two numbers"),
        ("data.more_givens=[0, 0.5, 1]", "data.more_givens is [0, 0.5, 1]; two numbers"),
        ("data.more_givens=['a', 'b']", "data.more_givens is ['a', 'b']; two numbers"),
        ("data.more_givens=[0, inf]", "data.more_givens is [0, inf]; two numbers"),
        ("data.more_givens={a=0, b=1}", "data.more_givens is {'a': 0, 'b': 1}; two numbers"),
        ("data.more_givens=[0.5, 0.2]", "data.more_givens is 0.5 to 0.2; shares from 0 to 1, the smaller one first"),
        ("data.more_givens=[-0.1, 0.2]", "data.more_givens is -0.1 to 0.2; shares from 0 to 1"),
        ("data.more_givens=[0, 1.5]", "data.more_givens is 0 to 1.5; shares from 0 to 1"),
        ("data.remask=[0, 2]", "data.remask is 0 to 2; shares from 0 to 1"),
        ("data.remask=[0.6, 0.5]", "data.remask is 0.6 to 0.5; shares from 0 to 1, the smaller one first"),
        ("data.remask=all", "data.remask is 'all'; two numbers"),
        ("data.untouched=1.1", "data.untouched is 1.1; it is a share, from 0 to 1"),
        ("data.untouched=-0.1", "data.untouched is -0.1; it is a share"),
        ("data.untouched=[0, 1]", "data.untouched is [0, 1]; a number is expected"),
        ("train.steps=-1", "train.steps is -1; it cannot be negative"),
        ("train.steps=2.5", "train.steps is 2.5; a whole number is expected"),
        ("train.noise=-0.5", "train.noise is -0.5; it cannot be negative"),
        (
            "train.quiet=0.5",
            "train.quiet is 0.5; it is a share of the puzzles that would start with noise, from 0 to 1",
        ),
        ("train.noise=loud", "train.noise is 'loud'; a number is expected"),
        ("train.free_steps=4", "train.free_steps is 4; two numbers, as in [0, 1] is expected"),
        ("train.free_steps=[1]", "train.free_steps is [1]; two numbers, as in [0, 1] is expected"),
        ("train.free_steps=[0, 1.5]", "train.free_steps is [0, 1.5]; two numbers, as in [0, 1] is expected"),
        ("train.free_steps=[false, true]", "train.free_steps is [False, True]; two numbers"),
        ("train.free_steps=[4, 2]", "train.free_steps is 4 to 2; 0 to 10,000, the smaller one first"),
        ("train.free_steps=[-1, 2]", "train.free_steps is -1 to 2; 0 to 10,000"),
        ("train.free_steps=[0, 10001]", "train.free_steps is 0 to 10001; 0 to 10,000"),
        (f"free_steps=[0, 0x1{'0' * 9000}]", "two numbers, as in [0, 1] is expected"),
        ("model.width=0", "model.width is 0"),
        ("model.width=100000", "model.width is 100000"),
        ("model.steps=-1", "model.steps is -1"),
        ("model.dropout=1", "model.dropout is 1.0"),
        ("model.constraint=max", "model.constraint is 'max'; there is attention, mean"),
        ("model.kind=transformer", "model.kind is 'transformer'; there is binarized, multivalued, grouped"),
        ("model.kind=3", "model.kind is 3"),
        ("name=1", "name is 1; text is expected"),
        ("name=''", "name is ''; it becomes the name of a folder"),
        ("name=../elsewhere", "name is '../elsewhere'"),
        ('name="a\\u0000b"', "name is 'a\\x00b'"),
        (f"lr=1{'0' * 400}", "train.lr is a number of more than 64 bits"),
        (f"lr=0x1{'0' * 9000}", "train.lr is a number of more than 64 bits"),
        (f"warmup=1{'0' * 400}", "train.warmup is a number of more than 64 bits"),
        (f"lr=1{'0' * 5000}", "a number is expected"),
        (f"lr={'[' * 20000}", "a number is expected"),
    ],
    ids=lambda value: value[:40],
)
def test_a_value_of_the_wrong_type_or_size_is_refused(file: Path, change: str, words: str) -> None:
    said = refusal(file, change)
    assert said.startswith(f"{file}: ")
    assert words in said


def test_givens_are_either_added_or_drawn(file: Path) -> None:
    said = refusal(file, "more_givens=[0, 0.5]", "remask=[0.2, 0.5]")
    assert said.startswith(f"{file}: data.remask draws all givens, more_givens adds to those there are")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("heads=0", "model.heads is 0; it goes from 1 to"),
        ("heads=many", "model.heads is 'many'; a whole number is expected"),
        ("layers=2", "no key 'layers'"),
        ("sharpen=true", "no key 'sharpen'"),
    ],
)
def test_a_grouped_model_has_values_of_its_own(tmp_path: Path, change: str, words: str) -> None:
    path = tmp_path / "grouped.toml"
    path.write_text("[model]\nkind = 'grouped'\n[data]\ntrain = 'sudoku-4-train'\n")
    assert load_recipe(path).model == GroupedConfig()
    assert words in refusal(path, change)


def test_a_table_must_be_one(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    for name in ("model", "data", "train"):
        path.write_text(f"{name} = 5\n")
        assert f"{name} is a table, as in [{name}]" in refusal(path)
        assert refusal(path, f"{name}.{'width' if name == 'model' else 'train' if name == 'data' else 'lr'}=1")


@pytest.mark.parametrize(
    "content",
    [
        b"name = ",
        b"[train\nlr = 1",
        b"name = 'a'\nname = 'b'",
        b"\x00\x01\x02",
        b"\xff\xfe name",
        b"a = " + b"[" * 100_000,
        b"a = 1" + b"0" * 5000,
        b'{"name": "json"}',
    ],
    ids=lambda content: repr(content[:20]),
)
def test_a_file_that_is_no_toml_is_refused_in_a_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.toml"
    path.write_bytes(content)
    said = refusal(path)
    assert said.startswith(f"{path}: not a recipe (")


def test_a_file_that_is_missing_a_folder_or_huge_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.toml")
    assert "Is a directory" in refusal(tmp_path)
    huge = tmp_path / "huge.toml"
    with open(huge, "wb") as stream:
        stream.truncate(1 << 32)  # sparse: nobody reads it
    assert refusal(huge) == f"{huge}: too large for a recipe"


def test_set_changes_a_value_by_its_whole_key_or_its_last_part(file: Path) -> None:
    recipe = load_recipe(
        file,
        [
            "train.lr=0.5",
            "batch = 3",
            "width=7",
            "model.dropout=0",
            "valid=sudoku-4-valid",
            'data.train=["a", "b"]',
            "about=two words = one line",
            "decay='cosine'",
            "compile=true",
            "seed=1",
            "seed=2",
            "shares=[1, 2.5]",
            "more_givens = [0, 0.5]",
            "untouched=1",
            "free_steps=[0,12]",
            "train.steps=8",
            "noise=1",
        ],
    )
    assert recipe.train.lr == 0.5
    assert recipe.train.batch == 3
    assert recipe.model == BinarizedConfig(width=7, dropout=0.0)
    assert recipe.data.valid == ("sudoku-4-valid",)
    assert recipe.data.train == ("a", "b")
    assert recipe.about == "two words = one line"
    assert recipe.train.decay == "cosine"
    assert recipe.train.compile is True
    assert recipe.train.seed == 2  # the last word counts
    assert recipe.data.shares == (1.0, 2.5)
    assert recipe.data.more_givens == (0.0, 0.5)
    assert recipe.data.untouched == 1.0
    assert recipe.train.free_steps == (0, 12)
    assert recipe.train.steps == 8
    assert recipe.train.noise == 1.0
    assert [type(n) for n in (*recipe.data.more_givens, *recipe.train.free_steps)] == [float, float, int, int]
    assert recipe.model.steps == 32  # of the two keys of that name, the one that was asked for


def test_set_asks_whose_steps_are_meant(file: Path) -> None:
    assert refusal(file, "steps=8") == "--set steps=8: model.steps or train.steps?"


def test_set_makes_tables_that_the_file_lacks_and_knows_the_kind_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "short.toml"
    path.write_text("name = 'short'\n")
    recipe = load_recipe(path, ["data.train=sudoku-4-train", "kind=multivalued", "max_values=9"])
    assert recipe.model == MultivaluedConfig(max_values=9)
    assert "max_values" in refusal(path, "data.train=sudoku-4-train", "max_values=9")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("lr", "--set lr: write KEY=VALUE"),
        ("=3", "write KEY=VALUE"),
        ("train.rate=3", "no key 'train.rate'"),
        ("lrr=3", "did you mean 'train.lr'?"),
        ("train.update=3", "did you mean 'train.updates'?"),
        ("model.lr=3", "did you mean"),
        ("max_values=3", "no key 'max_values'"),
    ],
)
def test_set_with_a_key_there_is_not_names_the_nearest(file: Path, change: str, words: str) -> None:
    assert words in refusal(file, change)


def test_set_with_a_last_part_that_several_tables_have_asks_which(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from outgrow.train import recipe as module

    keys = ["name", "model.order", "data.order", "train.lr"]
    monkeypatch.setattr(module, "_keys", lambda table: keys)
    assert refusal(file, "order=mean") == "--set order=mean: model.order or data.order?"
    assert load_recipe(file, ["model.order=mean"]).model == BinarizedConfig(width=16, order="mean")
    keys.append("order")
    assert "order: no such key" in refusal(file, "order=mean")  # the whole key goes before a last part


def test_a_recipe_survives_json() -> None:
    recipes = [tiny("multivalued", model={"max_values": 7}, seed=3, decay="cosine"), *map(load_recipe, RECIPES)]
    recipes += [rich(kind) for kind in KINDS]
    recipes.append(rich(data=REMASK))
    for recipe in recipes:
        plain = json.loads(json.dumps(recipe.as_json()))
        assert Recipe.from_json(plain) == recipe
        assert plain["model"]["kind"] == recipe.kind
        assert hash(Recipe.from_json(plain)) == hash(recipe)  # lists became tuples
    plain = rich().as_json()
    assert plain["data"]["shares"] == [3.0, 1.0]
    assert plain["data"]["more_givens"] == [0.1, 0.6]
    assert plain["train"]["free_steps"] == [0, 3]


def test_a_recipe_from_before_there_were_such_keys_means_the_same() -> None:
    new = {
        "data": ["shares", "more_givens", "untouched", "remask"],
        "train": ["steps", "free_steps", "noise"],
    }
    plain = tiny().as_json()
    for part, keys in new.items():
        for key in keys:
            del plain[part][key]
    recipe = Recipe.from_json(plain)
    assert recipe == tiny()
    assert (recipe.data.shares, recipe.data.untouched, recipe.train.steps, recipe.train.noise) == ((), 0.0, 0, 0.0)
    assert recipe.data.more_givens == recipe.data.remask == recipe.train.free_steps == (0, 0)


def test_a_recipe_survives_toml(tmp_path: Path) -> None:
    for recipe in (tiny("multivalued", seed=3), rich(seed=3)):
        (tmp_path / "again.toml").write_text(as_toml(recipe))
        assert load_recipe(tmp_path / "again.toml") == recipe


def test_changed_replaces_values_of_train_and_checks_them() -> None:
    recipe = tiny()
    assert recipe.changed(lr=3.0).train == dataclasses.replace(recipe.train, lr=3.0)
    with pytest.raises(ValueError, match="batch is 0"):
        recipe.changed(batch=0)


def known_sets() -> set[str]:
    clues = {f"sudoku-9-17-{part}" for part, _ in CLUES.counts}
    return set(SETS) | clues


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(ROOT / "recipes")))
def test_every_shipped_recipe_can_be_used(path: Path) -> None:
    recipe = load_recipe(path)
    named = (*recipe.data.train, *recipe.data.valid)
    assert recipe.data.valid
    for name in named:
        assert name in known_sets(), name
        assert name not in SETS or (find_folder() / f"{name}.npz").exists()
    # What it learns from, what chooses the weights and what they are measured on are different sets.
    assert all(name.endswith("-train") for name in recipe.data.train)
    assert all(name.endswith("-valid") for name in recipe.data.valid)
    puzzle = named[0].split("-")[0]
    assert recipe.data.form in PUZZLES[puzzle].forms
    assert recipe.task
    assert recipe.about
    assert recipe.name == "-".join(path.relative_to(ROOT / "recipes").with_suffix("").parts)
    if isinstance(recipe.model, MultivaluedConfig):
        sizes = {SETS[name].settings.size for name in named if name in SETS} or {9}
        assert recipe.model.max_values >= max(sizes)


def test_recipes_start_from_weights_that_another_recipe_makes() -> None:
    recipes = {recipe.name: recipe for recipe in map(load_recipe, RECIPES)}
    assert len(recipes) == len(RECIPES) > 5
    for recipe in recipes.values():
        if recipe.train.start:
            folder, name = Path(recipe.train.start).parts[-2:]
            earlier = recipes[folder.rsplit("-", 1)[0]]
            assert name == "weights.safetensors"
            assert earlier.kind == recipe.kind
            assert earlier.data.form == recipe.data.form


def test_what_a_recipe_file_says_is_what_is_read() -> None:
    for path in RECIPES:
        table: dict[str, Any] = tomllib.loads(path.read_text())
        recipe = load_recipe(path).as_json()
        for part in ("model", "data", "train"):
            for key, value in table.get(part, {}).items():
                assert recipe[part][key] == value, f"{path}: {part}.{key}"


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.name)
def test_the_source_is_python_3_11(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 11))


def test_every_kind_of_model_is_tested() -> None:
    assert tuple(MODELS) == KINDS


@pytest.mark.parametrize("task", ["futoshiki", "coloring", "sudoku"])
@pytest.mark.parametrize("kind", ["binarized", "multivalued"])
def test_the_papers_recipes_are_the_rows_of_its_tables(task: str, kind: str) -> None:
    own = load_recipe(ROOT / "recipes" / "paper" / f"{task}-{kind}.toml")
    ours = load_recipe(ROOT / "recipes" / f"{task}-{kind}.toml")
    row, cost = HYPERPARAMETERS[task, kind], TRAINING_COST[task, kind]
    assert (own.train.batch, own.train.updates) == (row.batch_size, cost.updates)
    for recipe in (own, ours):  # the schedule is ours, the regularization theirs
        assert (recipe.kind, recipe.task) == (kind, task)
        assert (recipe.train.weight_decay, recipe.model.dropout) == (row.weight_decay, row.edge_dropout)
        assert getattr(recipe.model, "orthogonality", None) == row.orthogonality
        assert recipe.train.multiplicity == (task == "coloring")
