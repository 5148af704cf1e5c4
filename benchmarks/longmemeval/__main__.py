"""Run the benchmark: `python -m benchmarks.longmemeval`."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
