"""Reads folders of files, splits them into chunks and synchronizes the store with them."""
