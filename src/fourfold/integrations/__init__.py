"""Other systems that Fourfold reads from or plugs into."""
