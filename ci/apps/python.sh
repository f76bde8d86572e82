# shellcheck shell=bash
# PYTHONMALLOC=malloc sends every object to malloc: millions of small blocks, threads, fork, worker processes.

app_needs() { echo python3; }
app_probe() { PYTHONMALLOC=malloc probe "$python" -c 'import json, zlib'; }

app_run() {
    PYTHONMALLOC=malloc under_test "$python" -I "$apps/python.py" >answers
}
