/* fork.h: what the heap does about fork: nothing before it and nothing in the parent; the child mends
 * what it finds.
 *
 * The child's memory is a consistent cut: while fork copies the pages, a write of another thread
 * either goes to the page that the child gets, or waits for the end of fork; so what the child
 * sees of a thread is a prefix of what it did. Whatever is changed by one atomic step is whole. What
 * takes several steps is marked: by a lock that is held, by a thread cache that is busy. */
#pragma once

/* The child's handler: frees the locks, queues each slab whose poster had not come to it, and makes
 * orphans of the heaps of threads that do not exist here. A heap that was being changed is left
 * alone for good: its blocks can be freed, and stay where they are freed to. */
void fork_child(void);
