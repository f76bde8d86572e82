# shellcheck shell=bash
# perl: its own arenas on top of malloc, strings that grow by realloc, fork, interpreter clones as threads.

app_needs() { echo perl; }
app_probe() { probe perl -e 1; }

app_run() { PERL_HASH_SEED=0 under_test perl "$apps/perl.pl" >answers; }
