/* nodeepbind.c: libhakmem-nodeepbind.so, to preload beside a malloc in programs that load modules with RTLD_DEEPBIND
 * (PHP). Such a module takes malloc and free from libc, though the rest of the program has the preloaded ones, and a
 * block that crosses the border comes to the wrong free. The flag is ignored here.
 *
 * dlopen looks at its caller: whose namespace, whose RUNPATH, whose $ORIGIN. The call below is a jump, so that the caller
 * stays the program's. */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(file, mode & ~RTLD_DEEPBIND);
}
