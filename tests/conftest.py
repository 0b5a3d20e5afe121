"""Tests run side by side on few cores: one thread each, or torch's threads wait for one another. Triton's kernels run in its interpreter
where there is no GPU."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when kernels are imported
