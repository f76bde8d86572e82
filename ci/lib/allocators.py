"""The other mallocs that ours are compared with, and where distributions put them."""

import glob

PEERS = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2*",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "tbbmalloc": "libtbbmalloc_proxy.so.2",
}
FOLDERS = ("/usr/lib/*", "/usr/lib", "/usr/lib64", "/usr/local/lib")


def find_peer(name):
    """The path of a malloc of PEERS, or None where it is not installed."""
    for folder in FOLDERS:
        found = sorted(glob.glob(f"{folder}/{PEERS[name]}"))
        if found:
            return found[0]
    return None
