// What each thread of a check asks of the malloc under test: the call in hand, or the last one. Kept in memory that the
// runner shares, so that a crash and a hang can name the call and its block, and so that finished calls count as
// progress.
//
// Recording takes no lock, allocates nothing, keeps errno, and makes no system call but gettid, once in a thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "conform/subject.h"
#include "engine/watch/figures.h"

namespace stress::conform {

struct CallTable;

// The bytes that the table needs, all of them zero at first.
std::size_t call_table_bytes();

// From now on this process and those that it forks record their calls there.
void calls_record(CallTable *table);

// For a child of fork: its thread is not the one that it was in the parent.
void calls_after_fork();

// Puts a function that records before each entry that the subject has.
void calls_intercept(Subject &subject);

// Finished calls of all threads so far.
std::uint64_t calls_finished(const CallTable &table);

// "in free(0x7ffff7fbe010)", or "after malloc(100), which gave 0x7ffff7fbe010"; empty if the thread made no call.
std::string call_of_thread(const CallTable &table, pid_t thread);

// "thread 4711 is in malloc(100)" for each thread of these processes that is in a call.
std::vector<std::string> calls_in_hand(const CallTable &table, const Processes &processes);

} // namespace stress::conform
