# shellcheck shell=bash
# stress-ng's malloc stressor, two processes of five threads: malloc, calloc, realloc, memalign, content checks.

app_needs() { echo stress-ng; }
app_probe() { probe stress-ng --version; }

# has OPTION: whether stress-ng has it; older releases lack some.
has() { grep -qE -- "--$1( |\$)" "$input/help"; }
app_prepare() { stress-ng --help >help; }

stressor() {
    local common=(--malloc 2 --malloc-max 8192 --verify --timeout 60s --temp-path "$logs")
    if has malloc-pthreads; then common+=(--malloc-pthreads 4); fi
    if has oomable; then common+=(--oomable); fi
    # Level 1: stress-ng 0.15 stores a pointer in blocks of fewer than 8 bytes, which level 2 reports as write_after.
    HAKMEM_FAILFAST_LEVEL=1 under_test stress-ng "${common[@]}" "$@" >>"$logs/stress-ng" 2>&1
}

app_run() {
    local touch=() zero=()
    if has malloc-touch; then touch=(--malloc-touch); fi
    if has malloc-zerofree; then zero=(--malloc-zerofree); fi
    stressor --malloc-bytes 1k --malloc-ops 1000000 "${touch[@]}"
    stressor --malloc-bytes 16k --malloc-ops 200000 "${zero[@]}"
    stressor --malloc-bytes 8m --malloc-ops 5000
    if grep -E 'fail|error|signal|oom' "$logs/stress-ng" >&2; then return 1; fi
    grep -o 'successful run completed' "$logs/stress-ng" >result
}
