"""What the host starts for each event: `python -I -S hook.py [Event]`.

Kept to what every Python can read, and to nothing that takes time: it is compiled anew each time it runs.
"""

import gc
import os
import sys

# A process of a few hundredths of a second leaves nothing worth collecting.
gc.disable()
if os.environ.get("CLAUDE_SMART_DISABLE") != "1" and sys.version_info >= (3, 11):
    # Last: a folder of packages may hold old copies of what Python brings along.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        from alma.hooks.run import main
    except Exception:  # noqa: BLE001 - a half-removed installation must not fail the person's session
        sys.exit(0)
    main()
