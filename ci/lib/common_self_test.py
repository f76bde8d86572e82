"""Runs build_with_progress of common.sh with a cmake that writes down how it is called: which trees get tests, and what a
person sees if the configuration or the build fails.
"""

import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = f'source "{HERE}/common.sh"; root=$1; build_with_progress release hakmem'
NO_FMT = "hakmem: there is no fmt. Install: sudo apt-get install libfmt-dev"
HOME = "CMAKE_HOME_DIRECTORY:INTERNAL="
UNWRITABLE = "build/release cannot be made"
# What the tree's cache has; None: no tree. Whether the tree then keeps its tests.
TREES = [
    (None, False),
    ("", False),
    (HOME + "ROOT\n", False),
    (HOME + "/elsewhere\n", False),
    (HOME + "/elsewhere\nHAKMEM_TESTS:BOOL=ON\n", True),
    ("HAKMEM_TESTS:BOOL=ON\n", True),
    ("HAKMEM_TESTS:UNINITIALIZED=ON\n", True),
    ("HAKMEM_TESTS:BOOL=OFF\n", False),
    ("OTHER_HAKMEM_TESTS:BOOL=ON\n", False),
]
# What cmake prints, its exit status; the status of the function, what is on stderr besides the first line.
ENDS = [
    ("-- Generating done", 0, 0, []),
    (f"-- looking\n{NO_FMT}\nCMake Error at ci/dependencies.cmake:35 (message):", 1, 2, [NO_FMT]),
    ("CMake Error: other", 1, 2, ["bash: build failed: CMake Error: other"]),
]


def run(cache, text, status):
    """(exit status, the calls of cmake, lines of stderr)"""
    with tempfile.TemporaryDirectory(prefix="hakmem-common.") as folder:
        root = pathlib.Path(folder)
        (root / "calls").touch()
        if cache == UNWRITABLE:
            (root / "build").touch()
        elif cache is not None:
            (root / "build/release").mkdir(parents=True)
            (root / "build/release/CMakeCache.txt").write_text(cache.replace("ROOT", str(root)), encoding="utf-8")
        cmake = root / "cmake"
        cmake.write_text(
            f"#!/bin/sh\necho \"$@\" >>'{root}/calls'\ncat <<'END'\n{text}\nEND\nexit {status}\n", encoding="utf-8"
        )
        cmake.chmod(0o755)
        done = subprocess.run(
            ["bash", "-c", f"PATH={root}:$PATH; {SCRIPT}", "bash", root],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        return done.returncode, (root / "calls").read_text(encoding="utf-8").splitlines(), done.stderr.splitlines()


def main():
    wrong = []
    for cache, keeps in TREES:
        status, calls, _ = run(cache, "done", 0)
        fresh = "--fresh " if cache and "/elsewhere" in cache else ""  # the checkout was moved
        expected = [
            fresh + "--preset release" + ("" if keeps else " -DHAKMEM_TESTS=OFF"),
            "--build build/release --target hakmem",
        ]
        if status != 0 or calls != expected:
            wrong.append(f"a tree with the cache {cache!r}: {calls}, expected {expected}")
    for text, ends, status, lines in ENDS:
        found, _, shown = run(None, text, ends)
        if found != status or [line for line in shown[1:] if line.strip()] != lines:
            wrong.append(f"after {text!r}: exit status {found}, {shown}, expected {status}, {lines}")
    found, calls, shown = run(UNWRITABLE, "done", 0)
    if found != 2 or calls or len(shown) != 1 or "cannot write to" not in shown[0]:
        wrong.append(f"a folder that cannot be written: exit status {found}, {calls}, {shown}")
    print("".join(f"{line}\n" for line in wrong) + f"common: {len(TREES) + len(ENDS) + 1} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


raise SystemExit(main())
