"""Fastest float32 matrix product of PyTorch, for the machine's peak. Runs in `pytorch/`."""

import common as c
import numpy as np
import torch

from training.benchmarks.matrix_speed import fastest_product

torch.set_num_threads(c.THREADS)


def by_torch(left: np.ndarray, right: np.ndarray):
    """Returns a function that multiplies two arrays."""
    tensors = torch.from_numpy(left), torch.from_numpy(right)
    return lambda: torch.mm(*tensors)


c.print_row(fastest_product({"torch": by_torch}, c.THREADS))
