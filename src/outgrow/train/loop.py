"""The loop: from a recipe to weights.

All randomness is a function of the seed and the number of the update, so that a run killed anywhere and resumed from its last
checkpoint ends with the same weights, bit for bit on a CPU, as one that was not.
"""

from __future__ import annotations

import copy
import dataclasses
import fcntl
import json
import math
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from outgrow.data import Dataset, Examples, find_dataset
from outgrow.errors import DamagedFile, OutgrowError, memory_errors
from outgrow.graphs import Batch, Puzzles
from outgrow.models import Model, build_model
from outgrow.models.layers import States
from outgrow.models.nodes import NodeModel
from outgrow.provenance import provenance
from outgrow.puzzles import get_puzzle
from outgrow.train.carry import Carried
from outgrow.train.curves import LOG_NAME
from outgrow.train.objective import Objective, judge_output
from outgrow.train.order import Order, draw_given, draw_marks, draw_steps, draw_values, seed_for
from outgrow.train.processes import Processes, products, start_processes, stop_processes
from outgrow.train.recipe import DataRecipe, Recipe
from outgrow.train.replay import Replay
from outgrow.train.state import State, learning_rate
from outgrow.weights.file import check_fit, load_weights, save_weights
from outgrow.writing import write_whole

__all__ = ["Event", "Trained", "Validation", "train", "validate"]

Event = Mapping[str, Any]
Watch = Callable[[Event], None]
CHECKPOINT, RECIPE, WEIGHTS = "checkpoint.safetensors", "recipe.json", "weights.safetensors"
# A loss so many times that of guessing is no bad luck.
_DIVERGED = 3.0
_PATIENCE = 2.0  # seconds without a line of the log
_VALIDATION_NODES = 1 << 17  # (variable, value) nodes in one batch of validation


@dataclass(frozen=True)
class Validation:
    """Board accuracy by the verdict, share of variables that match the stored solution, loss of the last step."""

    board: float
    pointwise: float
    loss: float


@dataclass(frozen=True)
class Trained:
    """What came of a run.

    Attributes:
        run: its folder.
        weights: the file of the weights that were chosen.
        chosen: which they are: 'ema', 'average', 'last' or 'best'.
        validation: theirs; None without a validation set.
        seconds: of work.
        stopped: why it ended: 'done', 'patience', 'time', or 'interrupted' (then it can be resumed, and nothing was chosen).
    """

    run: Path
    weights: Path
    chosen: str
    validation: Validation | None
    seconds: float
    stopped: str


def train(
    recipe: Recipe,
    run: str | Path,
    *,
    resume: bool = False,
    device: str | None = None,
    datasets: Mapping[str, Dataset | Examples] | None = None,
    watch: Watch = lambda event: None,
) -> Trained:
    """Trains a model and writes weights, log and checkpoints into the folder `run`.

    Args:
        resume: go on from the run's last checkpoint.
        device: 'cpu', 'cuda', ...; a GPU if there is one.
        datasets: data sets by the names the recipe uses, where they are not files.
        watch: called with every event, as it is logged.
    """
    run = Path(run)
    processes = start_processes(device)
    precision = "highest" if recipe.train.precision == "fp32" else "high"  # TF32 on a GPU, unless the recipe insists
    try:
        with products(precision), memory_errors("lower train.micro_batch or train.batch, or the model's width"):
            trainer = _Trainer(recipe, run, processes, datasets or {}, watch, resume)
            with trainer.take_folder():
                trained = trainer.train()
            processes.meet()
            return trained
    finally:
        stop_processes(processes)


