// report: prints a crash record of libhakmem, for people or as JSON.
#include <unistd.h>

#include "command/arguments.h"
#include "command/command.h"
#include "engine/base/file.h"
#include "engine/base/progress.h"
#include "record/record_report.h"
#include "record/symbols.h"

namespace stress {
namespace {

int write_json(const std::string &path, const std::string &json)
{
    constexpr unsigned kPrivate = 0600; // the record contains the environment
    const std::string fault = result_write(path, json, kPrivate);
    return fault.empty() ? 0 : bad_input("report: --json: " + fault + "; name another file, or - for stdout");
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
