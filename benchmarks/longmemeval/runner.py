"""Run the benchmark by its first name: `python -m benchmarks.longmemeval.runner`."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
