"""Hooks for coding agents: record sessions and show the rules learned from them."""
