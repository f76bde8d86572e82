/* What books.c shows; the malloc beside it counts it. */
#pragma once

#include <stddef.h>

extern size_t canary_lost_bytes;
