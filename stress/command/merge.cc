// merge: the folders of soaks that ran on several machines, as one page.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "campaign/merge/merge.h"
#include "command/arguments.h"
#include "command/command.h"
#include "engine/base/cli_numbers.h"
#include "engine/base/file.h"
#include "engine/base/progress.h"

namespace stress {

int merge_main(int argc, char **argv)
{
    MergeOptions options;
    CLI::App app("Join the folders of soaks: one page, JUnit and failures.ndjson; each cut file is one line.",
                 "hakmem-stress merge");
    app.add_option("dir", options.directories, "the --report folder of each worker")->required();
    app.add_option("--report", options.out, "write index.html, junit.xml and failures.ndjson here")->required();
    try {
        parse_strictly(app, argc - 1, argv + 1);
    } catch (const CLI::CallForHelp &) {
        write_text(STDOUT_FILENO, app.help());
        return 0;
    } catch (const CLI::ParseError &error) {
        return bad_input(std::string(error.what()) + "; see hakmem-stress merge --help");
    }
    for (const std::string &directory : options.directories)
        if (directory_names(directory).empty())
            return bad_input("merge: '" + directory + "' holds no soak; name the folder that a worker had as --report");
    if (file_exists(options.out + "/soak.json"))
        return bad_input("merge: --report: '" + options.out + "' holds a soak; name another folder");
    return merge_run(options);
}

} // namespace stress
