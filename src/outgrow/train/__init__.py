"""Loss, loop, averaging, checkpoints, and the curves of a run."""
