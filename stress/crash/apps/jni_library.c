/* jni_library.c: a library for java with the bug of rename_record.h; Records.java loads it. It uses no function of
 * java's, so it needs no header of java's. */
#include "rename_record.h"

EXPORTED void Java_Records_rename(void *environment, void *of_class);
EXPORTED void Java_Records_read(void *environment, void *of_class);

void Java_Records_rename(void *environment, void *of_class)
{
    (void)environment;
    (void)of_class;
    if (!rename_record()) abort();
}

void Java_Records_read(void *environment, void *of_class)
{
    (void)environment;
    (void)of_class;
    read_records();
}
