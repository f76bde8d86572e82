# shellcheck shell=bash
# Parallel sort with a small buffer: threads that allocate lines, temporary files, merges.

app_needs() { echo sort awk; }
app_probe() { probe sort --version; }
app_prepare() {
    awk 'BEGIN {
        r = 42
        for (i = 0; i < 250000; i++) {
            r = (r * 48271) % 2147483647
            printf "%d\t%x\t%.*s\n", r % 100000, r, r % 40, "the quick brown fox jumps over the lazy dog"
        }
    }' >lines
}

app_run() {
    under_test sort --parallel=4 -S 4M -T . "$input/lines" | cksum >plain
    under_test sort --parallel=4 -S 64M -T . -k1,1n -k2,2 "$input/lines" | cksum >numbers
    under_test sort --parallel=4 -u -k3 "$input/lines" >unique
}
