"""The programs of ci/bench apps. Their inputs are made by these functions from fixed seeds, once for a run."""

import dataclasses
import pathlib
import random
import shutil
import subprocess
import sys

from measure.fault import Broken
from measure.options import ROOT

INPUTS = pathlib.Path(__file__).resolve().parent / "inputs"
APPS = ROOT / "ci/apps"
PYTHON = "/usr/bin/python3"  # the python3 in PATH may be a script that starts another


@dataclasses.dataclass
class Program:
    name: str
    needs: list  # commands; the first is the one that runs
    command: list  # FOLDER in a word is the folder of the input
    what: str
    environment: dict = dataclasses.field(default_factory=dict)
    stdin: str = ""  # a file
    prepare: object = None  # prepare(folder) makes the input
    server: object = None  # server(process, folder) drives a server and returns what it measured: measure/servers.py

    def words(self, folder):
        return [word.replace("FOLDER", str(folder)) for word in self.command]


def helper(command, folder, stdin=subprocess.DEVNULL):
    """Runs a command that makes input; on libc's malloc."""
    done = subprocess.run(command, cwd=folder, stdin=stdin, capture_output=True)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        raise Broken(f"cannot make the input of apps: {command[0]}: {said[-1]}")


def write_text(folder):
    """12 MB that compress as logs do: words drawn from a vocabulary, and numbers."""
    rng = random.Random(7)
    words = ["".join(rng.choices("etaoinshrdlucmfw", k=rng.randint(2, 11))) for _ in range(4000)]
    with open(folder / "text", "w", encoding="ascii") as file:
        for _ in range(120000):
            file.write(f"{rng.randrange(10**9)} {' '.join(rng.choices(words, k=13))}\n")


def write_sources(folder):
    """functions.c and templates.cc, as in the compiler tests of ci/apps."""
    helper([sys.executable, str(APPS / "compile.py")], folder)


def write_repository(folder):
    """A history of 250 commits over 200 files."""
    rng = random.Random(400)
    files = [[b"line %d of %d\n" % (n, f) for n in range(rng.randint(50, 600))] for f in range(200)]
    with open(folder / "stream", "wb") as out:
        for commit in range(250):
            note = b"commit %d" % commit
            out.write(
                b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata %d\n%s\n"
                % (1700000000 + commit, len(note), note)
            )
            for number in range(200) if commit == 0 else rng.sample(range(200), 12):
                for _ in range(rng.randint(1, 20)):
                    files[number][rng.randrange(len(files[number]))] = (
                        rng.randbytes(rng.randint(1, 60)).hex().encode() + b"\n"
                    )
                body = b"".join(files[number])
                out.write(b"M 100644 inline d%d/f%d\ndata %d\n%s\n" % (number % 7, number, len(body), body))
        out.write(b"done\n")
    helper(["git", "init", "-q", "--bare", str(folder / "repository")], folder)
    with open(folder / "stream", "rb") as stream:
        helper(["git", "-C", str(folder / "repository"), "fast-import", "--quiet", "--done"], folder, stream)


def write_pigeons(folder, holes=9):
    """One pigeon more than holes: unsatisfiable. Then products of bit-vectors, which are satisfiable."""
    lines = [f"(declare-const p{p}h{h} Bool)" for p in range(holes + 1) for h in range(holes)]
    for p in range(holes + 1):
        lines.append(f"(assert (or {' '.join(f'p{p}h{h}' for h in range(holes))}))")
    for h in range(holes):
        for p in range(holes + 1):
            lines += [f"(assert (not (and p{p}h{h} p{q}h{h})))" for q in range(p)]
    lines += ["(check-sat)", "(reset)", "(declare-const x (_ BitVec 32))", "(declare-const y (_ BitVec 32))"]
    lines += [
        "(assert (= (bvmul x y) #x3ade68b1))",
        "(assert (bvugt x #x00000001))",
        "(assert (bvugt y x))",
        "(check-sat)",
    ]
    (folder / "work.smt2").write_text("\n".join(lines) + "\n", encoding="ascii")


