# shellcheck shell=bash
# clang: bump allocators in large slabs, dense maps that grow by calloc and free, one process per file.

app_needs() { echo clang-19 python3; }
app_prepare() { "$python" "$apps/compile.py"; }
app_probe() { probe clang-19 --version; }

app_run() {
    cp "$input"/* .
    under_test clang-19 -O2 -c functions.c
    under_test clang++-19 -std=c++17 -O2 -c templates.cc
    under_test clang++-19 -g -O0 -c lto_*.cc
    under_test clang++-19 -o program functions.o templates.o
    under_test ./program >program.output
}
