"""benchmarks/engine.py: it times what it says, counts arithmetic as it is done, and goes on whatever happens to a case."""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from benchmark_files import load_benchmark
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from outgrow.errors import OutgrowError
from outgrow.kernels import use_engine
from outgrow.train.replay import Replay

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("torch_geometric")

MODELS, PUZZLES = ("binarized", "multivalued", "grouped"), ("sudoku", "futoshiki", "coloring")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def cases() -> ModuleType:
    return load_benchmark("engine_cases")


@pytest.fixture(scope="module")
def work(cases: ModuleType) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load_benchmark("peer")
    load_benchmark("cost")
    load_benchmark("engine_flops")
    return load_benchmark("engine_work")


@pytest.fixture(scope="module")
def report(cases: ModuleType) -> ModuleType:
    return load_benchmark("engine_report")


@pytest.fixture(scope="module")
def engine(report: ModuleType) -> ModuleType:
    return load_benchmark("engine")


class Recorded:
    """In place of a CUDA graph: the work done again, with its results in the tensors of the first time."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work, self.result, self.times = work, work(), 0

    def replay(self) -> None:
        self.times += 1
        again = self.work()
        pairs = ((self.result, again),) if isinstance(again, Tensor) else zip(self.result, again, strict=True)
        for old, new in pairs:
            if isinstance(old, Tensor):
                old.data.copy_(new.data)


@pytest.fixture
def pretend(work: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """As on a GPU: half precision, compiled steps, recordings, of which there is a list."""
    recordings: list[Recorded] = []

    def capture(self: Replay, work: Callable[[], Any]) -> tuple[Recorded, Any]:
        self._clear()
        recordings.append(Recorded(work))
        return recordings[-1], recordings[-1].result

    monkeypatch.setattr(Replay, "_capture", capture)
    monkeypatch.setattr(work, "is_gpu", lambda device: True)
    return recordings


@pytest.fixture
def interpreter() -> None:
    """Fused kernels on the CPU."""
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("Triton interprets kernels where there is no GPU")


def tiny(cases: ModuleType, **more: Any) -> Any:
    return cases.How(**{"device": "cpu", "threads": 1, "least": 0.0, "width": 8, "steps": 2, "nodes": 12, **more})


def collect(call: Callable[..., None], *arguments: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a case told: everything in one, and a list of those things that it tells several times."""
    told: list[dict[str, Any]] = []
    call(*arguments, told.append)
    several = [words[key] for words in told for key in ("try", "check") if key in words]
    return {key: value for words in told for key, value in words.items()}, several


# ---- Cases


def test_what_matters_most_comes_first(cases: ModuleType) -> None:
    found = [case.name for case in cases.plan("cuda")]
    assert found[:4] == ["card peak", "binarized-sudoku-9 train pyg-bf16", "binarized-sudoku-9 train fused", found[3]]
    assert "binarized-sudoku-24@8 train fused" in found[:8]
    assert len(found) == len(set(found))
    wanted = {
        "-".join((m, p))
        for m in MODELS
        for p in ("sudoku-9", "sudoku-16", "sudoku-24", "futoshiki-6", "futoshiki-12", "coloring-4", "coloring-7")
    }
    for way, mode in itertools.product(("pyg-bf16", "pyg-fp32", "reference", "compiled", "fused"), ("train", "infer")):
        assert {f"{target} {mode} {way}" for target in wanted} <= set(found)
    on_cpu = cases.plan("cpu")
    compiled = {(f"{m}-sudoku-9", "compiled-fp32", 1) for m in MODELS}
    assert {(case.target, case.way, case.fixed) for case in on_cpu if case != cases.CARD} == compiled | {
        (f"{m}-{p}", way, 1)
        for m in MODELS
        for p in ("sudoku-9", "sudoku-16", "sudoku-25", "futoshiki-6", "futoshiki-12", "coloring-4", "coloring-7")
        for way in ("blocks", "reference", "pyg-fp32")
    }


def test_cases_are_chosen_by_name(cases: ModuleType) -> None:
    known = cases.plan("cuda")

    def names(*arguments: Any) -> list[str]:
        return [case.name for case in cases.choose(known, *arguments)]

    assert names((), (), ()) == [case.name for case in known]
    assert names(["grouped-sudoku-9"], ["infer"], ["fused"]) == ["card peak", "grouped-sudoku-9 infer fused"]
    assert names(["grouped-sudoku-9@5"], ["train"], ["fused"]) == ["card peak", "grouped-sudoku-9@5 train fused"]
    some = names(["grouped-*", "binarized-sudoku-9"], ["train"], ["fused"])
    assert some[:2] == ["card peak", "binarized-sudoku-9 train fused"]
    assert len(some) == 2 + 7
    for name in ("grouped-sudoku-5", "grouped-sudoku-9@", "grouped-sudoku-9@0", "grouped-sudoku-9@-1"):
        with pytest.raises(OutgrowError, match=name):
            names([name], (), ())


