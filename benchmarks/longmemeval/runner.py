"""Run the benchmark under its former name: `python -m benchmarks.longmemeval.runner`."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
