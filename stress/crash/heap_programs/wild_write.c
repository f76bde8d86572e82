/* wild_write.c: a pointer that was never set to a block points into the heap's own data: to the word that begins this
 * thread's list of free blocks. */
// expect: library=release cause=wild_write grade=found
#include "heap_program.h"

enum { SIZE = 208 };

/* The word below the thread's descriptor that holds the address of the last freed block: the head of its list. */
PLAINLY static uint64_t *find_head(uint64_t freed)
{
    uint64_t *thread = (uint64_t *)(uintptr_t)pthread_self(); /* glibc: its address is the thread pointer */
    for (int i = 1; i < 1024; i++)
        if (*(volatile uint64_t *)(thread - i) == freed) return thread - i;
    _exit(3);
}

PLAINLY static void set_flag(uint64_t *flag)
{
    *flag = 1; /* guilty */
}

int main(void)
{
    void *block = malloc(SIZE);
    uint64_t address = (uintptr_t)block;
    free(block);
    set_flag(find_head(address));
    allocate_some(SIZE);
    return 4;
}
