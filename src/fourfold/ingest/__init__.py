"""Reads folders of files, cuts them into chunks and keeps the store in step with them."""
