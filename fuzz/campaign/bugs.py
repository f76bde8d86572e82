"""ci/fuzz bugs SECONDS: fuzzing must find each of its planted bugs from an empty corpus within SECONDS.

Each patch is applied to a copy of the tree (build/fuzz-bugs). The target that its head names is built, and two
processes fuzz it, with different seeds and one corpus. A bug that is not found in every try is reported, and the exit
status is 1. The clean tree must not fail in the same time, since a target that always fails has found nothing.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SANITIZERS = Path(__file__).resolve().parents[2] / "sanitizers"
sys.path[:0] = [str(SANITIZERS / "mutants"), str(SANITIZERS / "planted")]
import mutant_copy  # noqa: E402
import planted_bugs  # noqa: E402

PROCESSES = 2


def planted(root):
    """The bugs that a fuzz target must find, by name."""
    found, errors = planted_bugs.read_all(root, "fuzz")
    if errors:
        sys.exit("fuzz: " + "; ".join(errors))
    return found


def look(program, settings, dictionary, seconds, seed):
    """One try: (seconds until the find or None, executions, the find)."""
    with tempfile.TemporaryDirectory(prefix="hakmem-fuzz.") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        started = time.monotonic()
        running = []
        for i in range(PROCESSES):
            log = open(Path(folder) / f"log{i}", "wb")
            command = [
                str(program),
                f"-max_total_time={seconds}",
                f"-seed={seed * PROCESSES + i + 1}",
                "-reload=1",
                "-print_final_stats=1",
                f"-max_len={settings['max_len']}",
                f"-dict={dictionary}",
                f"-artifact_prefix={folder}/",
                str(corpus),
            ]
            running.append((subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log), log))
        took = None
        while took is None and any(process.poll() is None for process, _ in running):
            time.sleep(0.02)
            if any(process.poll() not in (None, 0) for process, _ in running):
                took = time.monotonic() - started
        for process, log in running:
            if process.poll() is None:
                process.terminate()
            process.wait()
            log.close()
        texts = [(Path(folder) / f"log{i}").read_text(encoding="utf-8", errors="replace") for i in range(PROCESSES)]
        executions = sum(
            int(counts[-1])
            for text in texts
            if (counts := re.findall(r"^#(\d+)|executed_units: (\d+)", text, re.M))
            and (counts := [a or b for a, b in counts])
        )
        found = re.findall(
            r"^find: (\w+)|failfast: (\w+)|ERROR: \w+Sanitizer: ([\w-]+)|(runtime error)", "\n".join(texts), re.M
        )
        return (
            took,
            executions,
            next((word for words in found for word in words if word), "?") if took is not None else "-",
        )


def tried(copy, name, target, options):
    """Tries what the copy holds now and prints the result; returns the number of tries that found something."""
    wrong = copy.build("fuzz", [target, "fuzz-dictionaries"])
    if wrong is not None:
        print(f"{name}: DOES NOT BUILD: {wrong}", flush=True)
        return None
    folder = copy.folder("fuzz")
    settings = options.settings_of(folder)[target]
    tries = [
        look(folder / target, settings, folder / "fuzz" / f"{settings['dictionary']}.dict", options.seconds, seed)
        for seed in range(options.tries)
    ]
    words = [
        f"{took:.1f} s, {executions} executions, {what}"
        if took is not None
        else f"NOT FOUND in {executions} executions"
        for took, executions, what in tries
    ]
    print(f"{name} ({target}): " + "; ".join(words), flush=True)
    return sum(took is not None for took, _, _ in tries)


def run(options):
    work = options.root / "build" / "fuzz-bugs"
    work.mkdir(parents=True, exist_ok=True)
    copy = mutant_copy.Copy(options.root, work)
    bugs = [bug for name, bug in planted(options.root).items() if not options.bug or name in options.bug]
    if not bugs:
        sys.exit("fuzz: there is no patch in sanitizers/planted that names a fuzz target")
    failed = 0
    copy.make()
    for target in sorted({bug.found_by["fuzz"] for bug in bugs} if not options.bug else ()):
        if tried(copy, "the clean tree", target, options) != 0:
            print(f"{target} fails without a bug: nothing can be told")
            return 1
    for bug in bugs:
        copy.make()
        wrong = copy.apply(bug)
        if wrong is not None:
            print(f"{bug.name}: DOES NOT APPLY: {wrong}", flush=True)
            failed += 1
        elif tried(copy, bug.name, bug.found_by["fuzz"], options) != options.tries:
            failed += 1
    copy.make()
    print(f"{len(bugs)} planted bugs, {failed} not found in each of {options.tries} tries of {options.seconds} s")
    return 1 if failed else 0