class _Trainer:
    def __init__(
        self,
        recipe: Recipe,
        run: Path,
        processes: Processes,
        datasets: Mapping[str, Dataset | Examples],
        watch: Watch,
        resume: bool,
    ) -> None:
        self.recipe, self.run, self.processes, self._watch = recipe, run, processes, watch
        how = recipe.train
        if how.batch % processes.count:
            raise OutgrowError(f"train.batch is {how.batch}, which {processes.count} processes cannot share evenly")
        self._resume = resume
        self._check_folder()
        found = {
            name: datasets[name] if name in datasets else find_dataset(name)
            for name in (*recipe.data.train, *recipe.data.valid)
        }
        self.data = {name: {"count": len(d), "sha256": d.sha256} for name, d in found.items()}
        form = recipe.data.form
        _check_sets(recipe.data, found)
        limit = recipe.data.limit or None
        self.puzzles = Puzzles.of_datasets([found[n] for n in recipe.data.train], form, limit)
        lengths = [min(len(found[n]), limit or len(found[n])) for n in recipe.data.train]
        self._sizes = np.split(self.puzzles.num_variables, np.cumsum(lengths)[:-1])
        self.valid = None
        if recipe.data.valid:
            self.valid = Puzzles.of_datasets(
                [found[n] for n in recipe.data.valid], form, recipe.data.valid_limit or None
            )
        device = processes.device
        torch.manual_seed(seed_for(how.seed, 0))
        self.model = build_model(self.puzzles.schema, recipe.model)
        if how.start and not resume:
            _start_from(self.model, how.start)
        self.model.to(device)
        for puzzles in filter(None, (self.puzzles, self.valid)):  # too many values? say so now
            self.model.prepare(puzzles.batch([int(puzzles.num_values.argmax())], device))
        self.shadow = copy.deepcopy(self.model)
        self.state = State(self.model, how)
        if resume:
            known = self.state.load(run / CHECKPOINT).get("data", self.data)
            if known != self.data:
                raise OutgrowError(f"{run}: was trained on other data than {', '.join(self.data)} hold now; start anew")
        autocast = how.precision == "bf16" or (how.precision == "auto" and device.type == "cuda")
        objective = Objective(
            self.model, how.multiplicity, autocast, how.steps or None, how.noise, how.quiet, how.step_noise
        )
        self.objective: nn.Module = objective
        self._begin = objective.begin
        if how.carry and processes.count > 1:
            raise OutgrowError(
                f"train.carry is {how.carry}: puzzles stay with one process, and there are {processes.count}"
            )
        self._carried = [Carried(how.batch, how.carry, how.inherit) for _ in recipe.data.train] if how.carry else []
        self._take_up()
        self.replay = None
        if device.type == "cuda" and how.replay and self._recordable():
            self.replay = Replay(objective)
        if device.type == "cuda" and how.compile:
            import torch.fx.experimental._config as shapes

            # Batches of several sets share one compilation, with open shapes; no two of them are taken to be equal for ever.
            several = True if len(recipe.data.train) > 1 else None
            shapes.use_duck_shape = False
            # Or every compilation is traced twice, for numbers that might change and do not.
            torch._dynamo.config.specialize_float = True  # pyright: ignore[reportPrivateImportUsage]
            self.model.step = torch.compile(self.model.step, dynamic=several)  # pyright: ignore[reportAttributeAccessIssue]
        if processes.count > 1:
            self.objective = DistributedDataParallel(self.objective)
        self._good = self.state.snapshot()
        self._order: tuple[int, Order] | None = None
        self._batches()  # too few puzzles for a batch? say so now
        self._began = time.monotonic() - self.state.progress.seconds

    def _check_folder(self) -> None:
        """Whether this run may use its folder; nothing is written yet."""
        checkpoint = self.run / CHECKPOINT
        if self._resume:
            try:
                earlier = json.loads((self.run / RECIPE).read_text())
                if not isinstance(earlier, dict):
                    raise ValueError("not a table")
            except (OSError, ValueError, RecursionError):
                raise OutgrowError(f"{self.run}: nothing to resume here ({RECIPE} is missing or damaged)") from None
            if not checkpoint.exists():
                raise OutgrowError(
                    f"{checkpoint}: no such file; the run has no checkpoint yet, start it without --resume"
                )
            different = _first_difference(earlier, json.loads(json.dumps(self.recipe.as_json())))
            if different:
                raise OutgrowError(f"{self.run}: was trained with another {different}; resume with the same recipe")
        elif self.processes.first:
            if checkpoint.exists() or (self.run / WEIGHTS).exists():
                raise OutgrowError(f"{self.run}: holds a run; go on with it (--resume), or name another folder (--out)")
            # A run killed before its first checkpoint may be started again; somebody else's files stay.
            log, recipe = self.run / LOG_NAME, self.run / RECIPE
            if log.exists() and log.stat().st_size and not _begins_with(log, b'{"event"'):
                raise OutgrowError(f"{log}: not the log of a run; name another folder (--out)")
            if recipe.exists() and not log.exists():
                raise OutgrowError(f"{recipe}: not of a run; name another folder (--out)")

    @contextmanager
    def take_folder(self) -> Iterator[None]:
        """Makes the folder this run's, and nobody else's while it lasts."""
        if not self.processes.first:
            yield
            return
        self.run.mkdir(parents=True, exist_ok=True)
        with open(self.run / LOG_NAME, "a") as log:
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system frees it however the process ends
            except OSError:
                raise OutgrowError(f"{self.run}: another process trains here; name another folder (--out)") from None
            self._check_folder()
            if not self._resume:
                log.truncate(0)
                write_whole(self.run / RECIPE, [json.dumps(self.recipe.as_json(), indent=1) + "\n"])
            yield

    def _recordable(self) -> bool:
        """Whether all updates are alike and need nothing from the host on the way."""
        how = self.recipe.train
        alike = all((sizes == sizes[0]).all() for sizes in self._sizes)
        return bool(alike) and self.processes.count == 1 and not (how.multiplicity or how.micro_batch)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def tell(self, event: str, **values: Any) -> None:
        """Logs and reports what happened."""
        if not self.processes.first:
            return
        line = {"event": event, "update": self.state.progress.update, **values, "seconds": round(self.seconds, 3)}
        with open(self.run / LOG_NAME, "a") as stream:
            stream.write(json.dumps(line) + "\n")
        self._watch(line)

    def train(self) -> Trained:
        how = self.recipe.train
        self.tell(
            "start",
            recipe=self.recipe.as_json(),
            parameters=sum(p.numel() for p in self.model.parameters()),
            device=str(self.processes.device),
            processes=self.processes.count,
            data=self.data,
        )
        with _interruption() as interrupted:
            pace = _Pace(self.state.progress.update)
            while not (stopped := self._reason_to_stop(interrupted())):
                # Slow updates are all logged, so that a person sees it move; many processes have to agree on which.
                slow = self.processes.count == 1 and pace.idle > _PATIENCE
                logged = (self.state.progress.update + 1) % how.log_every == 0 or slow
                trouble, numbers = self._update(logged)
                done = self.state.progress.update
                if logged and not trouble:
                    self.tell("update", **numbers, **pace.measure(done, how.batch), **self._about(done))
                if not trouble and (done % how.validate_every == 0 or done == how.updates):
                    trouble = self._look()
                if trouble:
                    self._recover(trouble)
        return self._finish(stopped)

    def _put_down(self) -> None:
        """Lets the state know of puzzles that stay for several updates."""
        self.state.carried = {
            f"{number}/{name}": tensor
            for number, carried in enumerate(self._carried)
            for name, tensor in carried.as_tensors().items()
        }

    def _take_up(self) -> None:
        """Puzzles that stay for several updates, as the state has them."""
        for number, carried in enumerate(self._carried):
            found = {n.partition("/")[2]: t for n, t in self.state.carried.items() if n.startswith(f"{number}/")}
            try:
                carried.restore(found, self.processes.device)
            except (KeyError, ValueError) as error:
                raise DamagedFile(f"{self.run / CHECKPOINT}: not a checkpoint of this recipe ({error})") from None

    def _reason_to_stop(self, interrupted: bool) -> str:
        """Why the run ends here, as the first process sees it; '' if it goes on.

        Asked before every update, also the first: a run that was killed after its last validation has nothing left to learn.
        """
        how, progress = self.recipe.train, self.state.progress
        reasons = {
            "done": progress.update >= how.updates,
            "patience": 0 < how.patience <= progress.stale,
            "interrupted": interrupted,
            "time": 0 < how.max_seconds < self.seconds,
        }
        holding = [number for number, holds in enumerate(reasons.values(), start=1) if holds]
        return ("", *reasons)[self.processes.agree(holding[0] if holding else 0)]

    def _about(self, done: int) -> dict[str, Any]:
        rate = learning_rate(self.recipe.train, done - 1) * 0.5**self.state.progress.recoveries
        return {
            "lr": rate,
            "epoch": round(done / self._batches().updates_per_epoch, 4),
            "memory_gib": _memory(self.processes.device),
        }

    def _batches(self) -> Order:
        """The order of batches; another one after each recovery."""
        recoveries = self.state.progress.recoveries
        if self._order is None or self._order[0] != recoveries:
            seed = (self.recipe.train.seed, recoveries)
            data = self.recipe.data
            order = Order(self._sizes, self.recipe.train.batch, seed, data.shares, data.train)
            self._order = (recoveries, order)
        return self._order[1]

    def _update(self, judged: bool) -> tuple[str, dict[str, float]]:
        """One gradient update. What went wrong, if anything did (then nothing was changed), and what was measured."""
        how, progress, processes = self.recipe.train, self.state.progress, self.processes
        update = progress.update
        together = self._batches().batch(update)
        draw = None
        if self.model.max_values is not None:  # drawn for all processes together: they see what one alone would
            seed = (how.seed, progress.recoveries, update, 1)
            draw = draw_values(len(together), self.puzzles.max_values, self.model.max_values, seed)[
                processes.rank :: processes.count
            ]
        elif isinstance(self.model, NodeModel) and self.model.marked:
            draw = draw_marks(len(together), (how.seed, progress.recoveries, update, 1))[
                processes.rank :: processes.count
            ]
        # Drawn for all processes and parts of a batch together.
        data, drawn = self.recipe.data, (how.seed, progress.recoveries, update)
        given = draw_given(
            self.puzzles.num_variables[together],
            (*drawn, 3),
            data.more_givens,
            data.untouched,
            data.remask,
        )
        free = draw_steps(how.free_steps, (*drawn, 4))
        carried, new, arrived = None, np.zeros(0, np.bool_), None
        if self._carried:
            carried = self._carried[self._batches().set_of(update)]
            new = carried.renew(together, *self._draw_givens(together, given), draw, (*drawn, 6))
            together, draw, given = carried.puzzles.copy(), carried.draws, None
        mine = together[processes.rank :: processes.count]
        size = how.micro_batch or len(mine)
        torch.manual_seed(seed_for(how.seed, progress.recoveries, update, processes.rank, 2))
        self.model.train()
        total, final, boards = torch.zeros((), device=processes.device), torch.zeros((), device=processes.device), 0.0
        for at in range(0, len(mine), size):
            part = mine[at : at + size]
            share = len(part) / len(mine)
            batch = self.puzzles.batch(part, processes.device)
            if given is not None:
                batch = self._give(batch, given, together, part)
            if carried is not None:
                batch = dataclasses.replace(
                    batch,
                    givens=torch.from_numpy(carried.givens).to(processes.device),
                    solutions=torch.from_numpy(carried.targets).to(processes.device),
                )
            chosen = None
            if draw is not None:
                chosen = torch.from_numpy(draw[at : at + size, : batch.max_values].copy()).to(processes.device)
            csps = [self.puzzles.csps[i] for i in part]
            last = at + size >= len(mine)
            wait = (
                self.objective.no_sync()
                if isinstance(self.objective, DistributedDataParallel) and not last
                else nullcontext()
            )
            with wait:
                if self.replay is not None:
                    going = None if carried is None else (carried.states, torch.from_numpy(new).to(processes.device))
                    losses = self.replay.backward(batch, chosen, free, going)
                else:
                    start = None
                    if carried is not None:
                        begun = self._begin(batch, chosen)
                        start = carried.go_on(begun, _count_nodes(batch, begun), new)
                    losses = self.objective(batch, csps, chosen, free, start)
                    (losses.total * share).backward()
            if carried is not None:
                states = States(*(t.clone() for t in losses.states))
                arrived = states, _count_nodes(batch, states), losses.target, losses.solved
            total += losses.total.detach() * share
            final += losses.final * share
            if judged:
                boards += float(judge_output(losses.output, batch, csps).mean()) * share
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), how.clip or math.inf)
        # One wait for the device, not three.
        numbers = torch.stack([total, final, norm.to(total.dtype)]).tolist()
        loss, final_loss, gradient, accuracy = processes.mean(*numbers, boards)
        if update == 0:
            progress.first_loss = loss if math.isfinite(loss) else 0.0
        if not math.isfinite(loss):
            return "the loss is not finite", {}
        if not math.isfinite(gradient):
            return "the gradient is not finite", {}
        steps = how.steps or self.recipe.model.steps
        guessing = max(progress.first_loss, steps * self.model.guessing(self.puzzles.max_values))
        if loss > _DIVERGED * guessing:
            return f"the loss is {loss:.4g}, far above that of guessing", {}
        if carried is not None and arrived is not None:
            carried.settle(*arrived[:2], arrived[2].cpu().numpy(), arrived[3].cpu().numpy(), (*drawn, 5))
        self.state.step()
        return "", {"loss": loss, "final_loss": final_loss, "grad_norm": gradient, "accuracy": accuracy}

    def _draw_givens(
        self, puzzles: npt.NDArray[np.int64], given: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None
    ) -> tuple[list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]]:
        """The givens of each puzzle, as they were drawn, and its solution."""
        givens, solutions = self.puzzles.flat(puzzles)
        assert solutions is not None, "a loss needs solutions"
        if given is not None:
            givens = np.where(given[0], solutions, np.where(given[1], 0, givens))
        ends = np.cumsum(self.puzzles.num_variables[puzzles])[:-1]
        return np.split(givens, ends), np.split(solutions, ends)

    def _give(
        self,
        batch: Batch,
        given: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
        together: npt.NDArray[np.int64],
        part: npt.NDArray[np.int64],
    ) -> Batch:
        """The batch of `part` with the givens that were drawn for the batch of all processes."""
        ends = np.cumsum(self.puzzles.num_variables[together])[:-1]
        place = {int(puzzle): i for i, puzzle in enumerate(together)}
        more, fewer = (
            torch.from_numpy(np.concatenate([parts[place[int(p)]] for p in part])).to(batch.givens.device)
            for parts in (np.split(flags, ends) for flags in given)
        )
        assert batch.solutions is not None
        givens = torch.where(more, batch.solutions, batch.givens.masked_fill(fewer, 0))
        return dataclasses.replace(batch, givens=givens)

    def _recover(self, reason: str) -> None:
        """Back to the last good state, with half the learning rate and other batches."""
        at, times = self.state.progress.update, self.state.progress.recoveries + 1
        self.state.restore(*self._good)
        self.state.progress.recoveries = times
        self.state.progress.seconds = self.seconds
        self._take_up()
        # The good state has to remember it, or the same update would fail for ever.
        self._good = self.state.snapshot()
        self.tell("recover", reason=reason, failed=at, back_to=self.state.progress.update, recoveries=times)
        if times > self.recipe.train.recoveries:
            raise OutgrowError(
                f"{self.run}: training diverges ({reason} at update {at}, {times} times over); "
                f"lower train.lr (now {self.recipe.train.lr:g}) or train.clip, or raise train.warmup"
            )

    def _look(self) -> str:
        """Validates, averages, writes the checkpoint. What is wrong with the weights, if anything is (then nothing was written)."""
        how, state = self.recipe.train, self.state
        progress = state.progress
        if not state.is_finite():
            return "the weights are not finite"
        found = self._validate(state.ema or None) if self.processes.first and self.valid is not None else None
        if self.processes.agree(found is not None and not math.isfinite(found.loss)):
            return "the loss of validation is not finite"
        if found is not None:
            self.tell(
                "validate",
                weights="ema" if state.ema else "last",
                board=found.board,
                pointwise=found.pointwise,
                loss=found.loss,
            )
            progress.boards.append(found.board)
            if (found.board, -found.loss) > (progress.best_board, -progress.best_loss):
                progress.best_board, progress.best_loss, progress.stale = found.board, found.loss, 0
                state.keep_best()
                self._write_weights("best", state.best, found)
            else:
                progress.stale += 1
            if progress.flat_at < 0 and _is_flat(progress.boards, how.flat_window, how.flat_gain):
                progress.flat_at = progress.update
                if how.average:
                    self.tell("average")
        if how.average and progress.flat_at >= 0:
            state.add_to_average()
        progress.seconds = self.seconds
        self._put_down()
        self._good = state.snapshot()
        if self.processes.first:
            state.save(self.run / CHECKPOINT, self.recipe.as_json(), self.data)
        return ""

    def _validate(self, weights: Mapping[str, Tensor] | None) -> Validation:
        assert self.valid is not None
        own = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, parameter in self.shadow.named_parameters():
                parameter.copy_((weights or own)[name])
        return validate(self.shadow, self.valid, self.processes.device)

    def _finish(self, stopped: str) -> Trained:
        """Chooses the weights on the validation sets and writes them."""
        state = self.state
        if not state.is_finite():  # stopped before the next loss could tell
            state.restore(*self._good)
            self._take_up()
        state.progress.seconds = self.seconds
        target = self.run / WEIGHTS
        self._put_down()
        if stopped == "interrupted":
            if self.processes.first:
                state.save(self.run / CHECKPOINT, self.recipe.as_json(), self.data)
            self.tell("end", chosen="", reason=stopped)
            return Trained(self.run, target, "", None, self.seconds, stopped)
        choices = {"last": dict(state.weights), "ema": state.ema, "average": state.average, "best": state.best}
        choices = {name: weights for name, weights in choices.items() if weights}
        scores: dict[str, Validation] = {}
        if self.processes.first and self.valid is not None:
            scores = {name: self._validate(weights) for name, weights in choices.items()}
        # The first of equals: an average of many updates before a single one.
        preferred = [name for name in ("average", "ema", "best", "last") if name in choices]
        chosen = max(preferred, key=lambda n: (scores[n].board, -scores[n].loss)) if scores else preferred[0]
        if self.recipe.train.choose in choices:
            chosen = self.recipe.train.choose
        if self.processes.first:
            state.save(self.run / CHECKPOINT, self.recipe.as_json(), self.data)
            self._write_weights(chosen, choices[chosen], scores.get(chosen), scores)
        result = scores.get(chosen)
        self.tell(
            "end",
            chosen=chosen,
            reason=stopped,
            **({"board": result.board, "pointwise": result.pointwise} if result else {}),
            candidates={name: score.board for name, score in scores.items()},
        )
        return Trained(self.run, target, chosen, result, self.seconds, stopped)

    def _write_weights(
        self,
        chosen: str,
        weights: Mapping[str, Tensor],
        score: Validation | None,
        candidates: Mapping[str, Validation] | None = None,
    ) -> None:
        info = {
            **provenance(str(self.processes.device)),
            "recipe": self.recipe.as_json(),
            "seed": self.recipe.train.seed,
            "update": self.state.progress.update,
            "seconds": round(self.seconds, 1),
            "processes": self.processes.count,
            "data": self.data,
            "chosen": chosen,
            "chosen_on": list(self.recipe.data.valid),
            "validation": None if score is None else vars(score),
            "candidates": {name: found.board for name, found in (candidates or {}).items()},
        }
        save_weights(self.run / WEIGHTS, self.model, info, weights)


