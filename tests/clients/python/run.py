"""Runs the clients against worlds of the server: `python run.py PORT [NAME]...`."""

import subprocess
import sys

import by_node
import clients

kinds = clients.CLIENTS + (by_node.CLIENTS if by_node.FOLDER else [])
kinds = {kind.__name__: kind for kind in kinds}
names, beside = sys.argv[2:], None
if not names:
    # The models of adcp take most of a minute to load.
    beside = subprocess.Popen([sys.executable, __file__, sys.argv[1], "AdCp"])
    names = [name for name in kinds if name != "AdCp"]
for name in names:
    kinds[name]().report()
sys.exit(beside.wait() if beside else 0)
