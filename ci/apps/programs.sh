# shellcheck shell=bash
# The tests of programs that run to their end. NAME_needs, NAME_prepare, NAME_probe and NAME_run are what `run` says of
# app_needs and so on. Without NAME_probe the first program that is needed must start with --version.

# --- languages --------------------------------------------------------------------------------------------------

ruby_needs() { echo ruby; }
ruby_run() { under_test ruby --disable-gems "$apps/input/work.rb" >answers; }

lua_needs() { echo lua5.4; }
lua_probe() { probe lua5.4 -v; }
lua_run() { under_test lua5.4 "$apps/input/work.lua" >answers; }

# PHP loads its extensions with RTLD_DEEPBIND.
php_needs() { echo php; }
php_deepbind() {
    [ -n "$preload" ] || return 0
    ln -sf -- "$(dirname -- "$library")/libhakmem-nodeepbind.so" "$top/nodeepbind.so"
    preload="$preload $top/nodeepbind.so"
}
php_probe() { (php_deepbind; probe php --version); }
php_run() {
    php_deepbind
    under_test php -m | sort >extensions
    USE_ZEND_ALLOC=1 under_test php "$apps/input/work.php" >answers
    USE_ZEND_ALLOC=0 under_test php "$apps/input/work.php" >answers.malloc
    USE_ZEND_ALLOC=0 under_test php -d opcache.enable_cli=1 "$apps/input/work.php" >answers.opcache
}

# CPython's own tests, of parts that allocate in C, with every object in malloc.
cpython_needs() { echo /usr/bin/python3; }
cpython_probe() { probe /usr/bin/python3 --version; }
cpython_run() {
    PYTHONMALLOC=malloc under_test /usr/bin/python3 -m test -j2 test_json test_re test_bytes test_list test_dict \
        test_set test_threading test_mmap test_zlib test_ast test_gc test_xml_etree_c test_struct >"$logs/tests"
    sed -nE '/^(All [0-9]+ tests OK|[0-9]+ tests? )/p' "$logs/tests" >summary
}

go_needs() { echo go gcc; }
go_prepare() {
    mkdir program
    cp "$apps/input/cgo.go" program/main.go
    printf 'module example.org/work\ngo 1.19\n' >program/go.mod
    mkdir -p "$top/.config/go/telemetry" std
    echo off >"$top/.config/go/telemetry/mode" # nothing may write there after the build
    printf 'package main\nimport ("C"; "fmt"; "sync")\nfunc main() { var w sync.WaitGroup; w.Wait(); fmt.Println() }\n' >std/main.go
    printf 'module example.org/std\ngo 1.19\n' >std/go.mod
    go_build "$input/std" "$input/cache" # what all programs share
}
# go_build FOLDER CACHE
go_build() {
    (cd "$1" && GOCACHE=$2 GOFLAGS=-buildvcs=false GOTOOLCHAIN=local HOME=$top under_test go build -o work)
}
go_probe() { probe "$input/program/work"; } # the go command itself is static; the run on libc has left this
go_run() {
    cp -r "$input/cache" "$top/cache"
    go_build "$input/program" "$top/cache"
    rm -rf -- "$top/cache"
    under_test "$input/program/work" >answers
}

rust_needs() { echo cargo rustc; }
rust_probe() { probe rustc --version; }
rust_prepare() {
    mkdir src
    cp "$apps/input/work.rs" src/main.rs
    printf '[package]\nname = "work"\nversion = "0.1.0"\nedition = "2021"\n[profile.release]\nlto = "fat"\n' >Cargo.toml
}
rust_run() {
    under_test cargo build --quiet --offline --release --manifest-path "$input/Cargo.toml" --target-dir "$top/target"
    under_test cargo test --quiet --offline --manifest-path "$input/Cargo.toml" --target-dir "$top/target" >"$logs/tests"
    under_test "$top/target/release/work" >answers
    rm -rf -- "$top/target"
}

# --- tools ------------------------------------------------------------------------------------------------------

cmake_needs() { echo cmake make gcc; }
cmake_probe() { probe cmake --version && probe make --version; }
cmake_prepare() {
    local i
    for i in {1..60}; do
        printf '#include <stdio.h>\nint f%d(int x) { char t[64]; return snprintf(t, sizeof t, "%%d", x * %d); }\n' "$i" "$i"
    done >functions
    mkdir source
    for i in {1..60}; do sed -n "1p;/ f$i(/p" functions >"source/f$i.c"; done
    {
        printf 'cmake_minimum_required(VERSION 3.13)\nproject(work C)\nadd_library(f STATIC'
        printf ' f%d.c' {1..60}
        printf ')\nadd_executable(work main.c)\ntarget_link_libraries(work f)\nenable_testing()\nadd_test(work work)\n'
    } >source/CMakeLists.txt
    printf 'int f1(int);\nint f60(int);\nint main(void) { return f1(12345) + f60(100) - 9; }\n' >source/main.c
}
cmake_run() {
    under_test cmake -S "$input/source" -B "$top/build" -G "Unix Makefiles" >"$logs/configure"
    under_test make -C "$top/build" -j8 >"$logs/make"
    (cd "$top/build" && under_test ctest) >"$logs/ctest"
    cp "$top/build/work" "$top/build/libf.a" .
    rm -rf -- "$top/build"
}