def imagemagick():
    """The program itself: the convert in PATH may be another one."""
    return next((name for name in ("convert-im6.q16", "magick") if shutil.which(name)), "convert-im6.q16")


def script(name, interpreter, file, what, *options, environment=None):
    return Program(name, [interpreter], [interpreter, *options, str(file)], what, environment or {})


def programs():
    from measure import servers

    text = {"prepare": write_text}
    return [
        script(
            "python3",
            PYTHON,
            INPUTS / "work.py",
            "JSON, classes, strings; every object by malloc",
            "-I",
            environment={"PYTHONMALLOC": "malloc"},
        ),
        script("lua5.4", "lua5.4", APPS / "input/work.lua", "tables, strings, closures, coroutines"),
        script("ruby", "ruby", INPUTS / "work.rb", "strings, hashes, structs", "--disable-gems"),
        script("perl", "perl", INPUTS / "work.pl", "hashes of hashes, strings that grow"),
        script(
            "php",
            "php",
            INPUTS / "work.php",
            "objects, JSON; every object by malloc",
            "-n",
            environment={"USE_ZEND_ALLOC": "0"},
        ),
        script("node", "node", INPUTS / "work.js", "JSON, buffers, zlib"),
        Program(
            "sqlite3",
            ["sqlite3"],
            ["sqlite3", "-batch", "-bail", ":memory:"],
            "tables, indices, joins in memory",
            stdin=str(INPUTS / "work.sql"),
        ),
        Program(
            "g++",
            ["g++"],
            ["g++", "-std=c++20", "-O2", "-c", "-o", "/dev/null", "FOLDER/templates.cc"],
            "a file of templates",
            prepare=write_sources,
        ),
        Program(
            "clang++",
            ["clang++-19"],
            ["clang++-19", "-std=c++20", "-O2", "-c", "-o", "/dev/null", "FOLDER/templates.cc"],
            "the same file",
            prepare=write_sources,
        ),
        Program(
            "zstd",
            ["zstd"],
            ["zstd", "-q", "-12", "-T2", "-f", "-o", "/dev/null", "FOLDER/text"],
            "12 MB, two threads",
            **text,
        ),
        Program("xz", ["xz"], ["xz", "-1", "-T2", "-c", "FOLDER/text"], "12 MB, two threads", **text),
        Program(
            "git",
            ["git"],
            [
                "git",
                "-C",
                "FOLDER/repository",
                "pack-objects",
                "-q",
                "--all",
                "--revs",
                "--no-reuse-delta",
                "--window=40",
                "--threads=2",
                "--stdout",
            ],
            "deltas of 250 commits, two threads",
            {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"},
            stdin="/dev/null",
            prepare=write_repository,
        ),
        Program(
            "ghostscript",
            ["gs"],
            [
                "gs",
                "-q",
                "-dNOPAUSE",
                "-dBATCH",
                "-r300",
                "-sDEVICE=png16m",
                "-o",
                "/dev/null",
                str(APPS / "input/work.ps"),
            ],
            "six pages at 300 dpi",
        ),
        Program("z3", ["z3"], ["z3", "-smt2", "FOLDER/work.smt2"], "pigeons, bit-vectors", prepare=write_pigeons),
        Program(
            "imagemagick",
            [imagemagick()],
            [
                imagemagick(),
                "-size",
                "1200x900",
                "-seed",
                "42",
                "plasma:red-blue",
                "-blur",
                "0x3",
                "-rotate",
                "17",
                "-resize",
                "800x",
                "null:",
            ],
            "plasma, blur, rotate, resize",
        ),
        Program(
            "redis",
            ["redis-server", "redis-benchmark"],
            servers.REDIS,
            "strings, lists, hashes, sets by two clients",
            server=servers.redis,
        ),
        Program(
            "memcached", ["memcached"], servers.MEMCACHED, "gets and sets of 1 to 8000 bytes", server=servers.memcached
        ),
    ]


def missing(program):
    """The first command that is not installed, or None."""
    return next((name for name in program.needs if shutil.which(name) is None), None)
