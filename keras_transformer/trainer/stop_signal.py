"""A signal that ends what is being done at once."""

import signal


class StopSignal(KeyboardInterrupt):
    """Raised in the main thread where a signal needs no patience: nothing is there to be saved.

    It is a `KeyboardInterrupt` whichever signal it was, so that it passes all that handles errors
    and meets all that tidies up.

    Attributes:
        signal: its number.
        exit_code: of the process: 128 more than the signal's number, as shells have it.
    """

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.signal = number
        self.exit_code = 128 + number