def validate(
    model: Model, puzzles: Puzzles, device: torch.device | str = "cpu", steps: int | None = None
) -> Validation:
    """The model on puzzles with known solutions, without autocast or dropout."""
    model.eval()
    solved, right, loss = 0, 0.0, 0.0
    for part in puzzles.portions(_VALIDATION_NODES):
        with torch.no_grad():
            batch = puzzles.batch(part, device)
            prepared = model.prepare(batch)
            *_, scores = model.run(prepared, steps)  # pyright: ignore[reportArgumentType]
            assert batch.solutions is not None, "validation needs solutions"
            losses = model.loss(scores.float().unsqueeze(0), prepared, batch.solutions)  # pyright: ignore[reportArgumentType]
            output = scores.argmax(1) + 1
            found = judge_output(output, batch, [puzzles.csps[i] for i in part])
        solved += int(found.sum())
        matches = (output == batch.solutions).cpu().numpy()
        right += sum(float(m.mean()) for m in batch.split(matches))
        loss += float(losses.sum())
    return Validation(solved / len(puzzles), right / len(puzzles), loss / len(puzzles))


def _check_sets(recipe: DataRecipe, found: Mapping[str, Dataset | Examples]) -> None:
    """One model learns one kind of puzzle, in a form that it has, and is not chosen on what tests it."""
    first = next(iter(found))
    for name, dataset in found.items():
        if dataset.puzzle != found[first].puzzle:
            raise OutgrowError(
                f"{first} holds {found[first].puzzle}, {name} {dataset.puzzle}; a model learns one of them"
            )
        forms = get_puzzle(dataset.puzzle).forms if dataset.puzzle else [recipe.form]
        if recipe.form not in forms:
            raise OutgrowError(f"data.form is {recipe.form!r}; {dataset.puzzle} has {', '.join(forms)}")
    for name in recipe.valid:
        if Path(name).stem.endswith(("-test", "-hard")):
            raise OutgrowError(f"data.valid names {name}: a test set chooses no weights")


