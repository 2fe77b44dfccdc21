"""`python -m keras_transformer`: the command line."""

import sys

from keras_transformer.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
