"""Old versions of other mallocs: fetched by the ordinary client of their registry, and built as one library each.

A version is REGISTRY/PACKAGE/VERSION[:PART], such as crates.io/libmimalloc-sys/0.1.44:v3. PART names one of several
sources in a package. Libraries stay in build/history, never in the tree: lib/NAME/libPACKAGE.so, stripped.
Sources are removed once the library is there. What does not build is remembered in lib/NAME.failed, with the reason.
"""

import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import zipfile

FETCH_SECONDS, BUILD_SECONDS = 120, 1800
DEBIAN_SUITES = ("bullseye", "bookworm", "trixie")


class Unavailable(Exception):
    """The version cannot be had here: its registry is out of reach, or it does not build."""


class OutOfReach(Unavailable):
    """The registry did not answer, or its client is missing."""


class Cut(Unavailable):
    """A build ran out of time, or a signal ended it: another time it may succeed."""


class Silent(OutOfReach):
    """The registry did not answer in time, so that it is not asked again."""


def name_of(version):
    return re.sub(r"[^A-Za-z0-9.+]+", "-", version)


def parts_of(version):
    match = re.fullmatch(r"(crates\.io|pypi|debian)/([\w.+-]+)/([\w.+~-]+(?::\d[\w.+~-]*)?)(?::([a-z]\w*))?", version)
    if not match:
        raise ValueError(f"'{version}' is no version: REGISTRY/PACKAGE/VERSION[:PART] with crates.io, pypi or debian")
    return match.groups()


def run(words, folder, seconds, failure=Unavailable, **environment):
    """Runs one command. Raises with its last line of complaint if it fails."""
    if shutil.which(words[0]) is None:
        raise OutOfReach(f"{words[0]} is not installed")
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        failure = Silent if failure is OutOfReach else Cut
        raise failure(f"{words[0]} took more than {seconds} s") from None
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        wrong = [line for line in lines if "is yanked" in line]
        wrong += [line for line in lines if re.search(r"\berror\b|^E:", line, re.IGNORECASE)] or lines[-1:] or [""]
        is_cut = failure is Unavailable and (done.returncode < 0 or "Killed" in wrong[0])
        raise (Cut if is_cut else failure)(f"{words[0]}: {wrong[0].strip()[:200]}")
    return done.stdout


# ---- Fetching: each returns the folder with what the package holds.


def fetch_crate(package, version, folder):
    (folder / "src").mkdir()
    (folder / "src/lib.rs").touch()
    (folder / "Cargo.toml").write_text(
        f'[package]\nname = "history"\nversion = "0.0.0"\nedition = "2018"\n[dependencies]\n{package} = "={version}"\n'
    )
    try:
        run(["cargo", "vendor", "--quiet", "--versioned-dirs", "vendor"], folder, FETCH_SECONDS, OutOfReach)
    except Silent:
        raise
    except OutOfReach as fault:
        if "is yanked" in str(fault):
            raise Unavailable("its maker has withdrawn it, and cargo gives it no more (yanked)") from None
        raise
    return next((folder / "vendor").glob(f"{package}-{version}*"))


def fetch_wheel(package, version, folder):
    words = ["pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", ".", f"{package}=={version}"]
    run(words, folder, FETCH_SECONDS, OutOfReach)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "files")
    return folder / "files"


