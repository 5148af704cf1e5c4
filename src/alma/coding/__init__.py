"""Sessions of coding agents: their events, and what the events show about the user's preferences."""
