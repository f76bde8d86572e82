/* stale_reference.cc: a reference to a vector's first task is kept while tasks are added; the vector moves, and its old
 * block gets another owner. */
// expect: library=both cause=use_after_free grade=found
#include <vector>

#include "../program.h"

struct Task {
    const char *name;
    uint64_t number;
};

struct Plan {
    std::vector<Task> tasks;
    PLAINLY void add(const char *name) { tasks.push_back({name, tasks.size()}); /* guilty */ }
};

PLAINLY static char *write_report(size_t size_bytes)
{
    char *report = (char *)need(malloc(size_bytes));
    memset(report, 'r', size_bytes);
    return report;
}

PLAINLY static char first_letter(const Task &task)
{
    return task.name[0]; /* also guilty */
}

int main()
{
    Plan plan;
    for (int i = 0; i < 8; i++) plan.add("task");
    const Task &first = plan.tasks.front();
    char before = first_letter(first);
    for (int i = 0; i < 8; i++) plan.add("another");
    char *report = write_report(8 * sizeof(Task));
    return first_letter(first) == before && report[0] == 'r' ? 4 : 5;
}
