/* crash_origin.h: how the process was started, for crash records. A program may overwrite its arguments and its
 * environment (setproctitle), and its files may be replaced while it runs: so they are read when the handler is
 * installed, into static memory. A later install in the same process, or in a child, finds them kept. */
#pragma once

struct record_writer;

/* When the handler is installed, by one thread. Reads /proc; what cannot be read is left out of records. */
void origin_keep(void);

/* Adds the fields. In a signal handler. */
void origin_write(struct record_writer *writer);
