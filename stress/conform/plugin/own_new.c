/* A module that binds its own operators new and delete, which call malloc and free, as one does that is linked with
 * -Bsymbolic and a static C++ library (libLLVM in rustc). */
#include <stddef.h>
#include <stdlib.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN void *_Znwm(size_t size_bytes);
SHOWN void *_Znam(size_t size_bytes);
SHOWN void *_ZnwmSt11align_val_t(size_t size_bytes, size_t align_bytes);
SHOWN void _ZdlPv(void *block);
SHOWN void _ZdaPv(void *block);
SHOWN void *conform_own_new(size_t size_bytes);
SHOWN void *conform_own_new_array(size_t size_bytes);
SHOWN void *conform_own_new_aligned(size_t size_bytes, size_t align_bytes);
SHOWN void conform_own_delete(void *block);
SHOWN void conform_own_delete_array(void *block);

void *_Znwm(size_t size_bytes)
{
    return malloc(size_bytes > 0 ? size_bytes : 1);
}
void *_Znam(size_t size_bytes)
{
    return _Znwm(size_bytes);
}
void *_ZnwmSt11align_val_t(size_t size_bytes, size_t align_bytes)
{
    return aligned_alloc(align_bytes, (size_bytes + align_bytes - 1) / align_bytes * align_bytes);
}
void _ZdlPv(void *block)
{
    free(block);
}
void _ZdaPv(void *block)
{
    _ZdlPv(block);
}

void *conform_own_new(size_t size_bytes)
{
    return _Znwm(size_bytes);
}
void *conform_own_new_array(size_t size_bytes)
{
    return _Znam(size_bytes);
}
void *conform_own_new_aligned(size_t size_bytes, size_t align_bytes)
{
    return _ZnwmSt11align_val_t(size_bytes, align_bytes);
}
void conform_own_delete(void *block)
{
    _ZdlPv(block);
}
void conform_own_delete_array(void *block)
{
    _ZdaPv(block);
}
