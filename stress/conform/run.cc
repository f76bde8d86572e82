#include "conform/run.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <optional>

#include "conform/child.h"
#include "conform/files.h"
#include "conform/report.h"
#include "engine/base/build.h"
#include "engine/base/file.h"
#include "engine/base/nearest.h"
#include "engine/base/progress.h"
#include "engine/base/shard.h"
#include "engine/base/shell_word.h"
#include "engine/base/verdict.h"

namespace stress::conform {
namespace {

constexpr int kInconclusive = 77;

int refuse(const std::string &what)
{
    write_text(STDERR_FILENO, "hakmem-stress: " + what + "\n");
    return 2;
}

std::vector<std::string> ids_of(const std::vector<const Check *> &checks)
{
    std::vector<std::string> ids;
    for (const Check *check : checks) ids.emplace_back(check->id);
    return ids;
}

// What is wrong with the options; empty if nothing is.
std::string choose(const ConformOptions &options, std::vector<const Check *> &chosen)
{
    const std::vector<const Check *> all = all_checks();
    if (options.only.empty()) chosen = all;
    for (const std::string &id : options.only) {
        const std::size_t before = chosen.size();
        for (const Check *check : all)
            if (id == check->id) chosen.push_back(check);
        if (chosen.size() == before)
            return "--only: unknown check '" + id + "'" + nearest_name(id, ids_of(all)) +
                   "; hakmem-stress conform --list names them all";
    }
    if (options.shard.empty()) return "";
    Shard shard;
    if (std::string fault = shard_parse(options.shard, shard); !fault.empty()) return fault;
    return shard_keep(shard, "checks", chosen);
}

std::string repeat_command(const ConformOptions &options)
{
    std::string command = shell_word(options.program) + " conform --allocator " + shell_word(options.allocator);
    if (options.deadline_seconds != ConformOptions().deadline_seconds)
        command += fmt::format(" --deadline {}", options.deadline_seconds);
    if (options.memory_cap_bytes != 0) command += fmt::format(" --memory-cap {}", options.memory_cap_bytes >> 20);
    return command;
}

}  // namespace

int conform_main(const ConformOptions &options, int out)
{
    std::vector<const Check *> chosen;
    if (const std::string wrong = choose(options, chosen); !wrong.empty()) return refuse(wrong);
    if (options.list) {
        write_text(out, list_text());
        return 0;
    }
    Expectations expected;
    std::vector<std::string> ids = options.scenarios;
    for (const std::string &id : ids_of(all_checks())) ids.push_back(id);
    if (std::string fault = expected.read(options.expect_path, ids); !fault.empty())
        return refuse("--expect: " + fault);
    if (options.junit_path == "-" && options.json_path == "-")
        return refuse("--junit: stdout has the JSON already; name a file");
    if (kSanitized || kDirect)
        return refuse("conform: a sanitizer build has another malloc in front; run it from a build without sanitizers");
    if (const std::string missing = files_missing(); !missing.empty())
        return refuse("conform: '" + missing + "' is not beside the program; build the target conform-files");
    if (std::string fault = result_prepare(options.json_path); !fault.empty()) return refuse("--json: " + fault);

    if (std::string fault = result_prepare(options.junit_path); !fault.empty()) return refuse("--junit: " + fault);

    static Subject subject = subject_find();
    const int text = options.json_path == "-" || options.junit_path == "-" ? STDERR_FILENO : out;
    std::vector<Finding> findings;
    const std::string repeat = repeat_command(options);
    WatchLimits limits = watch_limits(options.deadline_seconds);
    limits.memory_bytes = options.memory_cap_bytes != 0 ? options.memory_cap_bytes : memory_cap_bytes();
    std::optional<Verdict> plain; // asked for by the first failure
    for (const Check *check : chosen) {
        findings.push_back(run_in_child(*check, subject, limits));
        if (findings.back().verdict.status == Status::Fail) {
            if (!plain.has_value()) plain = run_in_child(plain_check(), subject, limits).verdict;
            finding_compare(findings.back(), *plain);
        }
        finding_expect(findings.back(), options.allocator, expected);
        write_text(text, finding_text(findings.back(), repeat));
    }
    const Counts counts = count_findings(findings);
    const std::vector<std::string> mended = expected.mended();
    for (const std::string &line : mended) write_text(text, line + "\n");
    write_text(text, failed_line(findings) + plain_line(findings, plain.value_or(Verdict{})) + counts_line(counts));
    const bool passed = counts_pass(counts) && mended.empty();
    const std::string json = findings_json(options.allocator, subject.library, repeat, findings);
    const bool inconclusive = passed && counts.outside != 0;
    verdict_reached(inconclusive ? "inconclusive" : passed ? "pass" : "fail");
    if (std::string fault = result_write(options.json_path, json); !fault.empty()) result_lost("--json: " + fault);
    const std::string junit = findings_junit(options.allocator, repeat, findings, mended);
    if (std::string fault = result_write(options.junit_path, junit); !fault.empty()) result_lost("--junit: " + fault);
    return inconclusive ? kInconclusive : passed ? 0 : 1;
}

}  // namespace stress::conform
