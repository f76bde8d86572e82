"""The other mallocs that we compare with, and where they are. As a program it prints NAME PATH for each that is here."""

import glob
import pathlib

# What distributions install, and what ci/lib/peers builds.
PEERS = {
    "jemalloc": "libjemalloc.so.2",
    "jemalloc531": "libjemalloc531.so",
    "mimalloc": "libmimalloc.so.2*",
    "mimalloc3": "libmimalloc3.so",
    "snmalloc": "libsnmalloc.so",
    "rpmalloc": "librpmalloc.so",
    "scudo": "libclang_rt.scudo_standalone-x86_64.so",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "tbbmalloc": "libtbbmalloc_proxy.so.2",
}
FOLDERS = (
    str(pathlib.Path(__file__).resolve().parents[2] / "build/peers"),
    "/usr/lib/*",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/llvm-19/lib/clang/19*/lib/*",
)


def find_peer(name):
    """The path of a malloc of PEERS, or None if it is not installed."""
    for folder in FOLDERS:
        found = sorted(glob.glob(f"{folder}/{PEERS[name]}"))
        if found:
            return found[0]
    return None


if __name__ == "__main__":
    for peer in PEERS:
        if find_peer(peer):
            print(peer, find_peer(peer))
