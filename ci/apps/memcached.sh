# shellcheck shell=bash
# A server of four threads: each connection's buffers and items come and go in other threads.

app_needs() { echo memcached python3; }
app_probe() { probe memcached -V; }

app_run() {
    mkdir "$top/work"
    cd "$top/work" # keeps the socket's path short, and its folder out of the results
    local user=()
    if [ "$(id -u)" -eq 0 ]; then user=(-u root); fi
    start memcached memcached "${user[@]}" -t 4 -m 256 -I 2m -s memcached.sock
    retry 10 test -S memcached.sock || die "memcached did not listen"
    mapped "$started"
    "$python" "$apps/memcached.py" memcached.sock >"$top/run/answers"
    kill -TERM "$started"
    wait "$started" || die "memcached ended with exit status $?"
    cd "$top/run"
    rm -rf -- "$top/work"
}
