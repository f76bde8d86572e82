/* process.c: see process.h. */
#include "report/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "os/call.h"
#include "os/process/file.h"
#include "os/process/clock.h"
#include "os/os.h"
#include "report/text.h"

static uint64_t start_ms;
static struct process_memory kept_memory;
static int number; /* 0: not asked for */
static char start_name[PROCESS_NAME_BYTES];

void process_start(void)
{
    start_ms = os_now_ms();
    start_name[0] = '\0';
    process_name(start_name);
}

/* The child of a program that never asked makes no call. */
void process_after_fork(void)
{
    if (number != 0) number = call_getpid();
    start_ms = os_now_ms();
}

int process_number(void)
{
    /* relaxed: threads that find 0 store the same. */
    int known = __atomic_load_n(&number, __ATOMIC_RELAXED);
    if (known != 0) return known;
    known = call_getpid();
    __atomic_store_n(&number, known, __ATOMIC_RELAXED);
    return known;
}

void process_name(char name[PROCESS_NAME_BYTES])
{
    static const char kept[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
    const char *whole = start_name[0] != '\0' ? start_name : program_invocation_short_name;
    size_t length = 0;
    for (; whole != NULL && whole[length] != '\0' && length < PROCESS_NAME_BYTES - 1; length++)
        name[length] = strchr(kept, whole[length]) != NULL ? whole[length] : '_';
    if (length == 0) name[length++] = '_';
    name[length] = '\0';
}

/* Days since 1970 as a date. libc's gmtime may allocate. After Hinnant, chrono-Compatible Low-Level Date Algorithms. */
static void date_of(uint32_t days, uint32_t *year, uint32_t *month, uint32_t *day)
{
    const uint32_t from_march = days + 719468; /* since 0000-03-01 */
    const uint32_t era = from_march / 146097, of_era = from_march % 146097;
    const uint32_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const uint32_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const uint32_t march_month = (5 * of_year + 2) / 153;
    *day = of_year - (153 * march_month + 2) / 5 + 1;
    *month = march_month < 10 ? march_month + 3 : march_month - 9;
    *year = year_of_era + 400 * era + (*month <= 2);
}

void process_time_text(char text[PROCESS_TIME_BYTES], uint64_t seconds)
{
    uint32_t year, month, day;
    const uint32_t of_day = (uint32_t)(seconds % 86400);
    date_of((uint32_t)(seconds / 86400), &year, &month, &day);
    snprintf(text, PROCESS_TIME_BYTES, "%04u-%02u-%02uT%02u:%02u:%02uZ", year % 10000, month, day, of_day / 3600,
             of_day / 60 % 60, of_day % 60);
}

void process_time(char text[PROCESS_TIME_BYTES])
{
    struct timespec now;
    clock_read(CLOCK_REALTIME, &now);
    process_time_text(text, (uint64_t)now.tv_sec);
}

uint64_t process_age_ms(void)
{
    return os_now_ms() - start_ms;
}

/* The second number of /proc/self/statm is pages. */
static uint64_t resident_bytes(void)
{
    char text[128] = "";
    file_read("/proc/self/statm", text, sizeof text - 1);
    const char *at = strchr(text, ' ');
    uint64_t pages = 0;
    if (at == NULL) return 0;
    at++;
    return text_digits(&at, &pages) ? pages * os_page_bytes() : 0;
}

struct process_memory process_memory(void)
{
    if (kept_memory.resident_bytes != 0) return kept_memory;
    struct rusage usage = {0};
    struct process_memory memory = {.resident_bytes = resident_bytes()};
    if (call_getrusage(&usage) == 0) memory.resident_peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    /* The kernel writes the peak down from time to time only. */
    if (memory.resident_peak_bytes < memory.resident_bytes) memory.resident_peak_bytes = memory.resident_bytes;
    return memory;
}

void process_memory_keep(void)
{
    kept_memory = process_memory();
}
