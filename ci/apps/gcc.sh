# shellcheck shell=bash
# gcc and g++: short-lived processes with large heaps and obstacks, realloc of vectors, a linker with mapped files.

app_needs() { echo gcc g++ python3; }
app_prepare() { "$python" "$apps/compile.py"; }
app_probe() {
    local stage
    probe gcc --version
    probe g++ --version
    for stage in cc1 cc1plus as ld; do probe "$(command -v "$(gcc -print-prog-name=$stage)")" --version; done
}

app_run() {
    cp "$input"/* .
    under_test gcc -O2 -pipe -frandom-seed=1 -c functions.c
    under_test g++ -std=c++17 -O2 -frandom-seed=1 -c templates.cc
    under_test g++ -flto=2 -O1 -frandom-seed=1 -c lto_*.cc
    under_test g++ -flto=2 -O1 -frandom-seed=1 -o lto lto_*.o
    under_test g++ -o program functions.o templates.o
    under_test ./program >program.output
    under_test ./lto >lto.output
    rm -f lto # its name tables contain the linker's process ids
}
