"""The process of one case of benchmarks/engine.py: an argument of JSON says which, and lines of JSON what was found.

Torch, numpy, safetensors and, for the peer, torch_geometric are enough.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from engine_cases import CARD, FULL, WAYS, Case, How, Way
from engine_flops import count_flops
from torch import Tensor, nn
from torch.nn import functional

from outgrow.data import find_dataset
from outgrow.errors import DamagedFile
from outgrow.graphs import Batch, Puzzles
from outgrow.kernels import project, use_engine
from outgrow.models import Model, build_model, choose_device
from outgrow.models.nodes import NodeModel
from outgrow.puzzles import coloring
from outgrow.train.objective import Objective
from outgrow.train.order import draw_marks, draw_values
from outgrow.train.processes import products
from outgrow.train.recipe import TrainRecipe, load_recipe
from outgrow.train.replay import Replay, _alias
from outgrow.train.state import State

ROOT = Path(__file__).resolve().parents[1]
STEPS = 32  # of message passing without gradients
PUZZLES = 64  # different ones; larger batches hold them several times
DEGREES = {4: 7.5, 7: 20.0}  # edges to a node: about as many as the project's graphs of so many colors have
GAIN = 1.05  # by which a double batch has to be faster
MOST = 1 << 14  # puzzles in a batch
START = {"train": 3e12, "infer": 5e12}  # operations of the first batch
SEED, CLIP, RATE = 0, 5.0, 2e-4
UPDATES = 20  # of a curve that is compared
GIB = 1 << 30

Work = Callable[[int], Any]  # of so many steps, where there is a choice: a loss, or scores
Tell = Callable[[dict[str, Any]], None]


# ---- Models and puzzles


def draw_graphs(colors: int, nodes: int) -> Puzzles:
    """Random graphs around a coloring, half of it masked. Nothing is proven of them: the work is the same."""
    rng = np.random.default_rng(SEED)
    one, other = np.triu_indices(nodes, k=1)
    csps, givens, solutions = [], [], []
    for _ in range(PUZZLES):
        solution = rng.integers(1, colors + 1, nodes)
        apart = solution[one] != solution[other]
        kept = apart & (rng.random(len(one)) * apart.sum() < nodes * DEGREES.get(colors, 4.0) / 2)
        given = np.where(rng.random(nodes) < 0.5, solution, 0)
        instance = coloring.build(np.stack([one[kept], other[kept]], axis=1), given, colors)
        csps.append(instance.csp)
        givens.append(instance.givens)
        solutions.append(solution)
    return Puzzles(csps, givens, solutions)


def load_puzzles(puzzle: str, size: int, form: str, nodes: int) -> Puzzles:
    """Of the training set, where there is one of that size, or else of the test set: nothing that is learnt here is kept."""
    if puzzle == "coloring":
        return draw_graphs(size, nodes)
    try:
        dataset = find_dataset(f"{puzzle}-{size}-train")
    except DamagedFile:
        dataset = find_dataset(f"{puzzle}-{size}-test")
    return Puzzles.of_datasets([dataset], form, PUZZLES)


@dataclass(frozen=True)
class Setup:
    """A model's configuration, its puzzles, and T."""

    config: Any
    puzzles: Puzzles
    steps: int

    @classmethod
    def of(cls, case: Case, how: How) -> Setup:
        """By the paper's recipe, or the project's own for the grouped model."""
        model, puzzle, size = case.parts
        folder = ROOT / "recipes" / ("" if model == "grouped" else "paper")
        recipe = load_recipe(folder / f"{puzzle}-{model}.toml")
        config: Any = replace(recipe.model, **({"width": how.width} if how.width else {}))
        if model == "multivalued":
            config = replace(config, max_values=max(size, config.max_values))
        steps = STEPS if case.mode == "infer" or model != "grouped" else recipe.train.steps
        return cls(config, load_puzzles(puzzle, size, recipe.data.form, how.nodes), how.steps or steps)

    def build(self, device: torch.device) -> Model:
        torch.manual_seed(SEED)
        return build_model(self.puzzles.schema, self.config).to(device)

    def batch(self, size: int, device: torch.device, first: int = 0) -> Batch:
        return self.puzzles.batch((first + np.arange(size)) % len(self.puzzles), device)


