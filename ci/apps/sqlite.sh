# shellcheck shell=bash
# One thread, a B-tree page cache of many lookaside and heap blocks, realloc of strings, blobs up to 200 KiB.

app_needs() { echo sqlite3; }
app_probe() { probe sqlite3 -version; }

app_run() {
    under_test sqlite3 -batch -bail test.db <"$apps/sqlite.sql" >answers
    under_test sqlite3 -batch -bail test.db .dump | cksum >dump
    under_test sqlite3 -batch -bail :memory: <"$apps/sqlite.sql" | cmp - answers
    rm -f test.db*
}