# Reads and unwinds a program with threads and symbols. The program that it debugs runs on libc.
gdb_needs() { echo gdb xz; }
gdb_run() {
    under_test gdb -nx -batch -ex 'unset environment LD_PRELOAD' -ex 'set startup-with-shell off' \
        -ex 'break main' -ex 'info functions ^xz' -ex 'info line' -ex run -ex 'info sharedlibrary' -ex 'bt' \
        -ex 'info types .*size.*' -ex 'disassemble $pc,+200' -ex 'python print(sum(range(1000)))' \
        -ex 'info proc mappings' -ex kill --args "$(command -v xz)" --version >"$logs/session" 2>&1 || true
    under_test gdb -nx -batch -ex 'info functions ^PyList' -ex 'info types ^_' -ex 'maint print msymbols' \
        "$(readlink -f /usr/bin/python3)" >symbols 2>"$logs/symbols"
    sed -E 's/process [0-9]+/process N/g; s/Thread 0x[0-9a-f]+ \(LWP [0-9]+\)/Thread/' "$logs/session" >session
}

# --- documents and media ----------------------------------------------------------------------------------------

ghostscript_needs() { echo gs; }
ghostscript_run() {
    local device
    for device in png16m pgmraw txtwrite; do
        under_test gs -q -dNOPAUSE -dBATCH -dNumRenderingThreads=2 -r120 -sDEVICE=$device -o "page-%d.$device" \
            "$apps/input/work.ps" >"$logs/$device" 2>&1
    done
    under_test gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite -o "$top/work.pdf" "$apps/input/work.ps"
    under_test gs -q -dNOPAUSE -dBATCH -r72 -sDEVICE=ppmraw -o page-from-pdf-%d.ppm "$top/work.pdf"
    rm -f -- "$top/work.pdf"
}

z3_needs() { echo z3; }
z3_run() {
    under_test z3 -smt2 "$apps/input/work.smt2" >answers
    under_test z3 -smt2 smt.random_seed=7 sat.random_seed=7 "$apps/input/work.smt2" >answers.seed
}

imagemagick() {
    local command
    for command in convert-im6.q16 magick; do
        if command -v $command; then return; fi
    done
}
imagemagick_needs() {
    command_name=$(imagemagick)
    echo "${command_name:-convert-im6.q16}"
}
imagemagick_probe() { probe "$(imagemagick)" -version; }
imagemagick_run() {
    local convert
    convert=$(imagemagick)
    under_test "$convert" -size 600x400 -seed 42 plasma:red-blue "$top/a.ppm"
    under_test "$convert" "$top/a.ppm" -blur 0x3 -rotate 17 -resize 300x blurred.ppm
    under_test "$convert" "$top/a.ppm" -quality 80 -strip photo.jpg
    under_test "$convert" photo.jpg "$top/a.ppm" -append -colors 64 -strip joined.gif
    under_test "$convert" "$top/a.ppm" -define png:exclude-chunks=date,time -strip drawn.png
    rm -f -- "$top/a.ppm"
}

ffmpeg_needs() { echo ffmpeg; }
ffmpeg_probe() { probe ffmpeg -version; }
# -bf 0: what x264 makes of B-frames depends on what fresh memory holds, with libc's MALLOC_PERTURB_ too.
ffmpeg_run() {
    local codec
    for codec in libx264 mpeg4 ffv1; do
        under_test ffmpeg -nostdin -v error -f lavfi -i testsrc2=duration=1:size=320x240 -f lavfi -i sine=duration=1 \
            -threads 4 -c:v $codec -bf 0 -c:a aac -flags +bitexact -fflags +bitexact -f md5 $codec
    done
    under_test ffmpeg -nostdin -v error -f lavfi -i testsrc=duration=2:size=640x360 -filter_threads 4 \
        -vf 'scale=320:-1,hflip,split[a][b];[b]boxblur[c];[a][c]hstack' -f rawvideo - | cksum >filtered
}

# Chromium has a malloc of its own, which the preloaded one must leave alone: so it is not probed.
chromium_needs() { echo chromium; }
chromium_probe() { under_test chromium --version >"$top/version"; }
chromium_run() {
    under_test chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync \
        --disable-background-networking --disable-component-update --user-data-dir="$top/profile" \
        --dump-dom "file://$apps/input/work.html" >page 2>"$logs/chromium"
    grep -q 'sum 499500' page
    rm -rf -- "$top/profile"
}