def draw_for(model: Model, batch: Batch) -> Tensor | None:
    """What training draws for a batch: embeddings of values, or seeds of marks."""
    if not isinstance(model, NodeModel):
        drawn = draw_values(len(batch), batch.max_values, model.max_values, (SEED,))
    elif model.marked:
        drawn = draw_marks(len(batch), (SEED,))
    else:
        return None
    return torch.from_numpy(drawn.copy()).to(batch.puzzle.device)


# ---- Work: an update, or the scores of a batch


def is_gpu(device: torch.device) -> bool:
    return device.type == "cuda"


def autocast(device: torch.device, half: bool) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=half and is_gpu(device))


def compile_step(model: Model) -> None:
    """As training does it, and anew for every batch size: a program for several of them is slower."""
    import torch.fx.experimental._config as shapes

    torch._dynamo.reset()
    shapes.use_duck_shape = False
    torch._dynamo.config.specialize_float = True
    model.step = torch.compile(model.step)


def peer_of(model: Model) -> Any:
    import peer

    return peer.PEERS[model.kind].of(model)


def make_work(setup: Setup, case: Case, way: Way, size: int, device: torch.device) -> Work:
    """What is to be timed, for so many puzzles."""
    model = setup.build(device).train(case.mode == "train")
    batch = setup.batch(size, device)
    if way.compiled:
        compile_step(model)
    return (make_update if case.mode == "train" else make_inference)(setup, model, batch, way)


def make_update(setup: Setup, model: Model, batch: Batch, way: Way) -> Work:
    device, draw = batch.puzzle.device, draw_for(model, batch)
    learner: Any = model
    if way.peer:
        learner = peer_of(model)
        graph = learner.prepare(batch, draw)

        def learn() -> Tensor:
            with autocast(device, way.half):
                scores = learner(graph, setup.steps)
            loss = learner.loss(scores, graph, batch.solutions)
            loss.backward()
            return loss.detach()
    else:
        objective = Objective(model, multiplicity=False, autocast=way.half and is_gpu(device), steps=setup.steps)
        replay = Replay(objective) if way.recorded and is_gpu(device) else None

        def learn() -> Tensor:
            if replay is not None:
                return replay.backward(batch, draw).total
            losses = objective(_alias(batch), (), draw)  # with tables of its own, as every batch of training has them
            losses.total.backward()
            return losses.total.detach()

    state = State(learner, TrainRecipe(lr=RATE, weight_decay=1e-4, clip=CLIP, ema=0.0))
    weights = list(state.weights.values())

    def update(steps: int) -> float:
        loss = learn()
        norm = nn.utils.clip_grad_norm_(weights, CLIP)
        told = torch.stack([loss, norm.to(loss.dtype)]).tolist()  # the one wait of an update
        state.step()
        return told[0]

    return update


def make_inference(setup: Setup, model: Model, batch: Batch, way: Way) -> Work:
    device = batch.puzzle.device
    other = peer_of(model) if way.peer else None
    graph = other.prepare(batch) if other else None

    @torch.no_grad()
    def infer(steps: int) -> Tensor:
        with autocast(device, way.half):
            if other:
                return other(graph, steps)[-1]
            *_, scores = model.run(model.prepare(_alias(batch)), steps)  # pyright: ignore[reportArgumentType]
            return scores

    if not (way.recorded and is_gpu(device)):
        return infer
    recording, scores = Replay(Objective(model, False, False))._capture(lambda: infer(setup.steps))
    with torch.no_grad():
        kept = (batch, model.prepare(batch))  # a recording reads the memory of what it does not work out itself

    def again(steps: int) -> Tensor:
        assert kept
        recording.replay()
        return scores

    return again


# ---- Measuring


