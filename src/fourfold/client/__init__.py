"""A server of Fourfold as a Memory: the same methods and values over HTTP."""
