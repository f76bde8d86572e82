"""Client of the memcached test: memcached.py SOCKET.

Eight connections at a time, each in a thread with its own keys and a model of their values; each answer is compared
with the model. Connections are closed and reopened on the way. Prints what was done, and a hash of the final data.
"""

import hashlib
import random
import socket
import sys
import threading

CLIENTS = 8
ROUNDS = 4
STEPS = 450
failures = []
lines = [None] * CLIENTS


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.reader = self.socket.makefile("rb", 1 << 16)

    def line(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        return line[:-2]

    def store(self, command, key, value):
        self.socket.sendall(b"%s %s 0 0 %d\r\n%s\r\n" % (command, key, len(value), value))
        return self.line()

    def get(self, keys):
        self.socket.sendall(b"get %s\r\n" % b" ".join(keys))
        found = {}
        while (line := self.line()) != b"END":
            _, key, _, length = line.split()
            found[key] = self.reader.read(int(length) + 2)[:-2]
        return found

    def call(self, text):
        self.socket.sendall(text + b"\r\n")
        return self.line()

    def close(self):
        self.reader.close()
        self.socket.close()


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: answered {str(got)[:200]}, expected {str(wanted)[:200]}")


def random_bytes(rng):
    return rng.randbytes(rng.randint(1, 1 << rng.randint(0, 16)))


def step(client, rng, model, number):
    key = b"c%d:%d" % (number, rng.randrange(200))
    command = rng.choices(["set", "get", "append", "delete", "incr", "add", "touch"], [30, 30, 15, 10, 5, 5, 5])[0]
    if command == "set":
        model[key] = random_bytes(rng)
        expect(command, client.store(b"set", key, model[key]), b"STORED")
    elif command == "get":
        keys = [b"c%d:%d" % (number, rng.randrange(200)) for _ in range(rng.randint(1, 10))]
        expect(command, client.get(keys), {key: model[key] for key in keys if key in model})
    elif command == "append":
        tail = rng.randbytes(rng.randint(1, 2000))
        known = key in model
        expect(command, client.store(b"append", key, tail), b"STORED" if known else b"NOT_STORED")
        if known:
            model[key] += tail
    elif command == "delete":
        known = model.pop(key, None) is not None
        expect(command, client.call(b"delete " + key), b"DELETED" if known else b"NOT_FOUND")
    elif command == "incr":
        start = rng.randrange(1 << 40)
        counter = b"n%d" % number
        expect("set", client.store(b"set", counter, b"%d" % start), b"STORED")
        expect(command, client.call(b"incr %s 77" % counter), b"%d" % (start + 77))
    elif command == "add":
        value = random_bytes(rng)
        expect(command, client.store(b"add", key, value), b"NOT_STORED" if key in model else b"STORED")
        model.setdefault(key, value)
    else:
        expect(command, client.call(b"touch %s 0" % key), b"TOUCHED" if key in model else b"NOT_FOUND")


def work(path, number):
    rng = random.Random(1000 + number)
    model = {}
    try:
        for _ in range(ROUNDS):
            client = Client(path)
            for _ in range(STEPS):
                step(client, rng, model, number)
            client.close()
        client = Client(path)
        for key, value in model.items():
            expect("get", client.get([key]), {key: value})
        client.close()
        total = hashlib.sha256(b"".join(b"%s %s" % pair for pair in sorted(model.items())))
        lines[number] = f"{number} {len(model)} {total.hexdigest()}"
    except Exception as error:
        failures.append(f"connection {number}: {type(error).__name__}: {error}")


def main():
    threads = [threading.Thread(target=work, args=(sys.argv[1], number)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit("\n".join(failures))
    print("\n".join(lines))


main()
