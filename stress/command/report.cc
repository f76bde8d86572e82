// report: prints a crash record of libhakmem, for people or as JSON.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "command/arguments.h"
#include "command/command.h"
#include "engine/base/progress.h"
#include "record/record_report.h"
#include "record/symbols.h"

namespace stress {
namespace {

int write_json(const std::string &path, const std::string &json)
{
    if (path == "-") {
        write_text(STDOUT_FILENO, json);
        return 0;
    }
    // private: the record contains the environment
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return bad_input("report: --json: '" + path + "' cannot be written: " + std::strerror(errno) +
                         "; name another file, or - for stdout");
    write_text(fd, json);
    if (close(fd) == 0) return 0;
    return bad_input("report: --json: '" + path + "' was not written whole: " + std::strerror(errno));
}

}  // namespace

int report_main(int argc, char **argv)
{
    const Arguments arguments = arguments_parse(argc, argv);
    if (!arguments.run) return arguments_refused(arguments);
    CrashRecord record;
    if (const std::string fault = record_load(arguments.file, record); !fault.empty())
        return bad_input("report: " + fault);
    const CrashFrames frames = crash_frames(record, arguments.symbols);
    if (!arguments.json_path.empty()) return write_json(arguments.json_path, crash_json(record, frames));
    write_text(STDOUT_FILENO, crash_text(record, frames));
    return 0;
}

}  // namespace stress
