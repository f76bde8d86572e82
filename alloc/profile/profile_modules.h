/* profile_modules.h: the mappings and locations of a heap profile's file.
 *
 * The file has a mapping for each segment with code of each module that was ever seen (report/modules.h), the program's first,
 * which is what pprof takes for the program. Addresses are lasting ones, so a module that was unloaded has mappings that
 * no other module's overlap. */
#pragma once

#include <stdint.h>

/* Writes the mappings and their strings. next_string: how many strings the file has so far. Under the DUMP lock, as
 * profile_put_location. */
void profile_put_mappings(uint64_t next_string);

/* Writes the location of a call: its id is its lasting address. By rising addresses it is quick. */
void profile_put_location(uint64_t call);
