"""Client of the redis test: redis.py ping|fill|save|digest|shutdown SOCKET.

fill runs random commands from a fixed seed against the server and against a model here, and compares each answer.
digest prints a hash of every key of the seeded data set; save also writes it to disk through a forked child.
"""

import hashlib
import random
import socket
import sys
import time


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.reader = self.socket.makefile("rb", 1 << 16)

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        out = [b"*%d\r\n" % len(words)]
        for word in words:
            out.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(out))

    def receive(self):
        line = self.reader.readline()
        if not line:
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self.reader.read(length + 2)[:-2]
        return [self.receive() for _ in range(int(rest))]

    def call(self, *words):
        self.send(*words)
        return self.receive()


def expect(command, got, wanted):
    if got != wanted:
        sys.exit(f"{command}: answered {str(got)[:200]}, expected {str(wanted)[:200]}")


def random_bytes(rng):
    """1 byte to 64 KiB; each power of two is equally likely."""
    length = rng.randint(1, 1 << rng.randint(0, 16))
    return rng.randbytes(length)


def fill(client):
    rng = random.Random(20260101)
    model = {}
    counts = {}
    for step in range(6000):
        key = b"s:%d" % rng.randrange(1500)
        command = rng.choices(
            ["set", "get", "append", "del", "strlen", "setrange", "expire"], [30, 30, 12, 10, 8, 6, 4]
        )[0]
        counts[command] = counts.get(command, 0) + 1
        if command == "set":
            model[key] = random_bytes(rng)
            expect(command, client.call("set", key, model[key]), b"OK")
        elif command == "get":
            expect(command, client.call("get", key), model.get(key))
        elif command == "append":
            tail = random_bytes(rng)[:4096]
            model[key] = model.get(key, b"") + tail
            expect(command, client.call("append", key, tail), len(model[key]))
        elif command == "del":
            expect(command, client.call("del", key), int(model.pop(key, None) is not None))
        elif command == "strlen":
            expect(command, client.call("strlen", key), len(model.get(key, b"")))
        elif command == "setrange":
            at, piece = rng.randrange(20000), rng.randbytes(rng.randint(1, 300))
            old = model.get(key, b"")
            model[key] = old[:at].ljust(at, b"\0") + piece + old[at + len(piece) :]
            expect(command, client.call("setrange", key, at, piece), len(model[key]))
        elif key in model:  # expires at once: an expiry time in the past deletes the key
            expect(command, client.call("pexpire", key, 0), 1)
            del model[key]
    for number in range(200):
        name = b"l:%d" % (number % 20)
        items = [rng.randbytes(rng.randint(1, 400)) for _ in range(20)]
        client.call(rng.choice(["lpush", "rpush"]), name, *items)
        client.call("hset", b"h:%d" % (number % 10), *[word for item in items for word in (item[:8], item)])
        client.call("sadd", b"S:%d" % (number % 10), *items)
        client.call("zadd", b"z:%d" % (number % 10), *[word for i, item in enumerate(items) for word in (i, item)])
        if number % 3 == 0:
            client.call("ltrim", name, 3, -4)
            client.call("lpop", name)
    for key, value in model.items():
        expect("get", client.call("get", key), value)
    for command in sorted(counts):
        print(command, counts[command])
    print("keys", len(model), "bytes", sum(map(len, model.values())))


def digest(client):
    keys, cursor = set(), b"0"
    while True:
        cursor, page = client.call("scan", cursor, "count", 1000)
        keys.update(key for key in page if key[1:2] == b":")  # leaves out the keys of redis-benchmark, which are random
        if cursor == b"0":
            break
    for key in sorted(keys):
        kind = client.call("type", key)
        if kind == b"string":
            value = [client.call("get", key)]
        elif kind == b"list":
            value = client.call("lrange", key, 0, -1)
        elif kind == b"hash":
            flat = client.call("hgetall", key)
            value = [b"=".join(pair) for pair in sorted(zip(flat[::2], flat[1::2]))]
        elif kind == b"set":
            value = sorted(client.call("smembers", key))
        else:
            value = client.call("zrange", key, 0, -1, "withscores")
        total = hashlib.sha256(b"".join(b"%d:%s" % (len(item), item) for item in value))
        print(key.decode(), kind.decode(), len(value), total.hexdigest())


def info(client, field):
    for line in client.call("info", "persistence").decode().split("\r\n"):
        if line.startswith(field + ":"):
            return line.split(":", 1)[1]
    sys.exit(f"INFO has no {field}")


def save(client):
    client.call("bgsave")
    rng = random.Random(7)
    for number in range(300):  # writes while the child saves, so that pages are copied
        client.call("set", "x%d" % number, random_bytes(rng))
    deadline = time.monotonic() + 20
    while info(client, "rdb_bgsave_in_progress") != "0":
        if time.monotonic() > deadline:
            sys.exit("BGSAVE did not end")
        time.sleep(0.02)
    expect("bgsave", info(client, "rdb_last_bgsave_status"), "ok")
    digest(client)


def main():
    action, path = sys.argv[1:]
    if action == "ping":
        try:
            expect("ping", Client(path).call("ping"), b"PONG")
        except OSError as error:
            sys.exit(str(error))
    elif action == "shutdown":
        client = Client(path)
        client.send("shutdown", "nosave")
        client.socket.recv(1)  # end of file once the server is gone
    else:
        {"fill": fill, "save": save, "digest": digest}[action](Client(path))


main()
