from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def known_commit() -> Iterator[None]:
    """Each file of weights names the commit: asking git for it takes longer than learning them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTGROW_COMMIT", "tested")
        yield


@pytest.fixture(autouse=True)
def seed() -> None:
    """Models made outside of a run are the same every time."""
    torch.manual_seed(0)
