"""The MCP server: an agent's memory. Thin adapters over `Memory`; the SDK is imported by this package only."""
