/* A module whose thread-local data must fit into each thread's first block. The loader reserves a little of that block
 * (1664 bytes in glibc) for modules that are loaded later. If a malloc takes all of it, they cannot be loaded. */
__thread char conform_static_tls[256] __attribute__((tls_model("initial-exec")));

__attribute__((visibility("default"))) int conform_tls_touch(int value);

int conform_tls_touch(int value)
{
    int sum = 0;
    for (int i = 0; i < (int)sizeof conform_static_tls; i++) conform_static_tls[i] = (char)(value + i);
    for (int i = 0; i < (int)sizeof conform_static_tls; i++) sum += conform_static_tls[i];
    return sum;
}