def _start_from(model: Model, path: str) -> None:
    """Given weights; value embeddings beyond theirs keep their fresh values."""
    loaded = load_weights(path).model
    if loaded.kind != model.kind or loaded.schema != model.schema:
        raise OutgrowError(
            f"{path}: a {loaded.kind} model with {loaded.schema}; the recipe has a {model.kind} one with {model.schema}"
        )
    found = loaded.state_dict()
    wanted = model.state_dict()
    name = "embeddings.weight"
    if name in found and len(found[name]) < len(wanted[name]) and found[name].shape[1:] == wanted[name].shape[1:]:
        found[name] = torch.cat([found[name], wanted[name][len(found[name]) :]])
    try:
        check_fit(found, wanted)
    except ValueError as error:
        raise OutgrowError(f"{path}: does not fit the recipe's model ({error})") from None
    model.load_state_dict(found)


def _is_flat(boards: Sequence[float], window: int, gain: float) -> bool:
    """Whether the best of the last `window` validations is hardly better than the best before."""
    return len(boards) > window and max(boards) > 0 and max(boards[-window:]) - max(boards[:-window]) < gain


def _count_nodes(batch: Batch, states: States) -> npt.NDArray[np.int64]:
    """How many nodes each puzzle (B,) has: one a variable, or one for each of its values."""
    counts = np.array(batch.sizes, dtype=np.int64).reshape(-1, 2)
    nodes = counts.prod(1)
    return nodes if len(states.hidden) == nodes.sum() else counts[:, 0]


