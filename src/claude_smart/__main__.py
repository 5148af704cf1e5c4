"""`python -m claude_smart`."""

import sys

from .cli import main

sys.exit(main())
