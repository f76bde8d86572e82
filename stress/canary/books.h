/* What books.c shows; the malloc linked with it does the counting. */
#pragma once

#include <stddef.h>

extern size_t canary_lost_bytes;
