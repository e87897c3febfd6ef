"""What every HTTP server of Fourfold shares, independent of the protocol it serves."""
