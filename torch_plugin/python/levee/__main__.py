"""``python -m levee`` is the command ``levee``."""

import sys

from levee.cli import main

if __name__ == "__main__":
    sys.exit(main())
