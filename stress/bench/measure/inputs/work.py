"""Work of ci/bench apps: documents, classes, dictionaries, strings and regular expressions. Prints a digest."""

import hashlib
import json
import random
import re

ROUNDS = 14


class Node:
    def __init__(self, key, value):
        self.key, self.value, self.left, self.right = key, value, None, None


def insert(root, key, value):
    while True:
        side = "left" if key < root.key else "right"
        below = getattr(root, side)
        if below is None:
            setattr(root, side, Node(key, value))
            return
        root = below


def document(random):
    return {
        f"key{random.randrange(5000)}": {
            "id": i,
            "tags": [str(random.random()) for _ in range(5)],
            "text": "x" * (i % 90),
        }
        for i in range(4000)
    }


def main():
    rng, digest = random.Random(42), hashlib.sha256()
    kept = []
    for number in range(ROUNDS):
        text = json.dumps(document(rng))
        kept.append(json.loads(text))
        words = re.findall(r"[0-9]+", text)
        counts = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        root = Node(rng.random(), None)
        for word in sorted(counts)[:15000]:
            insert(root, rng.random(), word)
        digest.update(" ".join(sorted(counts)).encode())
        if number % 2:
            kept.pop(0)
    print(digest.hexdigest(), len(kept))


main()