# ---- Work


@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("way", ["pyg-bf16", "pyg-fp32", "reference"])
def test_every_way_is_timed(
    cases: ModuleType, work: ModuleType, pretend: list[Recorded], model: str, mode: str, way: str
) -> None:
    case = cases.Case(f"{model}-futoshiki-4", mode, way, 2)
    about, tries = collect(work.measure_case, case, tiny(cases, since=time.time() - 5))
    assert (about["stopped"], about["steps"]) == ("fixed", 2)
    assert 5 < about["startup_seconds"] < 60
    (found,) = tries
    assert found["batch"] == 2
    assert found["puzzles_per_second"] == pytest.approx(2 / found["seconds"])
    assert found["mib_per_puzzle"] == pytest.approx(found["peak_gib"] * 512)
    assert not pretend


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(("model", "mode"), [("multivalued", "train"), ("multivalued", "infer"), ("grouped", "infer")])
def test_the_fused_way_is_timed_and_recorded(
    cases: ModuleType, work: ModuleType, pretend: list[Recorded], monkeypatch: pytest.MonkeyPatch, model: str, mode: str
) -> None:
    from outgrow.kernels import fused

    calls: list[int] = []
    update = fused.update_states
    monkeypatch.setattr(fused, "update_states", lambda *a: calls.append(1) or update(*a))
    about, tries = collect(
        work.measure_case, cases.Case(f"{model}-coloring-4", mode, "fused", 1), tiny(cases, steps=1, nodes=6)
    )
    assert about["stopped"] == "fixed", about
    assert len(tries) == 1
    assert calls
    assert [recording.times for recording in pretend] == [1, 2]  # to load the libraries; to warm up, and timed


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_steps_are_compiled_anew_for_every_batch(
    cases: ModuleType, work: ModuleType, pretend: list[Recorded], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda step: compiled.append(step) or step)
    monkeypatch.setattr(work, "MOST", 4)
    monkeypatch.setattr(work, "GAIN", 0.0)
    case = cases.Case("binarized-sudoku-4", mode, "compiled-recorded")
    about, tries = collect(work.measure_case, case, tiny(cases, start=2))
    assert (about["stopped"], [t["batch"] for t in tries]) == ("large enough", [2, 4])
    assert len(pretend) == 3
    assert len(compiled) == 3  # one to load the libraries


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("mode", ["train", "infer", "check"])
@pytest.mark.parametrize("model", MODELS)
def test_all_of_it_on_a_gpu(
    cases: ModuleType, work: ModuleType, monkeypatch: pytest.MonkeyPatch, model: str, mode: str
) -> None:
    monkeypatch.setattr(work, "MOST", 4)
    how = tiny(cases, device="cuda", width=32, start=2)
    for way in cases.WAYS if mode != "check" else ["fused"]:
        case = cases.Case(f"{model}-futoshiki-4", mode, way)
        about, found = collect(work.check_case if mode == "check" else work.measure_case, case, how)
        assert found
        assert about.get("stopped", "no gain") in ("no gain", "large enough"), about
        assert [c for c in found if not c.get("agrees", True)] == []
        assert all(f.get("peak_gib", 1) > 0 for f in found)


def test_an_update_learns_and_its_recording_learns_the_same(
    cases: ModuleType, work: ModuleType, pretend: list[Recorded]
) -> None:
    """All ways minimize the same loss from the same weights."""
    setup = work.Setup.of(cases.Case("grouped-sudoku-4", "train"), tiny(cases))
    losses: dict[str, list[float]] = {}
    for way in ("pyg-fp32", "pyg-bf16", "reference"):
        update = work.make_work(setup, cases.Case("grouped-sudoku-4", "train", way), cases.WAYS[way], 6, CPU)
        losses[way] = [update(0) for _ in range(12)]
        assert losses[way][-1] < losses[way][0]
    recorded = cases.Way(recorded=True)
    update = work.make_work(setup, cases.Case("grouped-sudoku-4", "train"), recorded, 6, CPU)
    losses["recorded"] = [update(0) for _ in range(12)]
    assert len(pretend) == 1
    for way in ("pyg-bf16", "reference", "recorded"):
        assert losses[way] == pytest.approx(losses["pyg-fp32"], rel=2e-2)


