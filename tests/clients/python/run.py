"""Runs the clients against worlds of the server: `python run.py PORT [NAME]...`.

`IDEM_DRAW` picks about one in four of them, the same ones for the same value.
"""

import os
import subprocess
import sys
import zlib

import by_node
import clients

kinds = clients.CLIENTS + (by_node.CLIENTS if by_node.FOLDER else [])
kinds = {kind.__name__: kind for kind in kinds}
names, beside = sys.argv[2:], None
if not names:
    # The models of adcp take most of a minute to load.
    slow = ["AdCp", "AdCpWebhook"]
    beside = subprocess.Popen([sys.executable, __file__, sys.argv[1], *slow])
    names = [name for name in kinds if name not in slow]
draw = os.environ.get("IDEM_DRAW")
for name in names:
    if draw is None or zlib.crc32(f"{draw} {name}".encode()) % 4 == 0:
        kinds[name]().report()
sys.exit(beside.wait() if beside else 0)
