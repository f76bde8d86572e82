// show: prints a file of ops as text, as JSON, or in the binary form.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "command/arguments.h"
#include "command/command.h"
#include "engine/base/progress.h"
#include "program/program_file.h"

namespace stress {
namespace {

void write_all(int fd, const Text &text)
{
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t count = write(fd, text.data() + done, text.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;
        done += static_cast<std::size_t>(count);
    }
}

// The ops as an array of their text, one per line. Built by hand, since there may be millions.
Text json_of(const Program &program)
{
    const auto quoted = [](const std::string &text) {
        return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    Text out;
    const auto add = [&out](const std::string &text) { out.insert(out.end(), text.begin(), text.end()); };
    add("{\n  \"threads\": " + std::to_string(program.threads) + ",\n  \"seed\": " + std::to_string(program.seed) +
        ",\n  \"schedule\": \"" + (program.schedule == Schedule::Seeded ? "seeded" : "os") +
        "\",\n  \"check\": " + (program.check ? "true" : "false") + ",\n  \"strict\": " +
        (!program.strict   ? "null"
         : *program.strict ? "true"
                           : "false") +
        ",\n  \"laps\": " + std::to_string(program.laps) + ",\n  \"ops_limit\": " + std::to_string(program.ops_limit) +
        ",\n  \"links_kept\": " + (program.links_kept ? "true" : "false") +
        ",\n  \"allocator\": " + quoted(program.allocator) + ",\n  \"expect\": " + quoted(program.rule) +
        ",\n  \"expect_schedule\": " + quoted(program.expects_schedule() ? schedule_text(program.expected) : "") +
        ",\n  \"ops\": [");
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        const Op &op = program.ops[i];
        add((i == 0 ? "\n    {\"op\": " : ",\n    {\"op\": ") + quoted(op_print(op)));
        if (op.kind == OpKind::Repeat) add(", \"body\": " + std::to_string(op.slot));
        add("}");
    }
    add("\n  ]\n}\n");
    return out;
}

}  // namespace

int show_main(int argc, char **argv)
{
    const Arguments arguments = arguments_parse(argc, argv);
    if (!arguments.run) return arguments_refused(arguments);
    Program program;
    std::string fault = program_read(arguments.file, program);
    if (!fault.empty()) return bad_input(fault);
    if (!arguments.output.empty()) {
        fault = program_write(arguments.output, program_encode(program));
        return fault.empty() ? 0 : bad_input("--binary: " + fault);
    }
    write_all(STDOUT_FILENO, arguments.json ? json_of(program) : program_print(program));
    return 0;
}

}  // namespace stress
