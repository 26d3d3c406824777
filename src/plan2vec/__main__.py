"""`python -m plan2vec` is the same program as `plan2vec`."""

import sys

from plan2vec.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
