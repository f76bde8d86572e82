#include "record/symbols.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <set>

#include "engine/base/program.h"
#include "engine/base/build_id.h"

namespace stress {
namespace {

constexpr int kSecondsMax = 60;  // for one symbolizer: a program's debug information may be large

std::string hex_text(std::uint64_t value)
{
    char text[19];
    std::size_t at = sizeof text;
    do {
        text[--at] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    return "0x" + std::string(text + at, sizeof text - at);
}

// Reads "FILE:LINE", "FILE:LINE (discriminator 2)", "FILE:LINE:COLUMN", "??:0" or "??:?".
void read_line(const std::string &text, CrashLine &line)
{
    std::size_t colon = text.find_last_of(':');
    if (colon == std::string::npos || text.starts_with("??")) return;
    const std::size_t before = text.find_last_of(':', colon - 1);
    if (before != std::string::npos && before + 1 < colon && text.find_first_not_of("0123456789", before + 1) == colon)
        colon = before;
    line.file = text.substr(0, colon);
    line.line = std::strtoull(text.c_str() + colon + 1, nullptr, 10);
}

// One module's answers, by the address asked for. The output has an address, then two lines for each function.
std::map<std::string, std::vector<CrashLine>> read_answers(const std::string &out)
{
    std::map<std::string, std::vector<CrashLine>> answers;
    std::vector<CrashLine> *lines = nullptr;
    std::string function;
    bool has_function = false;
    for (std::size_t at = 0; at < out.size();) {
        const std::size_t end = std::min(out.find('\n', at), out.size());
        const std::string text = out.substr(at, end - at);
        at = end + 1;
        if (!has_function && text.starts_with("0x")) {
            lines = &answers[hex_text(std::strtoull(text.c_str(), nullptr, 16))];
        } else if (!has_function) {
            function = text;
            has_function = true;
        } else {
            has_function = false;
            if (lines == nullptr || function == "??" || function.empty()) continue;
            read_line(text, lines->emplace_back(CrashLine{function, "", 0}));
        }
    }
    return answers;
}

// A frame, and the address to look up: the instruction's own, or for a return address one byte less, which is inside
// the call.
struct Asked {
    CrashFrame *frame;
    std::uint64_t offset;
};

void add_lines(const std::string &symbolizer, const std::string &module, const std::vector<Asked> &asked)
{
    std::vector<std::string> words{symbolizer};
    if (symbolizer.find("llvm") != std::string::npos) words.push_back("--output-style=GNU");
    words.insert(words.end(), {"-a", "-f", "-C", "-i", "-e", module});
    std::set<std::uint64_t> offsets; // each offset once: frames of several lists may be the same call
    for (const Asked &one : asked)
        if (offsets.insert(one.offset).second) words.push_back(hex_text(one.offset));
    const auto answers = read_answers(program_output(words, kSecondsMax));
    for (const Asked &one : asked)
        if (const auto found = answers.find(hex_text(one.offset)); found != answers.end())
            one.frame->lines = found->second;
}

// Frames from index first_return on are return addresses.
std::vector<CrashFrame> frames_of(const CrashRecord &record, const std::vector<std::uint64_t> &addresses,
                                  std::size_t first_return)
{
    std::vector<CrashFrame> frames;
    for (const std::uint64_t pc : addresses) {
        CrashFrame &frame = frames.emplace_back();
        frame.pc = pc;
        frame.is_return = frames.size() > first_return;
        // A return address may be the first byte after a function that does not return, or even after its module.
        const CrashModule *module = record.module_of(frame.is_return && pc > 0 ? pc - 1 : pc);
        if (module == nullptr) continue;
        frame.module = module->path;
        frame.build_id = module->build_id;
        frame.offset = pc - module->base;
    }
    return frames;
}

std::string add_all_lines(const std::vector<std::vector<CrashFrame> *> &lists)
{
    std::map<std::pair<std::string, std::string>, std::vector<Asked>> modules; // by path and build id
    for (std::vector<CrashFrame> *list : lists)
        for (CrashFrame &frame : *list)
            if (frame.module.starts_with("/"))
                modules[{frame.module, frame.build_id}].push_back(
                    {&frame, frame.offset - (frame.is_return && frame.offset > 0 ? 1 : 0)});
    if (modules.empty()) return "";
    const std::string symbolizer = program_find({"llvm-symbolizer-19", "llvm-symbolizer", "addr2line"});
    if (symbolizer.empty())
        return "no names of functions: install llvm-symbolizer (package llvm) or addr2line (package binutils)";
    std::string note;
    for (const auto &[file, asked] : modules) {
        const auto &[module, build_id] = file;
        if (access(module.c_str(), R_OK) != 0) note = "no names of functions in '" + module + "': the file is not here";
        else if (!build_id.empty() && file_build_id(module) != build_id)
            note = "no names of functions in '" + module + "': the file here is another build";
        else add_lines(symbolizer, module, asked);
    }
    return note;
}

// Removes the library's own frames, which come first: from the function that took the backtrace up to malloc or free.
void drop_own(const CrashRecord &record, std::vector<CrashFrame> &frames)
{
    const std::string library = record.text(RECORD_library);
    // Linked in statically: the library's own frames cannot be recognised.
    if (library == record.text(RECORD_program)) return;
    std::size_t own = 0;
    while (own < frames.size() && frames[own].module == library) ++own;
    if (own < frames.size()) frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(own));
}

} // namespace

CrashFrames crash_frames(const CrashRecord &record, bool symbolize)
{
    CrashFrames all;
    all.stack = frames_of(record, record.backtrace, 1);
    for (const CrashGuard &guard : record.guards)
        all.guards.push_back({frames_of(record, guard.allocated_at, 0), frames_of(record, guard.freed_at, 0)});
    if (record.failfast.has_value())
        all.failfast = {frames_of(record, record.failfast->allocated_at, 0),
                        frames_of(record, record.failfast->freed_at, 0)};
    std::vector<std::vector<CrashFrame> *> lists{&all.stack, &all.failfast.allocated, &all.failfast.freed};
    for (EventFrames &guard : all.guards) lists.insert(lists.end(), {&guard.allocated, &guard.freed});
    for (std::size_t i = 1; i < lists.size(); ++i) drop_own(record, *lists[i]);
    if (symbolize) all.note = add_all_lines(lists);
    return all;
}

} // namespace stress
