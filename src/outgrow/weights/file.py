"""Weights files: safetensors, with the model's configuration, its edge types and where it came from in the metadata."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.graphs import Schema
from outgrow.models import MODELS, Model, build_model
from outgrow.models.config import fill
from outgrow.writing import write_whole

__all__ = ["Loaded", "load_weights", "save_weights", "write_tensors"]

FORMAT = 1
_MAX_BYTES = 1 << 30
_MAX_TYPES = 256  # of edges


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model with its weights, and what its file says of them: recipe, seed, data, what chose them."""

    model: Model
    info: Mapping[str, Any]


def save_weights(
    path: str | Path, model: Model, info: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None
) -> None:
    """Writes the model (or `tensors` in place of its own weights), whole or not at all."""
    about = {
        "format": FORMAT,
        "kind": model.kind,
        "config": dataclasses.asdict(model.config),
        "schema": model.schema.as_json(),
        "info": dict(info),
    }
    write_tensors(path, tensors or model.state_dict(), about)


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """A safetensors file with `about` as JSON in its metadata, under a temporary name until it is whole."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One entry: safetensors writes several in any order, and the same weights are to make the same file.
    write_whole(path, save(plain, {"outgrow": json.dumps({**about, "sha256": _digest(plain, about)})}))


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; a file that was cut or changed since is refused."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_file():  # opening a pipe would wait for its writer
            raise DamagedFile(f"{path}: not a file")
        if size > _MAX_BYTES:
            raise DamagedFile(f"{path}: {size:,} bytes; the limit is {_MAX_BYTES:,}")
        with safe_open(path, framework="pt", device="cpu") as stored:
            metadata = stored.metadata() or {}
            # Copies: else the tensors are the file itself, and change with it.
            tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise DamagedFile(f"{path}: no such file") from None
    except (OSError, SafetensorError, ValueError, RuntimeError) as error:
        raise DamagedFile(f"{path}: not a safetensors file, or damaged ({_one_line(error)})") from None
    try:
        about = json.loads(metadata.get("outgrow", ""))
        if not isinstance(about, dict):
            raise ValueError("not a table")
        intact = about.pop("sha256", None) in (None, _digest(tensors, about))  # other programs write none
    except (ValueError, RecursionError):
        raise DamagedFile(f"{path}: not written by outgrow (its metadata does not say which model it is)") from None
    if not intact:
        raise DamagedFile(f"{path}: damaged (its content does not match its sha256)")
    return tensors, about


def load_weights(path: str | Path) -> Loaded:
    """The model a file holds, ready to solve; refuses one whose shapes do not fit its configuration.

    Weights of any precision are computed with in that of a fresh model, float32.
    """
    stored, about = read_tensors(path)
    if "checkpoint" in about:
        raise DamagedFile(f"{path}: a checkpoint, to go on with training; the run's weights are in weights.safetensors")
    if about.get("format") != FORMAT:
        raise DamagedFile(f"{path}: another format; this version reads format {FORMAT}")
    try:
        model = _build(about)
        info = _part(about, "info")
        wanted = model.state_dict()
        check_fit(stored, wanted)
        tensors = {name: tensor.to(wanted[name].dtype) for name, tensor in stored.items()}
        for name, tensor in tensors.items():
            if not tensor.isfinite().all():
                raise ValueError(f"{name} holds NaN or infinity")
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OutgrowError) as error:
        raise DamagedFile(f"{path}: does not fit a model ({_one_line(error)})") from None
    model.load_state_dict(tensors, assign=True)
    return Loaded(model.eval(), info)


def _build(about: Mapping[str, Any]) -> Model:
    """A model of that kind, configuration and schema, without memory for its weights: their shapes come first."""
    kind = str(about.get("kind"))
    if kind not in MODELS:
        raise ValueError(f"no model {kind[:40]!r}; there is {', '.join(MODELS)}")
    config: Any = fill(MODELS[kind][1], _part(about, "config"), "")
    stored = _part(about, "schema")
    schema = Schema.from_json(stored)
    found = schema.as_json()
    older = {"groups": [], "complete": []}  # of files from before there were groups
    if found != {**older, **stored} or sum(map(len, found.values())) > _MAX_TYPES:
        raise ValueError("its schema is no list of edge types")
    with torch.device("meta"):
        return build_model(schema, config)


def _part(about: Mapping[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(about.get(key), dict):
        raise ValueError(f"its metadata has no {key}")
    return about[key]


def check_fit(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raises ValueError at the first tensor that is missing, unknown or of another shape or type."""
    for name in wanted:
        if name not in found:
            raise ValueError(f"{name} is missing")
        if found[name].shape != wanted[name].shape:
            raise ValueError(f"{name} is {_shape(found[name])}, its configuration says {_shape(wanted[name])}")
        if not found[name].is_floating_point():
            raise ValueError(f"{name} is {found[name].dtype}")
    unknown = set(found) - set(wanted)
    if unknown:
        raise ValueError(f"{sorted(unknown)[0]} belongs to no part of it")


def _digest(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> str:
    """sha256 of the tensors, names, types and shapes included, and of what is said about them."""
    digest = hashlib.sha256(json.dumps(about).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
