# shellcheck shell=bash
# Shared by the scripts in ci/, which source it. Sets the shell's strict mode and finds the checkout.
#
#   root        absolute path of the checkout
#   log TEXT    one line on stderr, after the script's name
#   die TEXT    the same, then exit 1
#   usage_error TEXT   the same, then exit 2: the command line is wrong
#   need CMD    dies if a program is missing; of python3, if its modules are missing too
#   help        prints the comment that opens the script
#   words       the script's command line, checked against that comment, with each --NAME=VALUE as two words

set -euo pipefail

script_name=$(basename -- "$0")
root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)

log() { printf '%s: %s\n' "$script_name" "$*" >&2; }
die() { log "$*"; exit 1; }
usage_error() { log "$* (see --help)"; exit 2; }

if [ ! -r /proc/self/status ]; then
    log "there is no /proc here, which bash and the suite need: mount -t proc proc /proc"
    exit 2
fi

# Debian's python3-minimal has the program and few modules.
has_python() { python3 -c 'import json, shutil' 2>/dev/null; }

need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || die "$program is not installed: run ci/setup"
        [ "$program" != python3 ] || has_python || die "python3 lacks its modules: run ci/setup, which installs them"
    done
}

# The script's opening comment, without the interpreter line and the comment marks.
help() {
    local line
    {
        read -r line
        while IFS= read -r line && [[ $line == '#'* ]]; do
            line=${line#'#'}
            printf '%s\n' "${line# }"
        done
    } <"$0"
}

# An option is one that the help names, and takes a value if the help says so: --NAME VALUE, or --NAME [VALUE] if it may be left
# out. Words behind -- are another program's.
words=()
read_words() {
    local text name value before=
    text=$(help)
    while [ $# -gt 0 ]; do
        name=${1%%=*}
        case $1 in
            --help | -h | --) break ;;
            '') usage_error "${before:+$before: }an argument is empty: give a value, or leave it out" ;;
            --self-test) [ $# -eq 1 ] && [ ${#words[@]} -eq 0 ] || usage_error "--self-test takes no other argument" ;;
            -[0-9]* | [!-]* | -) ;;
            *)
                [[ $text =~ (^|[^[:alnum:]-])"$name"([^[:alnum:]-]|$) ]] || usage_error "unknown option $name"
                value=
                if [[ $text =~ [^[:alnum:]-]"$name "(\[?)[A-Z] ]]; then value=${BASH_REMATCH[1]:-needed}; fi
                if [[ $1 == *=* ]]; then
                    [ -n "$value" ] || usage_error "$name takes no value"
                    [ -n "${1#*=}" ] || usage_error "$name needs a value"
                    words+=("$name" "${1#*=}")
                    shift
                    continue
                elif [ "$value" = needed ]; then
                    [[ -n ${2-} && $2 != --* ]] || usage_error "$name needs a value"
                    words+=("$1")
                    shift
                fi
                ;;
        esac
        before=$1
        words+=("$1")
        shift
    done
    words+=("$@")
}
if [ -f "$0" ]; then read_words "$@"; fi # not for bash -c

# configure_and_build TREE [TARGET...]: configures a preset of CMakePresets.json, with the words of $configure_options, and
# builds it in build/TREE.
configure_options=()
configure_and_build() {
    local tree=$1
    shift
    local targets=()
    if [ $# -gt 0 ]; then targets=(--target "$@"); fi
    local fresh=() made_for
    made_for=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$root/build/$tree/CMakeCache.txt" 2>/dev/null) || true
    [ "${made_for:-$root}" -ef "$root" ] || fresh=(--fresh) # the checkout was moved
    (cd "$root" && cmake "${fresh[@]}" --preset "$tree" "${configure_options[@]}" && cmake --build "build/$tree" "${targets[@]}")
}

# build_with_progress TREE TARGET...: the same, for a person who waits: a line on stderr at first and every 10 s. If it fails,
# the lines of ci/dependencies.cmake, else the whole output. The targets are no tests. So a fresh tree gets none, which need
# more packages and time to configure. One that has tests keeps them, and `cmake --preset TREE` makes them.
build_with_progress() {
    local line output='' next=$((SECONDS + 10)) configure_options=(-DHAKMEM_TESTS=OFF)
    if grep -qs '^HAKMEM_TESTS:[A-Z]*=ON' "$root/build/$1/CMakeCache.txt"; then configure_options=(); fi
    if ! { mkdir -p "$root/build/$1" && [ -w "$root/build/$1" ]; } 2>/dev/null; then
        log "cannot write to $root/build/$1: clone to a folder of your own, or make this one yours"
        return 2
    fi
    log "building build/$1"
    while IFS= read -r line; do
        output+=$line$'\n'
        if [ "$SECONDS" -ge "$next" ] && [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
            log "building build/$1: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} steps"
            next=$((SECONDS + 10))
        fi
    done < <(configure_and_build "$@" 2>&1)
    wait $! && return
    if line=$(grep '^hakmem: .* Install: ' <<<"$output"); then printf '%s\n' "$line" >&2; else log "build failed: $output"; fi
    return 2
}