def test_scores_are_those_of_the_peer(cases: ModuleType, work: ModuleType, pretend: list[Recorded]) -> None:
    for model in MODELS:
        case = cases.Case(f"{model}-coloring-3", "infer")
        setup = work.Setup.of(cases.Case(f"{model}-coloring-4", "infer"), tiny(cases))
        ways = [cases.Way(peer=True, half=False), cases.Way(half=False), cases.Way(half=False, recorded=True)]
        scores = [work.make_work(setup, case, way, 3, CPU)(2) for way in ways]
        assert scores[0].shape == (36, 4)
        for found in scores[1:]:
            torch.testing.assert_close(found, scores[0], rtol=1e-4, atol=1e-5)


def test_recipes_say_what_is_measured(cases: ModuleType, work: ModuleType) -> None:
    how = cases.How(device="cpu", nodes=20)
    found = {
        name: work.Setup.of(cases.Case(name, "train"), how)
        for name in ("binarized-sudoku-9", "binarized-futoshiki-6", "grouped-coloring-7", "multivalued-sudoku-24")
    }
    board, signs, graph, large = found.values()
    assert (board.config.width, board.config.layers, board.config.dropout, board.steps) == (96, 3, 0.1, 32)
    assert (board.config.constraint, board.config.relation, signs.config.constraint) == (
        "attention",
        "attention",
        "mean",
    )
    assert (graph.steps, work.Setup.of(cases.Case("grouped-coloring-7", "infer"), how).steps) == (12, 32)
    assert large.config.max_values >= 24
    assert set(graph.puzzles.num_variables) == {20}
    assert (board.batch(100, CPU).indices == [*range(64), *range(36)]).all()


def test_graphs_to_color(work: ModuleType) -> None:
    puzzles = work.draw_graphs(7, 100)
    edges = [len(csp.pairs["edge"]) / 100 for csp in puzzles.csps]  # both directions
    assert sum(edges) / len(edges) == pytest.approx(20, rel=0.05)
    batch = puzzles.batch([3])
    assert batch.sizes == ((100, 7),)
    known = batch.givens > 0
    assert 0.3 < known.float().mean() < 0.7
    assert torch.equal(batch.givens[known], batch.solutions[known])
    pairs = torch.tensor(puzzles.csps[3].pairs["edge"].tolist())
    assert (batch.solutions[pairs[:, 0]] != batch.solutions[pairs[:, 1]]).all()


# ---- Arithmetic


@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize("puzzle", PUZZLES)
@pytest.mark.parametrize("model", MODELS)
def test_arithmetic_is_counted_as_it_is_done(
    cases: ModuleType, work: ModuleType, monkeypatch: pytest.MonkeyPatch, model: str, puzzle: str, mode: str
) -> None:
    """By what PyTorch counts of the reference, which computes padding as well; what does not grow with the batch cancels out."""
    monkeypatch.setattr(sys.modules["engine_flops"], "count_entries", lambda neighbors: neighbors.source.numel())
    monkeypatch.setattr("outgrow.models.layers._MULTIPLE", 1)  # columns of zeros are not asked for
    setup = work.Setup.of(cases.Case(f"{model}-{puzzle}-4", mode), tiny(cases, steps=3))
    network = setup.build(CPU).train(mode == "train")
    done, counted = [], []
    product = {torch.ops.aten.mv: lambda a, b, *more, **options: 2 * a[0] * a[1]}
    for size in (1, 3):
        batch = setup.puzzles.batch([0] * size)
        counter = FlopCounterMode(display=False, custom_mapping=product)
        with counter, torch.no_grad(), use_engine("reference"):
            list(network.run(network.prepare(batch), 3))
        done.append(counter.get_total_flops())
        counted.append(work.count_flops(network, batch, 3))
    assert counted[1] - counted[0] == (done[1] - done[0]) * (3 if mode == "train" else 1)


