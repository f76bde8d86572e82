/* operators.h: which modules of the process have operators new and delete of their own. One that is linked with
 * -Bsymbolic and a static C++ library binds its own new, which calls our malloc, while a delete elsewhere is ours; or
 * the other way round. Where there is such a module, a block's two ends may rightly be of different families. Not a part
 * of the release library. */
#pragma once

#include <stdbool.h>

enum operators { OPERATORS_NEW, OPERATORS_DELETE };

/* True where a module beside this library and the C++ library defines one of these. Slow: it asks the loader; but for one
 * that was found once it does not ask again. Any thread. */
bool operators_elsewhere(enum operators which);
