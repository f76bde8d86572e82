"""The work of the python test: prints the same lines on any malloc."""

import hashlib
import json
import multiprocessing
import os
import random
import re
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor


def document(seed, depth=4):
    rng = random.Random(seed)

    def node(level):
        if level == 0:
            return rng.choice([rng.random(), rng.randrange(10**9), "x" * rng.randrange(200), None, True])
        if rng.random() < 0.5:
            return [node(level - 1) for _ in range(rng.randrange(8))]
        return {f"key{rng.randrange(1000)}": node(level - 1) for _ in range(rng.randrange(8))}

    return [node(depth) for _ in range(6)]


def digest(seed):
    text = json.dumps(document(seed), sort_keys=True)
    if json.dumps(json.loads(text), sort_keys=True) != text:
        raise AssertionError(f"json changed its document, seed {seed}")
    packed = zlib.compress(text.encode() * 3, 6)
    if zlib.decompress(packed) != text.encode() * 3:
        raise AssertionError(f"zlib changed its input, seed {seed}")
    words = re.sub(r"key(\d+)", lambda match: match.group(1)[::-1], text).split('"')
    words.sort()
    return hashlib.sha256("".join(words).encode()).hexdigest()


def handed_over():
    """Objects made in one thread are freed in another."""
    boxes = [[] for _ in range(4)]
    total = [0] * 4

    def make(number):
        boxes[number] = [{"n": i, "text": str(i) * (i % 50)} for i in range(6000)]

    def drop(number):
        box = boxes[(number + 1) % 4]
        total[number] = sum(entry["n"] + len(entry["text"]) for entry in box)
        box.clear()

    for work in (make, drop):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return total


def forked():
    """Forks a process with threads and a large heap; each child answers through a pipe."""
    answers = []
    for seed in range(4):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, digest(900 + seed).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answers.append(pipe.read())
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise AssertionError(f"child {seed} ended with status {status}")
    return answers


def main():
    with ThreadPoolExecutor(4) as pool:
        print("threads", *pool.map(digest, range(48)), sep="\n")
        print("forked", *forked(), sep="\n")  # while the pool's threads exist
    print("handed over", handed_over())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print("processes", *pool.map(digest, range(100, 124)), sep="\n")
    table = {}
    rng = random.Random(5)
    for _ in range(150000):
        table[rng.randrange(20000)] = "v" * rng.randrange(100)
        table.pop(rng.randrange(20000), None)
    print("table", len(table), sum(map(len, table.values())))
    data = bytearray()
    for i in range(40000):  # realloc in small steps
        data += b"%d," % i
    print("bytes", zlib.crc32(data))


main()
