# shellcheck shell=bash
# A server with background threads that forks to save: large live set, many sizes, copy on write, reload.

app_needs() { echo redis-server redis-benchmark python3; }
app_probe() {
    probe redis-server --version
    probe redis-benchmark --version
}

redis_up() {
    start "redis.$1" redis-server --port 0 --unixsocket redis.sock --save '' --appendonly no --dbfilename dump.rdb \
        --hz 100 --io-threads 2 --lazyfree-lazy-user-del yes --daemonize no
    server=$started
    retry 10 "$python" "$apps/redis.py" ping redis.sock 2>>"$logs/ping" || die "redis-server did not answer"
    mapped "$server"
}

redis_down() {
    "$python" "$apps/redis.py" shutdown redis.sock
    wait "$server" || die "redis-server ended with exit status $?"
}

app_run() {
    mkdir "$top/work"
    cd "$top/work" # keeps the socket's path short, and its folder out of the results
    redis_up first
    "$python" "$apps/redis.py" fill redis.sock >"$top/run/fill"
    under_test redis-benchmark -s redis.sock -n 4000 -c 20 -P 8 -r 1000 -d 700 -q \
        -t set,get,incr,lpush,lpop,sadd,hset,zadd,mset >"$logs/benchmark" 2>&1
    "$python" "$apps/redis.py" save redis.sock >"$top/run/before"
    redis_down
    redis_up second
    "$python" "$apps/redis.py" digest redis.sock >"$top/run/after"
    redis_down
    cd "$top/run"
    rm -rf -- "$top/work"
    cmp before after || die "the dataset changed across save and reload"
}