def _begins_with(path: Path, start: bytes) -> bool:
    with open(path, "rb") as stream:
        return stream.read(len(start)) == start


def _first_difference(one: Mapping[str, Any], other: Mapping[str, Any], where: str = "") -> str:
    for key in (*one, *other):
        a, b = one.get(key), other.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            inside = _first_difference(a, b, f"{where}{key}.")
            if inside:
                return inside
        elif a != b:
            return f"{where}{key}"
    return ""


def _memory(device: torch.device) -> float:
    """The most that was in use so far, in GiB."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**30, 3)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3)


class _Pace:
    """Puzzles per second since the last look."""

    def __init__(self, update: int) -> None:
        self._update, self._time = update, time.monotonic()

    @property
    def idle(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self._time

    def measure(self, update: int, batch: int) -> dict[str, float]:
        now = time.monotonic()
        pace = max(0, update - self._update) * batch / max(now - self._time, 1e-9)
        self._update, self._time = update, now
        return {"puzzles_per_second": round(pace, 1)}


@contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM end the run after the update at hand; a second one at once."""
    caught: list[int] = []

    def remember(number: int, frame: object) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    earlier: dict[int, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            earlier[number] = signal.signal(number, remember)
    except ValueError:  # not the main thread: signals are somebody else's
        pass
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
