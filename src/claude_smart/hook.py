"""The hook without the plugin's launcher: `python -I -S hook.py [Event] [--home DIR]`.

The data folder is DIR, or the one in the home folder that the system records.

It uses only syntax that every Python 3 can parse, and does nothing slow: it is compiled again on every run.
"""

import gc
import os
import sys

# The process is too short-lived for garbage collection to pay off.
gc.disable()
if os.environ.get("CLAUDE_SMART_DISABLE") != "1" and sys.version_info >= (3, 11):
    # Last on the path: a package folder may contain old copies of standard library modules.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        from alma.hooks.run import main
    except Exception:  # noqa: BLE001 - a half-removed installation must not fail the person's session
        sys.exit(0)
    main()
