/* crash.h: what start.c needs of crash.c. */
#pragma once

/* Installs the handler if HAKMEM_CRASH_DIR asks for it. A directory that cannot be used is one line on standard error.
 * Not for a program that runs with privileges of its own: it would write where its caller likes. */
void crash_start(void);

/* Installs the handler, if it is not, in a way that writes no records: it only tells what sampled blocks have found. A
 * later hak_crash_handler_install names the directory all the same. */
void crash_start_for_guards(void);
