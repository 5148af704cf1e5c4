import sys

from .serving import main

sys.exit(main())
