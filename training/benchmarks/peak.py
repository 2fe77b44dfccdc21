"""The machine's matrix-multiply peak, from several libraries."""

from training.benchmarks.cells import Contender
from training.benchmarks.comparison import run_peer
from training.benchmarks.processes import MeasurementError

_PYTORCH = Contender("PyTorch", python="vt", script="gemm.py")


def find_peak(processes, peers=None, warn=print):
    """Returns the row of the fastest float32 product that any library makes here.

    They are NumPy, TensorFlow with oneDNN and without, and with the peers PyTorch, so that the
    utilization of all is measured against the same number.

    Args:
        processes: the `Processes`, with as many threads as will be measured with.
        peers: the folder of the peers, or None.
        warn: is called with a line about a library that failed.
    """
    rows = [
        processes.measure("peak", {"TF_ENABLE_ONEDNN_OPTS": setting}, threads=processes.threads)
        for setting in ("0", "1")
    ]
    if peers is not None:
        try:
            rows += run_peer(processes, _PYTORCH, peers)
        except MeasurementError as error:
            warn(f"matrix products: PyTorch is left out, {error}")
    return max(rows, key=lambda row: row["value"]) | {"threads": processes.threads}
