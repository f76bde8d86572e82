/* place.c: see place.h. */
#include "report/place.h"

#include <stdbool.h>
#include <string.h>

#include "report/modules.h"
#include "report/text.h"

static bool shares_path(const struct module *module)
{
    for (uint32_t i = 0; i < modules_count(); i++)
        if (modules_get(i) != module && strcmp(modules_get(i)->path, module->path) == 0) return true;
    return false;
}

void place_add(struct text *text, const struct module *module, uintptr_t lasting)
{
    text_print(text, "%s+%#lx", module->path, lasting - module->image.base);
    if (module->image.build_id_bytes == 0 || !shares_path(module)) return;
    text_add(text, " (build id ");
    place_add_build_id(text, module);
    text_add(text, ")");
}

void place_add_build_id(struct text *text, const struct module *module)
{
    for (uint32_t i = 0; i < module->image.build_id_bytes; i++) {
        const char digits[] = {"0123456789abcdef"[module->image.build_id[i] >> 4],
                               "0123456789abcdef"[module->image.build_id[i] & 15]};
        text_add_bytes(text, digits, sizeof digits);
    }
}
