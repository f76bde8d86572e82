"""Builds the library of an older commit beside ours, to measure against it."""

import pathlib
import shutil
import subprocess

from measure.fault import BadInput, Broken
from measure.options import ROOT, say
from measure.subjects import Subject

PREFIX = "at-"  # of the name of such a malloc: it is no rival


def full_name(commit):
    done = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise BadInput(f"--against {commit}: the checkout has no such commit or tag")
    return done.stdout.strip()


def must(*command):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        said = ((done.stdout + done.stderr).strip().splitlines() or ["it said nothing"])[-1]
        raise Broken(f"{' '.join(command)}: {said}")


def library(commit):
    """The path of libhakmem.so of a commit; it stays in build/against for the next time."""
    name = full_name(commit)
    folder = ROOT / "build/against" / name[:12]
    made = folder / "libhakmem.so"
    if not made.is_file():
        say(f"building libhakmem.so of {commit} ({name[:12]})")
        source = folder / "source"
        shutil.rmtree(source, ignore_errors=True)
        must("git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(source))
        must("git", "-C", str(source), "checkout", "--quiet", "--detach", name)
        must("cmake", "-S", str(source), "--preset", "release", "-DHAKMEM_TESTS=OFF")
        must("cmake", "--build", str(source / "build/release"), "--target", "hakmem")
        shutil.copy2(source / "build/release/libhakmem.so", made)
        shutil.rmtree(source)
    return made


def subject(commit):
    return Subject(f"{PREFIX}{pathlib.PurePath(commit).name}", str(library(commit).resolve()))


def is_older(name):
    return name.startswith(PREFIX)
