#include "conform/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <string_view>

#include "conform/support.h"
#include "engine/base/junit.h"

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
    case Status::Outside: return "inconclusive";
    }
    return "?";
}

std::string command_of(const Finding &finding, const std::string &repeat)
{
    return repeat + " --only " + finding.check->id;
}

const char *rule_of(const Finding &finding)
{
    return finding.is_plain ? plain_check().rule : finding.check->rule;
}

bool is_quality(const Finding &finding)
{
    return std::string_view(rule_of(finding)).starts_with("quality:");
}

Verdict plain_run(const Subject &subject)
{
    const char *wrong = exercise(subject);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

std::string without_numbers(const char *text)
{
    static const std::regex number("0x[0-9a-f]+|[0-9]+");
    return std::regex_replace(text, number, "#");
}

// Reaching the memory cap is no accusation: the malloc may have done what it was asked to.
bool finding_accuses(const Finding &finding)
{
    return finding.verdict.status == Status::Fail;
}

std::string padded(std::string text, std::size_t width)
{
    if (text.size() < width) text.resize(width, ' ');
    return text;
}

}  // namespace

const Check &plain_check()
{
    static const Check check = {
        "plain",
        "malloc, calloc, realloc and memalign of all sizes",
        "C23 7.24.3: blocks are aligned and disjoint, of calloc all zero, and realloc keeps the content",
        "",
        {},
        plain_run};
    return check;
}

void finding_compare(Finding &finding, const Verdict &plain)
{
    if (finding.verdict.status != Status::Fail || plain.status != Status::Fail) return;
    finding.is_plain = without_numbers(finding.verdict.detail).find(without_numbers(plain.detail)) != std::string::npos;
}

void finding_expect(Finding &finding, const std::string &allocator, Expectations &expected)
{
    const Status status = finding.verdict.status;
    if (status == Status::Skip || status == Status::Slow || status == Status::Outside)
        return; // it says nothing about the malloc
    std::vector<std::string> rules;
    if (status == Status::Fail) rules.push_back("fail");
    if (status == Status::Memory) rules.push_back("memory_cap");
    finding.expected = expected.judge(finding.check->id, allocator, rules);
}

Counts count_findings(const std::vector<Finding> &findings)
{
    Counts counts;
    for (const Finding &finding : findings) {
        counts.passed += finding.verdict.status == Status::Pass;
        if (!finding.expected.empty()) {
            ++counts.known;
            continue;
        }
        counts.failed += finding.verdict.status == Status::Fail;
        counts.failed_quality += finding.verdict.status == Status::Fail && is_quality(finding);
        counts.skipped += finding.verdict.status == Status::Skip;
        counts.slow += finding.verdict.status == Status::Slow;
        counts.memory += finding.verdict.status == Status::Memory;
        counts.outside += finding.verdict.status == Status::Outside;
    }
    return counts;
}

std::string finding_text(const Finding &finding, const std::string &repeat)
{
    const bool told = finding.verdict.status != Status::Pass && finding.verdict.detail[0] != '\0';
    const char *word = finding.expected.empty() ? status_word(finding.verdict.status) : "known";
    std::string text = std::string(word) + "  " + padded(finding.check->id, 38) + " " +
                       (told ? finding.verdict.detail : finding.check->purpose) + "  [" + finding.check->references +
                       "]\n";
    if (!finding.expected.empty()) text += "        known: " + finding.expected + "\n";
    if (finding_accuses(finding))
        text += std::string("        rule: ") + rule_of(finding) +
                (finding.is_plain ? "; the same fails without this check\n" : "\n");
    for (const std::string &line : finding.evidence) text += "        " + line + "\n";
    if (!finding.evidence.empty()) text += "        repeat with: " + command_of(finding, repeat) + "\n";
    return text;
}

bool counts_pass(const Counts &counts)
{
    return counts.failed == 0 && counts.memory == 0;
}

std::string failed_line(const std::vector<Finding> &findings)
{
    std::string names;
    for (const Finding &finding : findings) {
        const bool is_failed = finding_accuses(finding) || finding.verdict.status == Status::Memory;
        if (is_failed && finding.expected.empty()) names += std::string(" ") + finding.check->id;
    }
    return names.empty() ? "" : "failed:" + names + "\n";
}

std::string plain_line(const std::vector<Finding> &findings, const Verdict &plain)
{
    const auto count = std::count_if(findings.begin(), findings.end(), [](const Finding &one) { return one.is_plain; });
    if (count == 0) return "";
    return "mend this first: " + std::string(plain.detail) + "; " + std::to_string(count) +
           (count == 1 ? " of the checks fails by that, whatever it is about\n"
                       : " of the checks fail by that, whatever they are about\n");
}

std::string counts_line(const Counts &counts)
{
    return std::to_string(counts.passed) + " passed, " + std::to_string(counts.failed) + " failed, " +
           std::to_string(counts.skipped) + " skipped" +
           (counts.slow == 0 ? "" : ", " + std::to_string(counts.slow) + " slow") +
           (counts.memory == 0 ? "" : ", " + std::to_string(counts.memory) + " over the memory cap") +
           (counts.outside == 0 ? "" : ", " + std::to_string(counts.outside) + " inconclusive") +
           (counts.known == 0 ? "" : ", " + std::to_string(counts.known) + " known to fail") +
           (counts.failed == 0 ? ""
                               : "; of the failed, " + std::to_string(counts.failed - counts.failed_quality) +
                                     " by a standard and " + std::to_string(counts.failed_quality) + " of quality") +
           "\n";
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
             {"rule", rule_of(finding)},
             {"detail", finding.verdict.detail},
             {"expected", finding.expected},
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
        {"failed_quality", counts.failed_quality},
        {"skipped", counts.skipped},
        {"slow", counts.slow},
        {"memory_cap", counts.memory},
        {"inconclusive", counts.outside},
        {"verdict", counts_pass(counts) ? "pass" : "fail"},
        {"checks", checks},
    };
    // replace: the output of a crashing library need not be UTF-8.
    return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string findings_junit(const std::string &allocator, const std::string &repeat,
                           const std::vector<Finding> &findings, const std::vector<std::string> &mended)
{
    std::vector<JunitCase> cases;
    for (const Finding &finding : findings) {
        const Status status = finding.verdict.status;
        JunitCase one;
        one.group = "hakmem-stress.conform." + allocator;
        one.name = finding.check->id;
        one.seconds = finding.seconds;
        const std::string found = std::string(status_word(status)) + ": " + finding.verdict.detail;
        one.message = finding.expected.empty() ? found : "known failure: " + finding.expected;
        one.detail = found + "\n";
        for (const std::string &line : finding.evidence) one.detail += line + "\n";
        one.detail += std::string(finding.check->purpose) + "\nrule: " + rule_of(finding) + "\n[" +
                      finding.check->references + "]\nrepeat with: " + command_of(finding, repeat) + "\n";
        const bool fails = (status == Status::Fail || status == Status::Memory) && finding.expected.empty();
        one.kind = status == Status::Pass ? JunitCase::Kind::Passed
                   : fails                ? JunitCase::Kind::Failed
                                          : JunitCase::Kind::Skipped;
        cases.push_back(one);
    }
    for (const std::string &line : mended)
        cases.push_back({"hakmem-stress.expect", line, JunitCase::Kind::Failed, 0, line, line});
    return junit_xml("hakmem-stress conform", cases);
}

}  // namespace stress::conform
