/* cfi.h: finds a function's caller by call-frame information (.eh_frame), where the compiler kept no frame pointer. It
 * knows the files that were loaded when the process began and are never unloaded. x86-64 only; elsewhere it finds nothing. Any thread;
 * async-signal-safe after cfi_start. Not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A function that has not returned: where it continues, and its stack and frame pointers there. */
struct cfi_frame {
    uintptr_t pc, stack, frame;
};

/* Learns the files; `stays` says whether the file at an address is never unloaded. Takes the dynamic linker's lock, so not
 * inside malloc; before main. */
typedef bool cfi_stays_fn(uintptr_t address);
void cfi_start(cfi_stays_fn *stays);

/* Whether a file is a part of the C or C++ runtime, by its name. */
bool cfi_is_runtime_path(const char *path);

/* Whether an address is in the C or C++ runtime, whose functions call malloc for the program. */
bool cfi_is_runtime(uintptr_t address);

/* Makes the frame that of its caller. is_call: pc is a return address. Reads the stack from frame->stack up to end. False:
 * the function is in no file that is known, or has rules that are not understood. */
bool cfi_step(struct cfi_frame *frame, bool is_call, uintptr_t end);