def is_full(error: BaseException | None) -> bool:
    """Whether memory ran out, in whatever words: the end of a recording reports an error of its own."""
    while error is not None:
        said = str(error).lower()
        if isinstance(error, MemoryError) or any(
            w in said for w in ("out of memory", "alloc_failed", "allocate memory")
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def search(attempt: Callable[[int], float | None], start: int, least: int, most: int) -> str:
    """Doubles the batch while that gains, or halves what does not fit at first. Why it ended; `attempt` gives puzzles a second, None without memory."""
    best, batch, falling = 0.0, start, False
    while True:
        rate = attempt(batch)
        if rate is None:
            if best or batch <= least:
                return FULL
            batch, falling = max(least, batch // 2), True
        elif falling:
            return FULL
        elif rate < GAIN * best:
            return "no gain"
        elif 2 * batch > most:
            return "large enough"
        else:
            best, batch = rate, 2 * batch


def wait(device: torch.device) -> float:
    """The time when all is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def forget(device: torch.device) -> int:
    """Lets the peak of memory begin anew; the bytes that do not count."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return 0
    from cost import forget_peak, memory_kib

    with contextlib.suppress(OSError):  # not every system lets it
        forget_peak()
    return memory_kib("VmRSS") << 10


def find_peak(device: torch.device) -> tuple[int, int]:
    """The most bytes since: in use, and held."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    from cost import memory_kib

    peak = memory_kib("VmHWM") << 10
    return peak, peak


def measure_batch(
    setup: Setup, case: Case, way: Way, size: int, device: torch.device, least: float
) -> tuple[dict[str, Any], float]:
    """The median of several runs, the peak of memory with all that came before them, and when the first one had ended."""
    before, began = forget(device), wait(device)
    work = make_work(setup, case, way, size, device)
    # On a CPU a step is enough to warm up, and all of them can take minutes.
    work(setup.steps if device.type == "cuda" else 1)
    first, ended = wait(device) - began, time.time()
    if device.type == "cuda":
        work(setup.steps)
    times: list[float] = []
    found = None
    while len(times) < 200 and (len(times) < 3 or sum(times) < least) and sum(times) <= 10 * least:
        began = wait(device)
        found = work(setup.steps)
        times.append(wait(device) - began)
    if not torch.as_tensor(found).isfinite().all():
        raise ArithmeticError(f"not finite at a batch of {size}")
    used, held = (max(0, peak - before) for peak in find_peak(device))
    seconds = statistics.median(times)
    return {
        "batch": size,
        "seconds": seconds,
        "spread": (max(times) - min(times)) / seconds,
        "runs": len(times),
        "puzzles_per_second": size / seconds,
        "peak_gib": used / GIB,
        "reserved_gib": held / GIB,
        "mib_per_puzzle": used / size / (1 << 20),
        "first_seconds": first,
    }, ended


def measure_case(case: Case, how: How, tell: Tell) -> None:
    """Tells of every batch size at once: who is stopped has said something."""
    device, way, cpu = choose_device(how.device), WAYS[case.way], torch.device("cpu")
    setup = Setup.of(case, how)
    model = setup.build(cpu).train(case.mode == "train")
    some = setup.batch(min(16, len(setup.puzzles)), cpu)
    flops = count_flops(model, some, setup.steps) / len(some)
    tell({"steps": setup.steps, "parameters": sum(p.numel() for p in model.parameters()), "flops_per_puzzle": flops})
    guess = min(MOST, 1 << int(math.log2(max(1.0, START[case.mode] / flops))))
    least, most = (case.fixed, case.fixed) if case.fixed else (1, MOST)
    begun = False

    def attempt(batch: int) -> float | None:
        nonlocal begun
        try:
            figure, ended = measure_batch(setup, case, way, batch, device, how.least)
        except Exception as error:
            if not is_full(error):
                raise
            tell({"full_at": batch})
            return None
        if how.since and not begun:
            tell({"startup_seconds": ended - how.since})
        begun = True
        tell({"try": figure})
        return figure["puzzles_per_second"]

    with products("high" if device.type == "cuda" else "highest"), use_engine(way.engine):
        try:
            if device.type == "cpu":  # loads the libraries, which would count as memory of the first run
                model, puzzle, _ = case.parts
                small = Setup.of(replace(case, target=f"{model}-{puzzle}-4"), how)
                make_work(small, case, way, 1, device)(1)
            ended = search(attempt, case.fixed or how.start or guess, least, most)
            tell({"stopped": "fixed" if case.fixed and ended != FULL else ended})
        except Exception as error:
            tell({"stopped": " ".join(f"{type(error).__name__}: {error}".split())[:300]})


@torch.no_grad()
def measure_card(how: How, tell: Tell) -> None:
    """What the device can do: a product of random matrices, on a GPU in half precision and a large one, on a CPU one such as models have, by PyTorch's library
    and by the one that blocks take; and a copy, read and written."""
    device = choose_device(how.device)
    gpu = device.type == "cuda"
    side, length, times = (8192, 1 << 30, 10) if gpu else (96, 1 << 26, 10)
    dtype = torch.bfloat16 if gpu else torch.float32
    a, b = (torch.randn(8192, side, device=device).to(dtype), torch.randn(side, side, device=device).to(dtype))
    source = torch.randn(length, device=device)
    target = torch.empty_like(source)

    def clock(work: Callable[[], Any]) -> float:
        found: list[float] = []
        for _ in range(8):
            began = wait(device)
            for _ in range(times):
                work()
            found.append((wait(device) - began) / times)
        return statistics.median(found[3:])

    flops = 2 * len(a) * side**2 / 1e12
    copy = 8 * length / 1e12 / clock(lambda: target.copy_(source))
    tell({"tflops": flops / clock(lambda: functional.linear(a, b)), "copy_tb_per_second": copy})
    if not gpu:
        tell({"tflops_blocks": flops / clock(lambda: project(a, b))})
    if gpu:
        card = torch.cuda.get_device_properties(device)
        tell({"card": card.name, "memory_gib": card.total_memory / GIB})


# ---- Checking


def off(found: Iterable[Tensor], truth: Iterable[Tensor], floor: float = 0.0) -> float:
    """|found - truth| / |truth|, of all tensors together."""
    pairs = [(a.double(), b.double()) for a, b in zip(found, truth, strict=True)]
    wrong, size = (
        math.sqrt(sum(float(t.square().sum()) for t in ts)) for ts in ([a - b for a, b in pairs], [b for _, b in pairs])
    )
    return wrong / max(size, floor, 1e-30)


def compute(model: Model, batch: Batch, engine: Any, steps: int, half: bool) -> tuple[Tensor, float, dict[str, Tensor]]:
    """Scores of every step, the loss, all gradients (none in evaluation)."""
    draw = draw_for(model, batch)
    model.zero_grad()
    with use_engine(engine), torch.set_grad_enabled(model.training):
        with autocast(batch.puzzle.device, half):
            prepared: Any = model.prepare(_alias(batch), draw)
            scores = torch.stack(list(model.run(prepared, steps)))
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        assert batch.solutions is not None
        losses = model.loss(scores, prepared, batch.solutions).sum(0)
        penalty = model.penalty(prepared)
        loss = (losses if penalty is None else losses + penalty).mean()
        if model.training:
            loss.backward()
    slopes = {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
    return scores.detach(), float(loss.detach()), slopes if model.training else {}


def learn_curve(setup: Setup, batches: Sequence[Batch], engine: Any, half: bool, updates: int) -> list[float]:
    """The losses of some updates over these batches in turn; those of the fused engine are recorded, on a GPU."""
    gpu = is_gpu(batches[0].puzzle.device)
    model = setup.build(batches[0].puzzle.device).train()
    objective = Objective(model, multiplicity=False, autocast=half and gpu, steps=setup.steps)
    replay = Replay(objective) if gpu and engine != "reference" else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    losses: list[float] = []
    with use_engine(engine):
        for turn in range(updates):
            batch = batches[turn % len(batches)]
            draw = draw_for(model, batch)
            if replay is None:
                total = objective(_alias(batch), (), draw).total
                total.backward()
            else:
                total = replay.backward(batch, draw).total
            losses.append(float(total.detach()))
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return losses


@dataclass(frozen=True)
class Precision:
    """In which numbers to compare, at which width (0: the recipe's); `slack` is what fused may be off beyond plain, `apart` the same for the losses."""

    name: str
    products: str
    half: bool = False
    width: int = 0
    slack: float = 1e-4
    apart: float = 0.02


# In full single precision, where a fault shows best, kernels for wide rows take minutes to compile on a GPU.
ON_GPU = (
    Precision("fp32", "highest", width=32),
    Precision("tf32", "high", slack=1e-3, apart=0.05),
    Precision("bf16", "high", half=True, slack=2e-2, apart=0.1),
)
ON_CPU = (Precision("fp32", "highest"),)
Judge = Callable[[str, float, float], None]


def check_case(case: Case, how: How, tell: Tell) -> None:
    """Fused beside plain: how far each is from double precision, where fused may be three times as far; how both learn; and dropout, by averages."""
    device = choose_device(how.device)
    fused: Any = "fused"
    setup = Setup.of(case, replace(how, steps=how.steps or 4))
    size = case.fixed or 4
    batches = [setup.batch(size, device, first) for first in (0, size)]
    for precision in ON_GPU if is_gpu(device) else ON_CPU:

        def judge(what: str, error: float, limit: float, name: str = precision.name) -> None:
            error = error if math.isfinite(error) else 1e30
            tell({"check": {"what": f"{name} {what}", "error": error, "limit": limit, "agrees": error <= limit}})

        config = replace(setup.config, width=precision.width or setup.config.width)
        with products(precision.products):
            check_precision(replace(setup, config=config), batches, fused, precision, judge)


def check_precision(setup: Setup, batches: Sequence[Batch], fused: Any, precision: Precision, judge: Judge) -> None:
    device, still = batches[0].puzzle.device, replace(setup, config=replace(setup.config, dropout=0.0))
    half, slack = precision.half, precision.slack
    for mode in ("train", "eval"):  # in evaluation dropout is off by itself
        model = (still if mode == "train" else setup).build(device).train(mode == "train")
        truth, _, slopes = compute(deepcopy(model).double(), batches[0], "reference", setup.steps, False)
        plain, mine = (compute(model, batches[0], engine, setup.steps, half) for engine in ("reference", fused))
        judge(f"{mode} scores", off([mine[0]], [truth]), 3 * off([plain[0]], [truth]) + slack)
        floor = max((float(slope.norm()) for slope in slopes.values()), default=0.0) / 50
        for name, slope in slopes.items():
            errors = [off([found[2][name]], [slope], floor) for found in (plain, mine)]
            judge(f"gradient of {name}", errors[1], 3 * errors[0] + slack)
    one, other = (learn_curve(still, batches, engine, half, UPDATES) for engine in ("reference", fused))
    apart = [abs(a - b) / a for a, b in zip(one, other, strict=True)]
    judge(f"curve of {UPDATES} updates", max(apart, key=lambda x: (not math.isfinite(x), x)), precision.apart)
    if setup.config.dropout:
        check_dropout(setup, batches[0], fused, half, judge)


def check_dropout(setup: Setup, batch: Batch, fused: Any, half: bool, judge: Judge) -> None:
    """Averages over draws of dropout: plain and fused lie about as far apart as plain and plain."""
    model = setup.build(batch.puzzle.device).train()
    found: list[tuple[float, list[Tensor]]] = []
    for turn, engine in enumerate(("reference", "reference", fused)):
        torch.manual_seed(turn)
        draws = [compute(model, batch, engine, setup.steps, half)[1:] for _ in range(8)]
        slopes = [torch.stack([slope[name] for _, slope in draws]).mean(0) for name in draws[0][1]]
        found.append((statistics.fmean(loss for loss, _ in draws), slopes))
    (loss, truth), (again, others), (mine, slopes) = found
    judge("dropout: mean loss", abs(mine - loss) / loss, 3 * abs(again - loss) / loss + 0.01)
    judge("dropout: mean gradient", off(slopes, truth), 3 * off(others, truth) + 1e-3)


def main(text: str, say: Callable[[str], None]) -> None:
    spec = json.loads(text)
    case, how = Case(**spec["case"]), How(**spec["how"])
    torch.set_num_threads(how.threads)

    def tell(words: dict[str, Any]) -> None:
        say(json.dumps(words))

    if case == CARD:
        measure_card(how, tell)
    else:
        (check_case if case.mode == "check" else measure_case)(case, how, tell)
    tell({"done": True})


if __name__ == "__main__":
    main(sys.argv[1], lambda line: print(line, flush=True))
