/* stacks.h: finds the site of a call stack without unwinding it, where the same stack was seen before.
 *
 * Unwinding with DWARF takes some 1800 instructions a frame. What it reads of the stack is little: for each function the
 * return address, at an offset from the stack pointer that the return address before it decides; where a function
 * addresses its frame by a frame pointer, the saved one as well. So a stack is known again by these words alone: the
 * words of all stacks that were unwound are kept as a tree of steps `at this offset lies this word`.
 *
 *   Law: each path from the root has the words, in their order, that one unwinding read, and no others. So a stack in
 *   which all of them are found is unwound the same way, and each word is read only after the words that decide where it
 *   lies were found.
 *
 * The law holds as long as the code is the same. So a path that leads through modules which may be unloaded counts only
 * while each of them is where it was when the path was learned. When one is not, the whole tree is forgotten.
 *
 * Offsets and saved frame pointers are relative, so threads share the tree. A stack of which the unwinder does not say
 * where it read, or that has a function that aligns its frame with gcc's DRAP, is unwound each time. */
#pragma once

#include <stdint.h>

#include "profile/sites.h"

/* The site of the calling function's stack, from its caller on. frame is its __builtin_frame_address(0). The caller holds
 * the PROFILE lock; stack_site may release it for a while. */
struct profile_site *stack_site(uintptr_t frame);

/* How many stacks were unwound so far. Under the PROFILE lock. */
uint64_t stacks_unwound(void);
