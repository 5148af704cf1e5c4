"""`claude-smart`: the plugin for Claude Code, its installer and its commands."""
