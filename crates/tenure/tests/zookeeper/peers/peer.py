"""A kazoo program that locks as it is told: peer.py CONNECT KIND PATH, then one order per line."""

import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

connect, kind, path = sys.argv[1:]
client = KazooClient(hosts=connect, timeout=2.0)
client.start(timeout=20)
if kind == "read":
    lock = client.ReadLock(path, "peer")
elif kind == "write":
    lock = client.WriteLock(path, "peer")
elif kind == "patterns":
    # As the kazoo documentation says it for locks that are shared with other programs.
    lock = client.Lock(path, "peer", extra_lock_patterns=["-lock-"])
else:
    lock = client.Lock(path, "peer")


def say(word):
    print(word, flush=True)


def attempt():
    try:
        return lock.acquire(timeout=0.2)
    except LockTimeout:
        return False


def count(times, file):
    """Adds to the number in a file, as nobody should without a lock."""
    for _ in range(times):
        lock.acquire()
        with open(file) as handle:
            number = int(handle.read())
        time.sleep(0.001)
        with open(file, "w") as handle:
            handle.write(str(number + 1))
        lock.release()


say("ready")
for line in sys.stdin:
    words = line.split()
    if words[0] == "acquire":
        lock.acquire()
        say("acquired")
    elif words[0] == "try":
        say("acquired" if attempt() else "busy")
    elif words[0] == "release":
        lock.release()
        say("released")
    elif words[0] == "count":
        count(int(words[1]), words[2])
        say("counted")
