/* profile_program.cc: keeps blocks of known bytes at two call sites, a part of them through operator new in threads that
 * end; profile_check reads the heap profiles of it. With an argument it forks, and the child allocates too. */
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#define NOT_INLINED __attribute__((noinline))

/* Public names, so that they are the program's own functions also after optimisation. */
NOT_INLINED void keep_rows(std::vector<std::unique_ptr<char[]>> &rows)
{
    for (int i = 0; i < 20000; i++) rows.push_back(std::make_unique<char[]>(700));
}

NOT_INLINED void keep_names(std::vector<std::string> &names)
{
    for (int i = 0; i < 20000; i++) names.emplace_back(300, 'n');
}

const char *volatile escaped; /* so that the compiler makes the pages */

NOT_INLINED void drop_pages()
{
    for (int i = 0; i < 2000; i++) {
        std::string page(100000, 'p');
        escaped = page.data();
    }
}

int main(int argc, char **)
{
    std::vector<std::unique_ptr<char[]>> rows;
    std::vector<std::string> names;
    for (int i = 0; i < 3; i++) std::thread([&] { keep_rows(rows); }).join();
    keep_names(names);
    drop_pages();
    if (argc > 1) {
        if (pid_t child = fork(); child > 0) waitpid(child, nullptr, 0);
        else keep_names(names);
    }
    rows.clear();
    static auto *const kept = new std::vector<std::string>(std::move(names)); /* in use at exit, as the table of rows */
    escaped = kept->back().data();
    return 0;
}
