/* operators.h: tells whether a module of the process has operators new or delete of its own. A module that is linked
 * with -Bsymbolic and a static C++ library uses its own new, which calls our malloc, while a delete in another module
 * is ours; or the reverse. In such a process a block may correctly be allocated by one family of calls and freed by
 * another. Not a part of the release library. */
#pragma once

#include <stdbool.h>

enum operators { OPERATORS_NEW, OPERATORS_DELETE };

/* Whether a module other than this library and the C++ library defines one of these operators. Slow, since it asks the
 * loader, but only until one has been found. Any thread. */
bool operators_elsewhere(enum operators which);
