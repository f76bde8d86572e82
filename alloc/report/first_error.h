/* first_error.h: the standard error that the process had at its start, for texts that come at its end. A program may close
 * standard error before it ends, as ls and sort do, and its number may mean another file then. So a second descriptor stays,
 * with a number of 100 or more and closed by exec, and before a text is written the file is compared with that of the start.
 * A forked child gives the second one up: a daemon that closes standard error must not keep its parent's pipe open. */
#pragma once

/* Called once, at start, if a text will be wanted. */
void first_error_keep(void);

/* In the child after fork. */
void first_error_after_fork(void);

/* A descriptor of it; -1: there was none, or the program has closed all. Where nothing was kept: standard error as it is. */
int first_error_fd(void);
