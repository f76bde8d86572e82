/* crash.h: what start.c needs of crash.c. */
#pragma once

/* Installs the handler if HAKMEM_CRASH_DIR asks for it. A directory that cannot be used is one line on standard error.
 * Not for a program that runs with privileges of its own: it would write where its caller likes. */
void crash_start(void);