def fetch_debian(package, version, folder):
    """From any release that the mirror has, with lists of its own: the machine's own sources stay as they are."""
    apt = folder.parent / "apt"
    with open(folder.parent / "apt.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (apt / "ready").is_file():
            (apt / "lists/partial").mkdir(parents=True, exist_ok=True)
            key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
            (apt / "sources").write_text(
                "".join(f"deb {key} http://deb.debian.org/debian {suite} main\n" for suite in DEBIAN_SUITES)
            )
            (apt / "conf").write_text(
                f'Dir::Etc::sourcelist "{apt}/sources"; Dir::Etc::sourceparts "-"; Dir::State::lists "{apt}/lists";\n'
                f'Dir::Cache "{apt}"; APT::Architectures "amd64"; Acquire::Languages "none";\n'
            )
            run(["apt-get", "update", "-q"], folder, FETCH_SECONDS, OutOfReach, APT_CONFIG=str(apt / "conf"))
            (apt / "ready").touch()
    words = ["apt-get", "download", "-q", f"{package}={version}"]
    run(words, folder, FETCH_SECONDS, OutOfReach, APT_CONFIG=str(apt / "conf"))
    run(["dpkg-deb", "-x", next(folder.glob("*.deb")).name, "files"], folder, FETCH_SECONDS)
    return folder / "files"


FETCH = {"crates.io": fetch_crate, "pypi": fetch_wheel, "debian": fetch_debian}

# ---- Building: each leaves a library at `out`.


def build_mimalloc(source, part, out):
    found = [path for path in source.rglob("src/static.c") if part is None or part in path.parts]
    if len(found) != 1:
        raise Unavailable(f"{len(found)} sources of mimalloc, not one" + (f" in {part}" if part else ""))
    words = ["cc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-DNDEBUG", "-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB"]
    words += ["-DMI_SHARED_LIB_EXPORT", "-D_GNU_SOURCE", "-ftls-model=initial-exec", "-w"]
    words += ["-fno-builtin-malloc", "-Iinclude", "src/static.c", "-o", out, "-pthread", "-lrt"]
    run(words, found[0].parent.parent, BUILD_SECONDS)


def build_jemalloc(source, _part, out):
    folder = source / "jemalloc"
    for name in ("configure", "VERSION"):
        if (source / "configure" / name).is_file():
            shutil.copy(source / "configure" / name, folder / name)
    for path in folder.rglob("*"):
        os.utime(path)  # so that make rebuilds no configure
    run(["sh", "./configure", "--disable-static", "--disable-doc"], folder, BUILD_SECONDS, EXTRA_CFLAGS="-w")
    run(["make", "-j2", "build_lib_shared"], folder, BUILD_SECONDS)
    shutil.copy(folder / "lib/libjemalloc.so.2", out)


def build_rpmalloc(source, _part, out):
    words = ["cc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-w", "-D_GNU_SOURCE", "-DNDEBUG", "-DENABLE_PRELOAD=1"]
    words += ["-DENABLE_OVERRIDE=1", "rpmalloc/rpmalloc.c", "-o", out, "-pthread"]
    run(words, source / "rpmalloc", BUILD_SECONDS)


def build_snmalloc(source, _part, out):
    folder = [path.parent for path in source.rglob("override/malloc.cc") if "test" not in path.parts]
    if len(folder) != 1:
        raise Unavailable(f"{len(folder)} sources of snmalloc, not one")
    files = [folder[0] / "new.cc"]
    if '"malloc.cc"' not in files[0].read_text():
        files.append(folder[0] / "malloc.cc")
    words = ["c++", "-O2", "-fPIC", "-shared", "-w", "-DNDEBUG", "-mcx16"]
    words += ["-ftls-model=initial-exec", "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1"]
    words += ["-fno-builtin-malloc", "-fpermissive"]
    includes = [f"-I{source}/{folder}" for folder in ("snmalloc/src", "upstream/src") if (source / folder).is_dir()]
    for standard in ("-std=gnu++20", "-std=gnu++17"):
        try:
            run(
                [*words, standard, *includes, *map(str, files), "-o", out, "-pthread", "-latomic"],
                source,
                BUILD_SECONDS,
            )
            return
        except Unavailable as fault:
            last = fault
    raise last


def copy_library(pattern, *beside):
    """Takes a library that was built by the package's maker, with the ones that it needs beside it."""

    def file_of(source, name):
        found = sorted(path for path in source.rglob(name) if path.is_file() and not path.is_symlink())
        if not found:
            raise Unavailable(f"the package holds no {name}")
        return found[0]

    def copy(source, _part, out):
        shutil.copy(file_of(source, pattern), out)
        for name in beside:
            shutil.copy(file_of(source, name), pathlib.Path(out).parent / name)

    return copy


BUILD = {
    r"crates\.io/libmimalloc-sys": build_mimalloc,
    r"crates\.io/(tikv-)?jemalloc-sys": build_jemalloc,
    r"crates\.io/rpmalloc-sys": build_rpmalloc,
    r"crates\.io/snmalloc-sys": build_snmalloc,
    r"pypi/cmeel-mimalloc": copy_library("libmimalloc.so*"),
    r"pypi/tbb": copy_library("libtbbmalloc_proxy.so.2", "libtbbmalloc.so.2"),
    r"debian/libtcmalloc-minimal4(t64)?": copy_library("libtcmalloc_minimal.so.4*"),
    r"debian/libjemalloc2": copy_library("libjemalloc.so.2"),
    r"debian/libclang-(rt|common)-\d+-dev": copy_library("libclang_rt.scudo_standalone-x86_64.so"),
}


def builder_of(version):
    for pattern, builder in BUILD.items():
        if re.match(pattern + "/", version):
            return builder
    raise ValueError(f"'{version}': no recipe for that package in sanitizers/history/versions.py")


class Store:
    """build/history: the libraries, one process at a time on each."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        (self.root / "lib").mkdir(parents=True, exist_ok=True)
        self.silent = {}  # {registry: why}

    def path(self, version):
        return self.root / f"lib/{name_of(version)}/lib{parts_of(version)[1]}.so"

    def library(self, version, fetch=True):
        """The path of the library, fetched and built if it is not there. Raises Unavailable."""
        registry, package, number, part = parts_of(version)
        builder = builder_of(version)
        name, library = name_of(version), self.path(version)
        failed = self.root / f"lib/{name}.failed"
        with open(self.root / f"lib/{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if library.is_file():
                return library
            if failed.is_file():
                raise Unavailable(failed.read_text().strip())
            if not fetch:
                raise OutOfReach("not built, and --offline forbids to fetch it")
            if registry in self.silent:
                raise OutOfReach(self.silent[registry])
            work = self.root / f"work/{name}"
            shutil.rmtree(work, ignore_errors=True)
            (work / "out").mkdir(parents=True)
            try:
                source = FETCH[registry](package, number, work)
                builder(source, part, str(work / "out" / library.name))
                for path in (work / "out").iterdir():
                    path.chmod(0o755)
                    run(["strip", "--strip-unneeded", str(path)], work, FETCH_SECONDS)
                (work / "out").replace(library.parent)
            except Silent as fault:
                self.silent[registry] = str(fault)
                raise
            except (OutOfReach, Cut):
                raise
            except Unavailable as fault:
                failed.write_text(f"{fault}\n")
                raise
            finally:
                shutil.rmtree(work, ignore_errors=True)
            return library
