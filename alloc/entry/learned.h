/* learned.h: HAKMEM_LEARNED=PATH: what the heap learns about its program, kept in a file from one run to the next: how many
 * free pages and mappings are wanted again (superslab/purge.h, heap/huge.h), and how many frees a bin takes
 * (cache/credits.h). The file is one struct, with a sum. A path from the current directory is that of the start. Called
 * before main and at exit, by one thread. */
#pragma once

/* Begins with what the file has. Writes one line and keeps the defaults where it cannot be read, is damaged, or is of another
 * version; none where there is no such file yet. */
void learned_read(const char *path);

/* Replaces the file, by a new one beside it that is renamed, so that a reader finds the old or the new one whole. A file
 * of another kind stays as it is. Nothing without learned_read before. */
void learned_write(void);
