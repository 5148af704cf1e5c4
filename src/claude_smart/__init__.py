"""`claude-smart`: the plug-in for Claude Code, its installer and its commands."""
