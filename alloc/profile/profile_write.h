/* profile_write.h: writes the heap profile: as pprof's gzipped protobuf. Without stdio and without
 * allocating from the heap; memory for a list of addresses comes from the system. It writes in a job (report/writer.h). */
#pragma once

#include <stdbool.h>

/* Writes the estimates of this moment to a file, which is replaced. Sample types: alloc_objects, alloc_space, inuse_objects,
 * inuse_space. Returns 0 or an errno value. Keeps errno. Any thread, but not in a job. */
int profile_write(const char *path);

/* Where profile_dump_next writes: PREFIX.PID.NUMBER.WHY.pb.gz. False: the prefix is empty or too long. Called at start. */
bool profile_prefix_set(const char *prefix, unsigned long length);

/* Writes the next numbered file, if there is a prefix. On failure one line on standard error. In a job. */
void profile_dump_next(const char *why);
