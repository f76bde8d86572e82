/* crash_origin.h: how the process was started, for crash records. A program may overwrite its arguments and its
 * environment (setproctitle), and its files may be replaced while it runs. So all this is read into static memory when
 * the handler is first installed. A later install in the same process, or in a child, keeps what was read. */
#pragma once

struct record_writer;

/* Called by one thread, when the handler is installed. Reads /proc; records lack what cannot be read. */
void origin_keep(void);

/* Adds the fields to a record. Async-signal-safe. */
void origin_write(struct record_writer *writer);
