# shellcheck shell=bash
# The library must print nothing: everyday commands print the same bytes to stdout and stderr, and end with the same
# status.

app_needs() { echo python3 git ls; }
app_prepare() {
    git init -q "$input/repository" 2>/dev/null
    touch "$input/repository/file"
}
app_probe() {
    probe "$python" -c 'print(1)'
    probe ls -l "$input"
    probe bash -c :
    probe git --version
}

app_run() {
    said python "$python" -c 'print(1)'
    said ls ls -la "$input/repository/.git" /nowhere
    # shellcheck disable=SC2016
    said bash bash -c 'x=$(echo one | cat); echo "$x" $((6 * 7)); for i in 1 2 3; do (exit $i); done; nowhere'
    said git git -C "$input/repository" status
    said cat cat "$apps/quiet.sh"
    said false false
    said exec env -u HOME bash -c 'exec date -u -d @0'
    # with stdout and stderr closed, nothing may take their place and write
    (exec >&- 2>&-; under_test bash -c 'exec 3>closed; echo text >&3; ls -l /proc/self/fd | wc -l >&3')
}

# said NAME COMMAND...: keeps a command's output and its status.
said() {
    local name=$1 status=0
    shift
    under_test "$@" >"$name.stdout" 2>"$name.stderr" || status=$?
    echo "$status" >"$name.status"
}
