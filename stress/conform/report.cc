#include "conform/report.h"

#include <nlohmann/json.hpp>

namespace stress::conform {
namespace {

const char *status_word(Status status)
{
    switch (status) {
    case Status::Pass: return "pass";
    case Status::Fail: return "FAIL";
    case Status::Skip: return "skip";
    case Status::Slow: return "slow";
    case Status::Memory: return "memory cap";
    }
    return "?";
}

std::string command_of(const Finding &finding, const std::string &repeat)
{
    return repeat + " --only " + finding.check->id;
}

std::string padded(std::string text, std::size_t width)
{
    if (text.size() < width) text.resize(width, ' ');
    return text;
}

}  // namespace

Counts count_findings(const std::vector<Finding> &findings)
{
    Counts counts;
    for (const Finding &finding : findings) {
        counts.passed += finding.verdict.status == Status::Pass;
        counts.failed += finding.verdict.status == Status::Fail;
        counts.skipped += finding.verdict.status == Status::Skip;
        counts.slow += finding.verdict.status == Status::Slow;
        counts.memory += finding.verdict.status == Status::Memory;
    }
    return counts;
}

std::string finding_text(const Finding &finding, const std::string &repeat)
{
    const bool told = finding.verdict.status != Status::Pass && finding.verdict.detail[0] != '\0';
    std::string text = std::string(status_word(finding.verdict.status)) + "  " + padded(finding.check->id, 38) + " " +
                       (told ? finding.verdict.detail : finding.check->purpose) + "  [" + finding.check->references +
                       "]\n";
    for (const std::string &line : finding.evidence) text += "        " + line + "\n";
    if (!finding.evidence.empty()) text += "        repeat with: " + command_of(finding, repeat) + "\n";
    return text;
}

bool counts_pass(const Counts &counts)
{
    return counts.failed == 0 && counts.memory == 0;
}

std::string counts_line(const Counts &counts)
{
    return std::to_string(counts.passed) + " passed, " + std::to_string(counts.failed) + " failed, " +
           std::to_string(counts.skipped) + " skipped" +
           (counts.slow == 0 ? "" : ", " + std::to_string(counts.slow) + " slow") +
           (counts.memory == 0 ? "" : ", " + std::to_string(counts.memory) + " over the memory cap") + "\n";
}

std::string list_text()
{
    std::string text;
    for (const Check *check : all_checks())
        text += padded(check->id, 38) + " " + check->purpose + "  [" + check->references + "]\n";
    return text;
}

std::string findings_json(const std::string &allocator, const std::string &library, const std::string &repeat,
                          const std::vector<Finding> &findings)
{
    const Counts counts = count_findings(findings);
    nlohmann::ordered_json checks = nlohmann::ordered_json::array();
    for (const Finding &finding : findings) {
        nlohmann::ordered_json items = nlohmann::ordered_json::array();
        for (int item : finding.check->items)
            if (item != 0) items.push_back(item);
        checks.push_back(
            {{"id", finding.check->id},
             {"status", finding.verdict.status == Status::Fail ? "fail" : status_word(finding.verdict.status)},
             {"purpose", finding.check->purpose},
             {"detail", finding.verdict.detail},
             {"references", finding.check->references},
             {"items", items},
             {"seconds", finding.seconds}});
        if (finding.evidence.empty()) continue;
        checks.back()["evidence"] = finding.evidence;
        checks.back()["repeat"] = command_of(finding, repeat);
    }
    const nlohmann::ordered_json json = {
        {"allocator", allocator},
        {"library", library},
        {"passed", counts.passed},
        {"failed", counts.failed},
        {"skipped", counts.skipped},
        {"slow", counts.slow},
        {"memory_cap", counts.memory},
        {"verdict", counts_pass(counts) ? "pass" : "fail"},
        {"checks", checks},
    };
    // replace: the output of a crashing library need not be UTF-8.
    return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stress::conform
