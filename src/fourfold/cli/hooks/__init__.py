"""Hooks of coding agents: what they send, what they may be answered, and what happens in between."""
