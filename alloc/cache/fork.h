/* fork.h: how the heap survives fork. It does nothing before fork and nothing in the parent; the child repairs what it
 * finds.
 *
 * The child's memory is a consistent cut: while fork copies the pages, a write of another thread either reaches the
 * page that the child gets, or waits until fork is done. So for each thread the child sees the writes up to some
 * moment, and none after it. Data that changes in one atomic step is whole in the child. Changes that take several
 * steps are marked: by a held lock, or by a busy thread cache. */
#pragma once

/* The handler in the child: frees the locks, queues each slab that was posted to but not queued yet, and makes orphans
 * of the heaps of threads that do not exist here. A heap that was being changed at the fork is never used again: its
 * blocks can be freed, but are not reused. */
void fork_child(void);
