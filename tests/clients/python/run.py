"""Runs the clients against worlds of the server: `python run.py PORT [NAME]...`."""

import sys

import by_node
import clients

for kind in clients.CLIENTS + (by_node.CLIENTS if by_node.FOLDER else []):
    if kind.__name__ in sys.argv[2:] or not sys.argv[2:]:
        kind().report()
