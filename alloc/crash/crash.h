/* crash.h: starts the crash handler before main. For entry/start.c; hakmem/crash.h is the public part. */
#pragma once

/* Installs the handler if HAKMEM_CRASH_DIR names a directory. If that cannot be used, writes one line to standard
 * error. Does nothing in a program that runs with privileges of its own, since it would write wherever its caller
 * likes. */
void crash_start(void);

/* Installs the handler, unless it is installed, without a directory: it then writes no records, and only reports what
 * sampled blocks have found. A later hak_crash_handler_install still sets the directory. */
void crash_start_for_guards(void);
