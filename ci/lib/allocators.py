"""The other mallocs that we compare with, and where distributions install them."""

import glob

PEERS = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2*",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "tbbmalloc": "libtbbmalloc_proxy.so.2",
}
FOLDERS = ("/usr/lib/*", "/usr/lib", "/usr/lib64", "/usr/local/lib")


def find_peer(name):
    """The path of a malloc of PEERS, or None if it is not installed."""
    for folder in FOLDERS:
        found = sorted(glob.glob(f"{folder}/{PEERS[name]}"))
        if found:
            return found[0]
    return None
