/* peek.c: see peek.h. The kernel reads for us, and returns EFAULT where a plain read would fault. */
#include "os/peek.h"

#include <errno.h>
#include <string.h>

#include "os/call.h"

enum { PIPE_PART_BYTES = 4096 }; /* a pipe takes this much at once */

/* For processes that may not call process_vm_readv (seccomp): writes the bytes to a pipe, which is never full, and
 * reads them back. */
/* files: for reports, if the system has no process_vm_readv */
static bool peek_through_pipe(const char *address, char *out, size_t size_bytes)
{
    int ends[2] = {-1, -1};
    if (call_pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    bool all = true;
    while (all && size_bytes > 0) {
        size_t part = size_bytes < PIPE_PART_BYTES ? size_bytes : PIPE_PART_BYTES;
        intptr_t written = call_write(ends[1], address, part);
        all = written > 0 && call_read(ends[0], out, (size_t)written) == written;
        if (!all) break;
        address += written;
        out += written;
        size_bytes -= (size_t)written;
    }
    call_close(ends[0]);
    call_close(ends[1]);
    return all;
}

/* gate: musl's frames of a sampled block, through a pipe, if the system refuses process_vm_readv */
bool os_peek(const void *address, void *out, size_t size_bytes)
{
    memset(out, 0, size_bytes);
    struct iovec local = {.iov_base = out, .iov_len = size_bytes};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = size_bytes};
    intptr_t count = call_process_vm_readv(call_getpid(), &local, &remote);
    bool all = count >= 0 && (size_t)count == size_bytes;
    if (count < 0 && count != -EFAULT) all = peek_through_pipe(address, out, size_bytes);
    return all;
}

uint64_t os_peek_word(const void *address, bool *readable)
{
    uint64_t word;
    *readable = os_peek(address, &word, sizeof word);
    return *readable ? word : 0;
}
