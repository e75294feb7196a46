"""`python -m workloads decoder --steps 40 --allocator levee`; see cli.py."""

import sys

from .cli import main

sys.exit(main())
