"""Hooks of coding agents: their events, the answers, and the work in between."""
