"""The servers of ci/bench apps, and the clients that drive them. Clients run on libc's malloc.

Each driver takes the folder in which its server listens, and a function that gives the server's resident KiB. It returns
{"seconds": of all requests, "p99_ms", "p999_ms", "end_kib": a second after everything was deleted}, and ends the server.
"""

import os
import random
import re
import socket
import subprocess
import time

from measure.fault import Broken

SOCKET = "server.sock"
START_S = 20
REST_S = 1.0
REDIS = ["redis-server", "--port", "0", "--unixsocket", f"FOLDER/{SOCKET}", "--save", "", "--appendonly", "no"]
MEMCACHED = ["memcached", "-A", "-s", f"FOLDER/{SOCKET}", "-t", "2", "-m", "256", "-U", "0"]
if os.geteuid() == 0:
    MEMCACHED += ["-u", "root"]


def connect(path):
    deadline = time.monotonic() + START_S
    while True:
        try:
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
            return client
        except OSError:
            client.close()
            if time.monotonic() > deadline:
                raise Broken(f"no server answers at {path} after {START_S} s") from None
            time.sleep(0.02)


def percentile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]


def redis_percentile(text, share):
    """The worst of the tests' latencies at `share` percent, in ms: redis-benchmark prints each as a distribution."""
    worst = 0.0
    for section in text.split("======")[2::2]:
        points = re.findall(r"^([\d.]+)% <= ([\d.]+) milliseconds", section, re.MULTILINE)
        over = [float(ms) for percent, ms in points if float(percent) >= share]
        if not over:
            raise Broken("redis-benchmark prints no distribution of latencies")
        worst = max(worst, over[0])
    return worst


def redis(folder, resident_kib):
    path = folder / SOCKET
    client = connect(path)
    command = ["redis-benchmark", "-s", str(path), "-n", "20000", "-c", "20", "-P", "4", "-r", "20000", "-d", "300"]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "-t", "set,get,lpush,hset,sadd,zadd,mset"], capture_output=True, text=True, timeout=300
    )
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise Broken(f"redis-benchmark ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    client.sendall(b"flushall sync\r\n")
    if not client.recv(100).startswith(b"+OK"):
        raise Broken("redis does not answer FLUSHALL")
    time.sleep(REST_S)
    found = {
        "seconds": seconds,
        "p99_ms": redis_percentile(done.stdout, 99),
        "p999_ms": redis_percentile(done.stdout, 99.9),
        "end_kib": resident_kib(),
    }
    client.sendall(b"shutdown nosave\r\n")
    client.recv(1)  # end of file once the server is gone
    return found


def memcached(folder, resident_kib):
    client = connect(folder / SOCKET)
    reader = client.makefile("rb", 1 << 16)
    rng, value, took = random.Random(5), b"x" * 8000, []
    began = time.perf_counter()
    for _ in range(30000):
        key = b"k%d" % rng.randrange(20000)
        size = rng.randint(1, 1 << rng.randint(3, 13)) % 8000
        request = b"set %s 0 0 %d\r\n%s\r\n" % (key, size, value[:size]) if rng.random() < 0.6 else b"get %s\r\n" % key
        sent = time.perf_counter()
        client.sendall(request)
        line = reader.readline()
        if line.startswith(b"VALUE"):
            reader.read(int(line.split()[3]) + len(b"\r\nEND\r\n"))
        elif line not in (b"END\r\n", b"STORED\r\n"):
            raise Broken(f"memcached answers {line[:80]!r}")
        took.append(time.perf_counter() - sent)
    seconds = time.perf_counter() - began
    client.sendall(b"flush_all\r\n")
    if reader.readline() != b"OK\r\n":
        raise Broken("memcached does not answer flush_all")
    time.sleep(REST_S)
    took.sort()
    found = {
        "seconds": seconds,
        "p99_ms": percentile(took, 0.99) * 1e3,
        "p999_ms": percentile(took, 0.999) * 1e3,
        "end_kib": resident_kib(),
    }
    client.sendall(b"shutdown\r\n")
    client.recv(1)
    return found
