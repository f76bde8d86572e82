/* node_addon.c: an addon for node with the bug of rename_record.h. It declares the two functions of node's stable
 * interface that it needs, so it needs no header of node's. */
#include "rename_record.h"

typedef void *callback_fn(void *environment, void *call);

int napi_create_function(void *environment, const char *name, size_t length, callback_fn *callback, void *data,
                         void **function);
int napi_set_named_property(void *environment, void *object, const char *name, void *value);

static void *addon_rename(void *environment, void *call)
{
    (void)environment;
    (void)call;
    if (!rename_record()) abort();
    return NULL;
}

static void *addon_read(void *environment, void *call)
{
    (void)environment;
    (void)call;
    read_records();
    return NULL;
}

static void add(void *environment, void *exports, const char *name, callback_fn *callback)
{
    void *function = NULL;
    if (napi_create_function(environment, name, SIZE_MAX, callback, NULL, &function) != 0 ||
        napi_set_named_property(environment, exports, name, function) != 0)
        abort();
}

EXPORTED void *napi_register_module_v1(void *environment, void *exports);

void *napi_register_module_v1(void *environment, void *exports)
{
    add(environment, exports, "rename", addon_rename);
    add(environment, exports, "read", addon_read);
    return exports;
}
