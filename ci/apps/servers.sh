# shellcheck shell=bash
# The tests of servers. NAME_needs, NAME_prepare, NAME_probe and NAME_run are what `run` says of app_needs and so on.
# All listen on sockets in $top/work, whose path is short. Each ends by itself when it is asked to.

PATH=$PATH:/usr/sbin
for folder in /usr/lib/postgresql/*/bin; do PATH=$PATH:$folder; done

work=$top/work

# Databases refuse to run as root: then they run as the user nobody.
as_user=(env)
if [ "$(id -u)" -eq 0 ]; then as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups); fi
work_begin() {
    rm -rf -- "$work"
    mkdir "$work"
    chmod 755 "$top"
    if [ "$(id -u)" -eq 0 ]; then chown nobody "$work"; fi
    cd "$work"
}
work_end() {
    cd "$top/run"
    rm -rf -- "$work"
}
ended() { wait "$1" || die "process $1 ended with exit status $?"; }

# --- databases --------------------------------------------------------------------------------------------------

postgresql_needs() { echo initdb postgres pgbench psql setpriv; }
postgresql_probe() { probe postgres --version; }
sql() { under_test psql -h "$work" -U nobody -AtqX -v ON_ERROR_STOP=1 "$@" postgres; }
postgresql_run() {
    work_begin
    under_test "${as_user[@]}" initdb -D data -U nobody -A trust --no-sync -E UTF8 --locale=C >"$logs/initdb"
    start postgres "${as_user[@]}" postgres -D data -k "$work" -c listen_addresses= -c fsync=off -c shared_buffers=32MB \
        -c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0
    retry 30 sql -c 'select 1' >/dev/null 2>>"$logs/wait" || die "postgres did not answer"
    mapped "$started"
    under_test pgbench -h "$work" -U nobody -i -s 2 -q postgres >"$logs/pgbench.init" 2>&1
    under_test pgbench -h "$work" -U nobody -c 1 -t 300 --random-seed=42 postgres >"$logs/pgbench.1" 2>&1
    sql -c 'select sum(abalance), count(*) from pgbench_accounts' -c 'select * from pgbench_branches order by bid' \
        -c 'select aid, tid, delta from pgbench_history order by aid, tid, delta' >"$top/run/one"
    under_test pgbench -h "$work" -U nobody -c 8 -j 4 -t 100 postgres >"$logs/pgbench.8" 2>&1
    sql -c 'select count(*) from pgbench_history' -c 'select (select sum(abalance) from pgbench_accounts) =
        (select sum(bbalance) from pgbench_branches) and (select sum(tbalance) from pgbench_tellers) =
        (select sum(delta) from pgbench_history)' >"$top/run/eight"
    sql -c "create table t as select i, md5(i::text) m, repeat(md5(i::text), i % 20) long from generate_series(1, 40000) i" \
        -c "select md5(string_agg(m, ',' order by m)), sum(length(long)) from t" \
        -c "select count(*), max(a.m) from t a join t b on a.i = b.i + 1 where a.m > b.m" \
        -c "select jsonb_object_agg(i, m) -> '77' from t where i < 3000" \
        -c "create index on t using gin (to_tsvector('simple', m))" \
        -c "select regexp_replace(m, '[a-f]+', '-', 'g') from t where i < 5" >"$top/run/queries"
    kill -TERM "$started" # a smart shutdown: psql has gone
    ended "$started"
    work_end
}

mariadb_needs() { echo mariadbd mariadb-install-db mariadb setpriv; }
mariadb_probe() { probe mariadbd --no-defaults --version; }
mariadb_run() {
    local i clients=()
    work_begin
    under_test "${as_user[@]}" mariadb-install-db --no-defaults --datadir="$work/data" --auth-root-authentication-method=normal \
        --skip-test-db >"$logs/install" 2>&1
    start mariadbd "${as_user[@]}" mariadbd --no-defaults --datadir="$work/data" --socket="$work/sock" --skip-networking \
        --pid-file="$work/pid" --innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=0
    retry 40 mariadb --no-defaults -uroot -S "$work/sock" -e 'select 1' >/dev/null 2>>"$logs/wait" || die "mariadbd did not answer"
    mapped "$started"
    client() { under_test mariadb --no-defaults -uroot -S "$work/sock" -N "$@"; }
    client -e 'create database w; create table w.t (i int primary key, m char(32), long_text text, key(m)) engine=innodb;
        insert into w.t select seq, md5(seq), repeat(md5(seq), seq % 20) from w.seq_1_to_20000'
    for i in 1 2 3 4 5 6; do
        client -e "update w.t set long_text = concat(long_text, '$i') where i % 6 = $i - 1;
            select count(*) from w.t a join w.t b on a.i = b.i + 1 where a.m > b.m" >"$top/run/client.$i" &
        clients+=($!)
    done
    for i in "${clients[@]}"; do ended "$i"; done
    client -e "select md5(group_concat(m order by m)), sum(length(long_text)) from w.t; checksum table w.t;
        select regexp_replace(m, '[a-f]+', '-'), json_object('i', i) from w.t where i < 5;
        create table w.a engine=aria select * from w.t; alter table w.a add fulltext(long_text); checksum table w.a;
        select count(distinct left(m, 3)) from w.a" >"$top/run/queries"
    client -e shutdown
    ended "$started"
    work_end
}

rocksdb_needs() { echo db_bench ldb; }
rocksdb_probe() { probe ldb --version; }
rocksdb_run() {
    work_begin
    under_test db_bench --db="$work/db" --seed=42 --num=25000 --value_size=200 --threads=1 --compression_type=none \
        --benchmarks=fillrandom,overwrite,readrandom,compact >"$logs/one" 2>&1
    under_test ldb --db="$work/db" scan --hex | cksum >"$top/run/scan"
    under_test db_bench --db="$work/db" --use_existing_db=1 --seed=42 --num=25000 --value_size=200 --threads=4 \
        --compression_type=none --benchmarks=readrandom,readseq,multireadrandom,seekrandom >"$logs/four" 2>&1
    under_test ldb --db="$work/db" checkconsistency >"$top/run/consistent"
    sed -nE 's/^(readrandom|multireadrandom) .*(\([0-9]+ of [0-9]+ found\)).*/\1 \2/p' "$logs/one" >"$top/run/found"
    work_end
}