def test_arithmetic_by_hand(cases: ModuleType, work: ModuleType) -> None:
    """4x4 Sudoku of the binarized model, one step at width 8: 64 nodes, 7 neighbors each over constraint edges, 3 over relation edges."""
    setup = work.Setup.of(cases.Case("binarized-sudoku-4", "infer"), tiny(cases))
    square, nodes = 2 * 8 * 8, 64
    first = 2 * 2 * (nodes * square + 2 * nodes * 8)  # two types, two ends, with attention
    last, update, score = 2 * nodes * square, nodes * 4 * 2 * 8 * (2 * 8 + 8 + 8), 2 * nodes * 8
    for training, middle, behind in ((False, 2, last), (True, 3, 0)):  # dropout keeps the last layer on the edges
        step = first + middle * nodes * (7 + 3) * square + behind + update + score
        model = setup.build(CPU).train(training)
        assert work.count_flops(model, setup.batch(1, CPU), 1) == step * (3 if training else 1)


def test_padding_is_not_counted(cases: ModuleType, work: ModuleType) -> None:
    setup = work.Setup.of(cases.Case("binarized-futoshiki-4", "infer"), tiny(cases))
    batch = setup.batch(5, CPU)
    signs = [len(setup.puzzles.csps[i].pairs["less"]) for i in range(5)]
    less = next(
        n for n, kind in zip(batch.constraint, setup.puzzles.schema.constraint, strict=True) if kind.name == "less"
    )
    assert sys.modules["engine_flops"].count_entries(less) == sum(signs) < less.source.numel()


# ---- Measuring


def test_batches_double_while_that_gains(work: ModuleType) -> None:
    def run(rates: dict[int, float | None], start: int = 4, least: int = 1, most: int = 64) -> tuple[str, list[int]]:
        tried: list[int] = []
        return work.search(lambda batch: tried.append(batch) or rates[batch], start, least, most), tried

    assert run({4: 10, 8: 18, 16: 18.5}) == ("no gain", [4, 8, 16])
    assert run({4: 10, 8: 18, 16: 5}) == ("no gain", [4, 8, 16])
    assert run({4: 10, 8: 18, 16: None}) == ("out of memory", [4, 8, 16])
    assert run({4: 1, 8: 2, 16: 4, 32: 8, 64: 16}) == ("large enough", [4, 8, 16, 32, 64])
    assert run({4: None, 2: None, 1: 3}) == ("out of memory", [4, 2, 1])
    assert run({4: None, 2: 3}) == ("out of memory", [4, 2])
    assert run({4: None, 2: None, 1: None}) == ("out of memory", [4, 2, 1])
    assert run({4: 10}, least=4, most=4) == ("large enough", [4])
    assert run({4: None}, least=4, most=4) == ("out of memory", [4])


def chained() -> Exception:
    """As the end of a recording in which memory ran out."""
    try:
        try:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (MemoryError(), True),
        (chained(), True),
        (RuntimeError("out of resource: shared memory, Required: 300000"), False),
        (ValueError("no"), False),
    ],
)
def test_out_of_memory_is_known_by_its_words(work: ModuleType, error: Exception, full: bool) -> None:
    assert work.is_full(error) is full


