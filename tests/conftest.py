"""Tests run side by side on few cores: one thread each, or torch's threads wait for one another."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported
