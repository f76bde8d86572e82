/* A module whose thread-local data is so large that the loader allocates it when a thread first uses it. */
__thread char conform_tls_large[200000];

__attribute__((visibility("default"))) int conform_tls_touch(int value);

int conform_tls_touch(int value)
{
    int sum = 0;
    for (int i = 0; i < (int)sizeof conform_tls_large; i += 1000) conform_tls_large[i] = (char)(value + i / 1000);
    for (int i = 0; i < (int)sizeof conform_tls_large; i += 1000) sum += conform_tls_large[i];
    return sum;
}
