"""One reader for each file format: bytes or text in, a Document out."""