def test_memory_that_runs_out_ends_the_doubling(
    cases: ModuleType, work: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = work.make_work
    limit, problem = 4, chained()

    def fake(setup: Any, case: Any, way: Any, size: int, device: Any) -> Any:
        if size > limit:
            raise problem
        return make(setup, case, way, size, device)

    monkeypatch.setattr(work, "make_work", fake)
    monkeypatch.setattr(work, "GAIN", 0.0)
    case = cases.Case("grouped-sudoku-4", "infer", "reference")
    about, tries = collect(work.measure_case, case, tiny(cases, start=2))
    assert ([t["batch"] for t in tries], about["full_at"], about["stopped"]) == ([2, 4], 8, "out of memory")
    about, tries = collect(work.measure_case, case, tiny(cases, start=32))
    assert ([t["batch"] for t in tries], about["full_at"]) == ([4], 8)
    problem = ValueError("a fault\nof another kind")
    about, tries = collect(work.measure_case, case, tiny(cases, start=2))
    assert ([t["batch"] for t in tries], about["stopped"]) == ([2, 4], "ValueError: a fault of another kind")


def test_what_is_not_finite_is_no_figure(cases: ModuleType, work: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "make_work", lambda *a: lambda steps: float("nan"))
    about, tries = collect(work.measure_case, cases.Case("grouped-sudoku-4", "train", "reference"), tiny(cases))
    assert (about["stopped"], tries) == (f"ArithmeticError: not finite at a batch of {1 << 14}", [])


def test_memory_of_a_gpu(work: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name, value in (
        ("synchronize", None),
        ("empty_cache", None),
        ("reset_peak_memory_stats", None),
        ("max_memory_allocated", 7),
        ("max_memory_reserved", 9),
    ):
        monkeypatch.setattr(torch.cuda, name, lambda name=name, value=value: calls.append(name) or value)
    device = torch.device("cuda")
    assert work.forget(device) == 0
    assert work.find_peak(device) == (7, 9)
    assert abs(time.perf_counter() - work.wait(device)) < 5
    assert calls.index("reset_peak_memory_stats") < calls.index("max_memory_allocated")
    assert calls.count("synchronize") == 2


def test_the_card(cases: ModuleType, work: ModuleType) -> None:
    about, _ = collect(work.measure_card, tiny(cases))
    assert about.keys() == {"tflops", "tflops_blocks", "copy_tb_per_second"}
    assert min(about.values()) > 0


# ---- Checking


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("name", ["grouped-coloring-4", "multivalued-coloring-4"])
def test_fused_and_plain_agree(cases: ModuleType, work: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(work, "UPDATES", 2)
    case = cases.Case(name, "check", "fused", 1)
    about, checks = collect(work.check_case, case, tiny(cases, steps=1, nodes=6))
    assert about
    assert [c for c in checks if not c["agrees"]] == []
    whats = {c["what"] for c in checks}
    assert {
        "fp32 train scores",
        "fp32 eval scores",
        "fp32 curve of 2 updates",
        "fp32 gradient of update.hear.weight",
    } <= whats
    assert ("fp32 dropout: mean gradient" in whats) == name.startswith("multivalued")


@pytest.mark.usefixtures("interpreter")
def test_on_a_gpu_three_precisions_are_compared(
    cases: ModuleType, work: ModuleType, pretend: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "UPDATES", 2)
    case = cases.Case("multivalued-coloring-4", "check", "fused", 1)
    _, checks = collect(work.check_case, case, tiny(cases, steps=1, nodes=6))
    assert [c for c in checks if not c["agrees"]] == []
    assert {c["what"].split()[0] for c in checks} == {"fp32", "tf32", "bf16"}
    assert [recording.times for recording in pretend] == [2, 2, 2]  # each with two batches


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("wrong", [1.001, float("nan")])
def test_what_is_wrong_disagrees(
    cases: ModuleType, work: ModuleType, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    from outgrow.kernels import dispatch, reference

    def update(*arguments: Any) -> tuple[Tensor, Tensor]:
        hidden, cell = reference.update_states(*arguments)
        return hidden * (1.0 if dispatch._engine == "reference" else wrong), cell

    monkeypatch.setattr(dispatch, "update_states", update)
    monkeypatch.setattr(work, "learn_curve", lambda setup, batches, engine, half, updates: [1.0])
    case = cases.Case("grouped-coloring-4", "check", "fused", 1)
    _, checks = collect(work.check_case, case, tiny(cases, steps=1, nodes=6))
    disagree = {c["what"] for c in checks if not c["agrees"]}
    assert {"fp32 train scores", "fp32 eval scores"} <= disagree
    json.loads(json.dumps(checks), parse_constant=pytest.fail)  # no NaN in it


# ---- Processes


def test_a_case_is_a_process(cases: ModuleType, engine: ModuleType) -> None:
    row = engine.run_case(cases.Case("grouped-sudoku-4", "infer", "pyg-fp32", 2), tiny(cases), 60)
    assert "error" not in row, row
    assert (row["target"], row["way"], row["fixed"], row["batch"], row["device"]) == (
        "grouped-sudoku-4",
        "pyg-fp32",
        2,
        2,
        "cpu",
    )
    assert row["tflops"] == pytest.approx(row["flops_per_puzzle"] * row["puzzles_per_second"] / 1e12)
    assert 0.5 < row["startup_seconds"] < 60
    assert [t["batch"] for t in row["tries"]] == [2]
    json.dumps(row)


def test_a_process_that_fails_or_tarries_is_a_row(
    cases: ModuleType, engine: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases.Case("grouped-sudoku-4", "infer", "reference")
    worker = tmp_path / "worker.py"
    monkeypatch.setattr(engine, "WORKER", worker)

    def run(text: str, patience: float = 20) -> dict[str, Any]:
        worker.write_text(text)
        return engine.run_case(case, tiny(cases), patience)

    figure = {"batch": 4, "seconds": 2.0, "puzzles_per_second": 2.0}
    says = f"print('noise'); print('{{half'); print('{json.dumps({'flops_per_puzzle': 1e12})}'); print('{json.dumps({'try': figure})}', flush=True)"
    assert run("raise ValueError('no such\\nthing')")["error"] == "thing (exit code 1)"
    assert run("import os; os.kill(os.getpid(), 9)")["error"] == "no reason given (exit code -9)"
    assert run("")["error"] == "it ended without a word"
    found = run(f"{says}; import time; time.sleep(60)", 1)
    assert (found["batch"], found["stopped"], found["tflops"]) == (4, "more than 1 seconds", 2.0)
    assert "error" not in found
    began = time.monotonic()
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    assert run(child, 1)["error"] == "more than 1 seconds"
    assert time.monotonic() - began < 10
    assert run(f"{says}; raise MemoryError")["stopped"] == "MemoryError (exit code 1)"


def measured(case: Any, rate: float = 0.0, memory: float = 0.0, **more: Any) -> dict[str, Any]:
    row = {**vars(case), "device": "cuda", "batch": 8, "stopped": "no gain", **more}
    if not rate:
        row.pop("batch")
        return {"error": "out of memory", **row}
    figures = {"puzzles_per_second": rate, "seconds": 8 / rate, "mib_per_puzzle": memory, "peak_gib": 8 * memory / 1024}
    return {**row, **figures, "tflops": rate / 10, "startup_seconds": 20.0, "flops_per_puzzle": 1e11}


@pytest.fixture
def some(cases: ModuleType) -> list[dict[str, Any]]:
    """Rows of the card, of training on two sizes, of inference, of a comparison."""
    nine, large = "binarized-sudoku-9", "binarized-sudoku-24"
    rows = [{**vars(cases.CARD), "device": "cuda", "tflops": 800.0, "copy_tb_per_second": 4.3, "card": "a card"}]
    for target, slow in ((nine, 1), (large, 20)):
        for way, rate, memory in (
            ("pyg-fp32", 80, 2000),
            ("pyg-bf16", 100, 1000),
            ("reference", 150, 800),
            ("fused", 1200, 50),
        ):
            gone = target == large and way.startswith("pyg")
            rows.append(measured(cases.Case(target, "train", way), 0 if gone else rate / slow, memory * slow))
    rows.append(measured(cases.Case(nine, "infer", "fused"), 5000, 3))
    rows.append(measured(cases.Case(large, "train", "fused", 8), 50, 900))
    rows.append(
        {
            **vars(cases.Case(nine, "check", "fused")),
            "device": "cuda",
            "checks": 3,
            "disagree": [],
            "worst": {"what": "x", "error": 1.0, "limit": 2.0},
        }
    )
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    about = {"commit": "abc", "hardware": "a card", "threads": 2}
    path.write_text("".join(json.dumps(row) + "\n" for row in (about, *rows)) + '{"target": "half')


def test_a_run_goes_on_where_it_was(
    cases: ModuleType,
    engine: ModuleType,
    report: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = tmp_path / "engine.jsonl"
    chosen = cases.choose(cases.plan("cuda"), ["binarized-sudoku-9"], (), ())
    asked: list[tuple[Any, Any, float]] = []

    def fake(case: Any, how: Any, patience: float) -> dict[str, Any]:
        asked.append((case, how, patience))
        if case == cases.CARD:
            return {**vars(case), "device": "cuda", "tflops": 800.0, "copy_tb_per_second": 4.0}
        problems = {"pyg-bf16": "ValueError: a fault", "pyg-fp32": "out of memory"}
        if case.way in problems:
            return measured(case, error=problems[case.way])
        return measured(case, 10, 5, batch=64)

    monkeypatch.setattr(engine, "run_case", fake)
    engine.run(chosen, cases.How(), [rows], 0, 150)
    assert [case for case, _, _ in asked] == chosen
    assert {how.start for case, how, _ in asked if case.way.startswith("compiled")} == {
        64
    }  # where the reference was best
    assert {how.start for case, how, _ in asked if not case.way.startswith("compiled")} == {0}
    assert "12/13 binarized-sudoku-9 infer fused-fp32: 10 puzzles/s at 64" in capsys.readouterr().out
    about, found = report.read_rows([rows])
    assert about["threads"] == 2
    assert set(found) == set(chosen)

    asked.clear()  # what failed is tried once more; no memory is no memory
    rows.write_text(rows.read_text() + '{"target": "half')
    engine.run(chosen, cases.How(), [rows], 0, 150)
    assert {case.way for case, _, _ in asked} == {"pyg-bf16"}
    assert set(report.read_rows([rows])[1]) == set(chosen)


def test_a_run_ends_in_time(
    cases: ModuleType, engine: ModuleType, report: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = cases.choose(cases.plan("cuda"), ["grouped-*"], (), ())
    clock = [0.0]
    asked: list[Any] = []

    def fake(case: Any, how: Any, patience: float) -> dict[str, Any]:
        asked.append(case)
        clock[0] += min(60.0, patience)
        slow = {"stopped": f"more than {patience:.0f} seconds"} if patience < 60 else {}
        if case == cases.CARD:
            return {**vars(case), "device": "cuda", "tflops": 800.0, "copy_tb_per_second": 4.0}
        return measured(case, 10, 5, **slow)

    monkeypatch.setattr(engine, "run_case", fake)
    monkeypatch.setattr(engine.time, "monotonic", lambda: clock[0])
    rows = [tmp_path / "engine.jsonl"]
    engine.run(chosen, cases.How(), rows, 160, 100)
    assert asked == chosen[:3]
    last = report.read_rows(rows)[1][chosen[2]]
    assert (last["cut"], last["stopped"], last["puzzles_per_second"]) == (True, engine.CUT, 10)
    assert not engine.is_done(last)
    asked.clear()
    engine.run(chosen, cases.How(), rows, 130, 100)
    assert asked == chosen[2:4]
    assert "cut" not in report.read_rows(rows)[1][chosen[2]]


def test_without_the_device_a_run_ends_at_once(
    engine: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    out = ["--rows", str(tmp_path / "a.jsonl"), "--json", str(tmp_path / "a.json")]
    assert engine.main(["binarized-sudoku-9", *out]) == 2
    assert "cannot be used here" in capsys.readouterr().err


# ---- Reports


def test_rows_are_put_together(
    report: ModuleType, some: list[dict[str, Any]], cases: ModuleType, tmp_path: Path
) -> None:
    write(tmp_path / "a.jsonl", some[:4])
    failed = measured(cases.Case("binarized-sudoku-9", "train", "pyg-bf16"), error="ValueError: later")
    write(tmp_path / "b.jsonl", [*some[4:], failed])
    target = tmp_path / "engine.json"
    found = report.merge([tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "none.jsonl"], target)
    assert json.loads(target.read_text())["figures"][0]["target"] == "binarized-sudoku-9"
    assert (found["commit"], found["card"]["tflops"], len(found["figures"]), len(found["checks"])) == (
        "abc",
        800,
        10,
        1,
    )
    ratios = {(r["target"], r["way"]): (r["peer"], r["times_as_fast"], r["times_less_memory"]) for r in found["ratios"]}
    assert ratios == {
        ("binarized-sudoku-9", "reference"): ("pyg-bf16", 1.5, 1.25),
        ("binarized-sudoku-9", "fused"): ("pyg-bf16", 12, 20),
    }
    fused = next(
        f for f in found["figures"] if (f["way"], f["mode"], f["target"]) == ("fused", "train", "binarized-sudoku-9")
    )
    assert fused["of_peak"] == 120 / 800
    with pytest.raises(OutgrowError, match="nothing was measured"):
        report.merge([tmp_path / "none.jsonl"], target)


def test_tables(report: ModuleType, some: list[dict[str, Any]], cases: ModuleType, tmp_path: Path) -> None:
    for way, rate in (("blocks", 2.0), ("reference", 1.0), ("pyg-fp32", 0.5)):
        some.append(measured(cases.Case("grouped-sudoku-25", "infer", way, 1), rate, 2048 / rate, device="cpu"))
    some.append(measured(cases.Case("binarized-sudoku-24", "train", "compiled"), error="ValueError: x"))
    write(tmp_path / "a.jsonl", some)
    found = dict(report.tables(report.merge([tmp_path / "a.jsonl"], tmp_path / "engine.json")))
    speed = found["Training: puzzles a second (at a batch of)"].splitlines()
    assert speed[0] == "|  | PyTorch Geometric | plain PyTorch | compiled | fused | TFLOP/s | of peak | faster |"
    assert speed[2] == "| binarized sudoku 9 | 100 (8) | 150 (8) | - | 1,200 (8) | 120.0 | 15.0% | 12.0x |"
    assert speed[3] == "| binarized sudoku 24 | out of memory | 7.5 (8) | failed | 60 (8) | 6.0 | 0.8% | - |"
    assert speed[4] == "| binarized sudoku 24, 8 at a time | - | - | - | 50 (8) | 5.0 | 0.6% | - |"
    assert len(found) == 7
    processor = found["One puzzle on 2 threads of a processor"].splitlines()
    assert processor[2] == "| grouped sudoku 25 | 16 | 8 | 4 | 4.0x | 32,768 | 16,384 | 8,192 | 4.0x |"


def test_a_picture(report: ModuleType, some: list[dict[str, Any]], tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", some)
    found = report.merge([tmp_path / "a.jsonl"], tmp_path / "engine.json")
    report.draw(found, tmp_path / "engine.svg")
    ids = [element.attrib.get("id") for element in ET.parse(tmp_path / "engine.svg").iter()]
    assert {"binarized pyg", "binarized reference", "binarized fused"} <= set(ids)
    with pytest.raises(OutgrowError, match="nothing to draw"):
        report.draw({"figures": found["checks"][:0]}, tmp_path / "none.svg")


def test_a_picture_of_a_processor(report: ModuleType, cases: ModuleType, tmp_path: Path) -> None:
    rows = [
        measured(cases.Case(f"grouped-sudoku-{size}", "infer", way, 1), 1 / size, 9.0, device="cpu")
        for size in (9, 16)
        for way in ("blocks", "reference", "pyg-fp32")
    ]
    write(tmp_path / "a.jsonl", rows)
    report.draw(report.merge([tmp_path / "a.jsonl"], tmp_path / "engine-cpu.json"), tmp_path / "engine.svg")
    ids = [element.attrib.get("id") for element in ET.parse(tmp_path / "engine.svg").iter()]
    assert {"grouped pyg", "grouped reference", "grouped blocks"} <= set(ids)


def test_the_command(
    engine: ModuleType,
    some: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(engine.signal, "signal", lambda *a: None)
    rows, target = tmp_path / "a.jsonl", tmp_path / "a.json"
    out = ["--rows", str(rows), "--json", str(target)]
    monkeypatch.setattr(
        engine,
        "run_case",
        lambda case, how, patience: next(
            r for r in some if r["mode"] == ("peak" if not case.way else case.mode) and r["way"] == case.way
        ),
    )
    assert engine.main(["binarized-sudoku-9", "--modes", "train", "--ways", "fused", "pyg-bf16", *out]) == 0
    assert json.loads(target.read_text())["card"]["card"] == "a card"
    assert engine.main(["binarized-sudoku-9", *out]) == 2
    assert "--resume" in capsys.readouterr().err
    assert engine.main(["binarized-sudoku-9", "--modes", "train", "--ways", "fused", "--resume", *out]) == 0
    assert "0 cases, 2 measured before" in capsys.readouterr().out
    target.unlink()
    assert engine.main(["--merge", *out]) == 0
    assert engine.main(["--markdown", "--svg", str(tmp_path / "a.svg"), *out]) == 0
    assert "| binarized sudoku 9 | " in capsys.readouterr().out
    assert (tmp_path / "a.svg").exists()
    assert engine.main(["--list", "grouped-coloring-7", "--modes", "train", "--ways", "fused"]) == 0
    assert capsys.readouterr().out.split("\n") == ["card peak", "grouped-coloring-7 train fused", ""]
    assert engine.main(["--list", "grouped-coloring-8"]) == 2
    assert engine.main(["--markdown", "--json", str(tmp_path / "none.json")]) == 2
    assert engine.main(["--merge", "--rows", str(tmp_path / "none.jsonl"), "--json", str(target)]) == 2


def test_checks_say_so_by_the_exit_code(
    cases: ModuleType,
    engine: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(engine.signal, "signal", lambda *a: None)
    results: list[tuple[list[str], bool]] = [(["x"], True)]

    def fake(case: Any, how: Any, patience: float) -> dict[str, Any]:
        bad, done = results[0]
        said = [
            json.dumps({"check": {"what": w, "error": 2.0, "limit": 1.0 + (w == "x"), "agrees": w == "x"}}) for w in bad
        ]
        return engine.make_row(
            case, how, [*said, *(['{"done": true}'] if done else [])], "" if done else "more than 9 seconds"
        )

    monkeypatch.setattr(engine, "run_case", fake)

    def run() -> tuple[int, str]:
        path = tmp_path / f"{time.monotonic_ns()}.jsonl"
        return engine.main(["--check", "grouped-*", "--rows", str(path)]), capsys.readouterr().out

    assert run()[0] == 0
    results[0] = ["x", "y"], True
    code, said = run()
    assert code == 1
    assert "2 comparisons, at worst y 2 of 1; y: 2, not 1" in said
    assert "wrong: grouped-sudoku-9 check fused" in said
    results[0] = ["x"], False
    assert run()[0] == 1
    results[0] = [], True
    assert run()[0] == 1