# --- the web ----------------------------------------------------------------------------------------------------

# Files of many sizes, and a list that makes curl fetch each ten times.
web_prepare() {
    local i
    mkdir files
    for i in {1..40}; do
        "$python" -c "import random; print(random.Random($i).randbytes(1 << $i % 20).hex())" >"files/$i"
    done
    for i in {1..400}; do printf 'url = "http://host/%d"\noutput = "%d"\n' $((i % 40 + 1)) "$i"; done >fetch
}

# nginx_up NAME SOCKET [START]: serves $input/files; START: how the server is started, `start` for under test.
nginx_up() {
    local name=$1 socket=$2 user=
    if [ "$(id -u)" -eq 0 ]; then user="user root;"; fi
    cat >"$work/$name.conf" <<NGINX
daemon off; $user worker_processes 2; pid $work/$name.pid; error_log $logs/$name.error;
events { worker_connections 256; }
http {
    access_log off; gzip on; gzip_types *; gzip_min_length 100;
    client_body_temp_path $work/b; proxy_temp_path $work/p; fastcgi_temp_path $work/f;
    uwsgi_temp_path $work/u; scgi_temp_path $work/s;
    server { listen unix:$socket; root $input/files; }
}
NGINX
    start "$name" nginx -e "$logs/$name.error" -p "$work" -c "$work/$name.conf"
    retry 20 curl -s --unix-socket "$socket" http://host/1 -o /dev/null || die "nginx did not start"
}

# fetch NAME SOCKET [OPTION]...: fetches the list, sixteen at a time; one line in $top/run/NAME for each file.
fetch() {
    local name=$1 socket=$2
    shift 2
    rm -rf -- "$work/fetched"
    mkdir "$work/fetched"
    (cd "$work/fetched" && curl -sS --fail --parallel --parallel-max 16 --unix-socket "$socket" "$@" -K "$input/fetch")
    (cd "$work/fetched" && cksum -- *) >"$top/run/$name"
}

nginx_needs() { echo nginx curl python3; }
nginx_prepare() { web_prepare; }
nginx_probe() { probe nginx -v; }
nginx_run() {
    work_begin
    nginx_up nginx "$work/sock"
    local server=$started
    mapped "$server"
    fetch plain "$work/sock"
    fetch compressed "$work/sock" --compressed
    kill -HUP "$server" # new workers, while the old ones end
    fetch again "$work/sock" --compressed
    kill -QUIT "$server"
    ended "$server"
    work_end
}

# A server of files for the proxies, on libc.
backend_up() {
    local saved=$preload
    preload=
    nginx_up backend "$work/backend"
    preload=$saved
    backend=$started
}
backend_down() { kill -QUIT "$backend"; ended "$backend"; }

haproxy_needs() { echo haproxy nginx curl python3; }
haproxy_prepare() { web_prepare; }
haproxy_probe() { probe haproxy -v; }
haproxy_run() {
    work_begin
    backend_up
    cat >haproxy.conf <<HAPROXY
global
    nbthread 4
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    compression algo gzip
    compression type text/plain application/octet-stream
cache small
    total-max-size 4
    max-object-size 200000
frontend front
    bind unix@$work/sock
    http-request set-var(txn.sum) path,sha1,hex
    http-request cache-use small
    http-response cache-store small
    http-response set-header X-Sum %[var(txn.sum)]
    default_backend back
backend back
    server one unix@$work/backend maxconn 20
HAPROXY
    start haproxy haproxy -db -f haproxy.conf
    local server=$started
    retry 20 curl -s --unix-socket "$work/sock" http://host/1 -o /dev/null || die "haproxy did not start"
    mapped "$server"
    fetch plain "$work/sock"
    fetch compressed "$work/sock" --compressed
    curl -sS --unix-socket "$work/sock" http://host/7 -D - -o body | grep -i x-sum >"$top/run/header"
    kill -USR1 "$server" # ends when its connections have
    ended "$server"
    backend_down
    work_end
}

varnish_needs() { echo varnishd nginx curl gcc python3; }
varnish_prepare() { web_prepare; }
varnish_probe() { probe varnishd -V; }
varnish_run() {
    work_begin
    backend_up
    cat >varnish.vcl <<VARNISH
vcl 4.1;
import std;
backend one { .path = "$work/backend"; }
sub vcl_deliver { set resp.http.X-Sum = std.toupper(req.url) + regsuball(req.url, "[0-9]", "n"); }
VARNISH
    chmod 644 varnish.vcl
    start varnish varnishd -F -j none -n "$work/n" -a "$work/sock" -f "$work/varnish.vcl" -s malloc,20m -p thread_pools=2
    local server=$started
    retry 40 curl -s --unix-socket "$work/sock" http://host/1 -o /dev/null || die "varnishd did not start"
    mapped "$server"
    fetch plain "$work/sock"
    fetch cached "$work/sock" --compressed
    curl -sS --unix-socket "$work/sock" http://host/7 -D - -o body | grep -i x-sum >"$top/run/header"
    kill -TERM "$server"
    ended "$server"
    backend_down
    work_end
}
