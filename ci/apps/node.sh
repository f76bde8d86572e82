# shellcheck shell=bash
# node: C++ heap objects beside a garbage-collected heap, buffers freed by finalizers, worker threads, zlib.

app_needs() { echo node; }
app_probe() { probe node --version; }

app_run() { under_test node "$apps/node.js" >answers; }
