"""The mallocs that are measured: names, libraries, and the proof that a preload takes effect."""

import dataclasses
import errno
import os
import pathlib
import re
import stat
import subprocess
import zlib

from allocators import PEERS, find_peer
from measure.fault import BadInput
from measure.options import say

SYSTEM = "system"
OURS = ("hakmem", "hakmem-pgo")
CODE_SECTIONS = {".init", ".plt", ".plt.got", ".plt.sec", ".text", ".fini"}


def preload_path(path):
    """A path that LD_PRELOAD can name: the path, or a link to it in a folder that is this user's alone, where the path has
    a space or a colon."""
    if not re.search(r"[\s:]", path):
        return path
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = runtime.startswith("/") and os.access(runtime, os.W_OK) and not re.search(r"[\s:]", runtime)
    folder = pathlib.Path(runtime if usable else "/tmp") / f"hakmem-preload-{os.geteuid()}"
    link = folder / f"{zlib.crc32(path.encode()):08x}-{re.sub(r'[^-.+_0-9A-Za-z]', '_', pathlib.Path(path).name)}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(errno.EPERM, "it is not yours alone")
        if not link.is_symlink() or os.readlink(link) != path:
            fresh = link.with_name(f"{link.name}.{os.getpid()}")
            fresh.symlink_to(path)
            fresh.rename(link)
    except OSError as error:
        raise BadInput(
            f"LD_PRELOAD cannot name {path}, nor can a link to it be made in {folder}: {error.strerror}"
        ) from None
    return str(link)


@dataclasses.dataclass(eq=False)
class Subject:
    name: str
    path: str = ""  # path of the library to preload; "" for the system's own malloc
    # Filled in by prove():
    objects: tuple = ()  # real paths of the libraries that its code is in
    has_unnamed_code: bool = False  # some of its code is in sections that valgrind assigns to no library

    @property
    def ours(self):
        return self.name.startswith("hakmem")

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        return {**kept, "LC_ALL": "C", **({"LD_PRELOAD": preload_path(self.path)} if self.path else {})}

    def command_prefix(self):
        """The prefix of a command line that repeats a run."""
        return [f"LD_PRELOAD={preload_path(self.path)}"] if self.path else []


def library(build, name):
    """The path of one of our own two builds."""
    return build / "libhakmem.so" if name == "hakmem" else build.parent / "release-pgo" / "libhakmem.so"


def known(build):
    """Name and path of every malloc here that needs no path on the command line."""
    found = {name: library(build, name) for name in OURS}
    found = {name: str(path.resolve()) for name, path in found.items() if path.is_file()}
    found[SYSTEM] = ""
    for name in PEERS:
        path = find_peer(name)
        if path:
            found[name] = path
    return found


def check_name(text, build):
    """Name and path from one --allocator; the path is None for a known malloc."""
    name, equals, path = text.partition("=")
    if not equals:
        if name not in (*OURS, SYSTEM, *PEERS):
            raise BadInput(f"--allocator {text}: neither NAME=PATH.so nor one of {', '.join((*OURS, SYSTEM, *PEERS))}")
        return name, None
    if not name or name in (*OURS, SYSTEM, *PEERS):
        raise BadInput(f"--allocator {text}: needs a name of its own before the =")
    if not pathlib.Path(path).is_file():
        raise BadInput(f"--allocator {text}: there is no file {path}")
    return name, str(pathlib.Path(path).resolve())


def check_names(texts, build):
    """[(name, path or None)], as from check_name; each name once."""
    found = [check_name(text, build) for text in texts]
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"--allocator: {name} is named twice")
    return found


def choose(texts, build):
    """The subjects of a run: those that are named, or all that are here, plus those that are given by a path."""
    here = known(build)
    if not (build / "libhakmem.so").is_file():
        raise BadInput(f"there is no {build}/libhakmem.so: build it, or leave out --build")
    named = check_names(texts, build)
    chosen = [name for name, path in named if path is None] or list(here)
    for name in chosen:
        if name not in here:
            advice = "it is not installed: ci/setup --peers" if name in PEERS else f"there is no {library(build, name)}"
            raise BadInput(f"--allocator {name}: {advice}")
    subjects = [Subject(name, here[name]) for name in chosen]
    return subjects + [Subject(name, path) for name, path in named if path is not None]


def say_absent(texts, build):
    """Where no malloc is named, says which of them are not here."""
    here = known(build)
    absent = [name for name in PEERS if name not in here]
    if absent and all("=" in text for text in texts):
        say(f"skipped {len(absent)} mallocs that are not here (ci/setup --peers): {', '.join(absent)}")


def mapped_libraries(subject):
    """Real paths of the libraries that are mapped in a program with this preload."""
    done = subprocess.run(
        ["cat", "/proc/self/maps"], env=subject.environment(), capture_output=True, text=True, errors="replace"
    )
    return {os.path.realpath(line.split(maxsplit=5)[5]) for line in done.stdout.splitlines() if line.count("/")}


def prove(subject, program):
    """Asks the program which library its malloc is from; raises BadInput unless that is the subject's own."""
    done = subprocess.run(
        [str(program), "where"],
        env=subject.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
    )
    said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
    if done.returncode != 0:
        raise BadInput(f"{subject.name}: hakmem-bench does not run with {subject.path or 'no preload'}: {said}")
    places = {os.path.realpath(line.split(maxsplit=1)[1]) for line in done.stdout.splitlines()}
    if subject.path:
        expected = {os.path.realpath(subject.path)}
        if places != expected or not expected <= mapped_libraries(subject):
            raise BadInput(
                f"{subject.name}: the preload of {subject.path} takes no effect: malloc is in "
                f"{', '.join(sorted(places))}" + (f" ({said})" if done.stderr.strip() else "")
            )
        subject.objects = tuple(expected | companions(subject))
    else:
        if not all(pathlib.Path(place).name.startswith("libc.") for place in places):
            raise BadInput(
                f"{SYSTEM}: malloc is in {', '.join(sorted(places))} and not in libc: a preload by other "
                "means, such as /etc/ld.so.preload?"
            )
        subject.objects = tuple(places)
    subject.has_unnamed_code = any(has_odd_section(path) for path in subject.objects)


def has_odd_section(path):
    """Whether a library has code outside of the usual sections, as tcmalloc does for its malloc."""
    try:
        done = subprocess.run(
            ["readelf", "-SW", path],
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError:
        raise BadInput("readelf is not installed: run ci/setup --bench") from None
    # [Nr] Name Type Address Offset Size EntrySize Flags Link Info Align
    code = re.findall(r"\] (\S+)\s+PROGBITS(?:\s+[0-9a-f]+){4}\s+\w*X", done.stdout)
    return bool(set(code) - CODE_SECTIONS)


def companions(subject):
    """tbbmalloc is two libraries: a proxy with the names, and the malloc itself."""
    if "tbbmalloc_proxy" not in pathlib.Path(subject.path).name:
        return set()
    return {path for path in mapped_libraries(subject) if pathlib.Path(path).name.startswith("libtbbmalloc.so")}
