"""`python -m training.benchmarks`."""

import sys

from training.benchmarks.command import main

if __name__ == "__main__":
    sys.exit(main())
