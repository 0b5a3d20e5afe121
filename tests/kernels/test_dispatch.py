"""Who asks for fused kernels by name hears why there are none."""

from __future__ import annotations

import pytest
import torch
from test_fused import make_neighbors, make_roster

from outgrow.kernels import average_messages, exchange, strongest_messages, update_states, use_engine


def send(width: int, layers: int, dropout: float = 0.0, dtype: torch.dtype = torch.float32) -> None:
    rows = torch.randn(2, width, dtype=dtype)
    square = rows.new_ones(width, width), rows.new_ones(width)
    average_messages(rows, rows, make_neighbors([[0, 1], [1]], 2), [square] * layers, dropout=dropout)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"width": 4, "layers": 2, "dtype": torch.float64}, "not in double"),
        ({"width": 300, "layers": 0}, "300 numbers are too wide"),
        ({"width": 4, "layers": 0, "dropout": 0.5}, "no dropout"),
        ({"width": 160, "layers": 2}, "160 numbers with layers are too wide"),
        ({"width": 4, "layers": 5}, "1 to 3 layers an edge behind the first, not 4"),
        ({"width": 4, "layers": 1}, "not 0"),
    ],
)
def test_what_does_not_fit_is_said(how: dict[str, object], why: str) -> None:
    pytest.importorskip("triton")
    with use_engine("fused"), pytest.warns(RuntimeWarning, match=why):
        send(**how)  # type: ignore[arg-type]
    for engine in ("auto", "reference"):  # who did not ask is not told
        with use_engine(engine):
            send(**how)  # type: ignore[arg-type]


def test_other_kernels_say_so_too() -> None:
    pytest.importorskip("triton")
    rows, square = torch.randn(2, 4), (torch.ones(4, 4), torch.ones(4))
    norms = [(torch.ones(n), torch.ones(n)) for n in (16, 16, 4)]
    with use_engine("fused"):
        with pytest.warns(RuntimeWarning, match="no dropout"):
            strongest_messages(rows, rows, make_neighbors([[0], [1]], 2), 0.5)
        with pytest.warns(RuntimeWarning, match="no dropout"):
            exchange(rows, torch.randn(2, 5), [square], make_roster(2, [[[0, 1]]]), rows, 0.5)
        with pytest.warns(RuntimeWarning, match="not in double"):
            update_states(
                *(torch.randn(2, n).double() for n in (16, 16, 4)), [(a.double(), b.double()) for a, b in norms], 1e-5
            )
