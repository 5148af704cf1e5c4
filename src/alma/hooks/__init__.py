"""Hooks of coding agents: what a host tells is kept, and what was learned is told to it."""
