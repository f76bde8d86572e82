#include "campaign/page/directed.h"

#include <nlohmann/json.hpp>

namespace stress {
namespace {

using Json = nlohmann::ordered_json;

std::string member_text(const Json &object, const char *key)
{
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

void add_check(DirectedChecks &all, const Json &check)
{
    const std::string status = member_text(check, "status");
    DirectedFinding one{member_text(check, "id"), member_text(check, "detail"), member_text(check, "rule"),
                        member_text(check, "repeat")};
    one.is_quality = rule_is_quality(one.rule) || status == "memory cap"; // how much memory is enough no standard says
    one.is_known = !member_text(check, "expected").empty();
    DirectedCounts &counts = one.is_quality ? all.quality : all.standard;
    if (status == "pass") {
        ++counts.passed;
    } else if (status == "fail" || status == "memory cap") {
        counts.failed += !one.is_known;
        if (one.repeat.empty()) one.repeat = "hakmem-stress conform --allocator " + all.allocator + " --only " + one.id;
        all.failed.push_back(one);
    } else {
        one.detail = status + ": " + one.detail;
        all.skipped.push_back(one);
    }
}

} // namespace

bool rule_is_quality(const std::string &rule)
{
    return rule.starts_with("quality:");
}

DirectedChecks directed_read(const std::string &text)
{
    DirectedChecks all;
    const Json json = Json::parse(text, nullptr, false);
    const auto checks = json.is_object() ? json.find("checks") : json.end();
    if (!json.is_object() || checks == json.end() || !checks->is_array() || member_text(json, "allocator").empty()) {
        all.fault = "no complete result of hakmem-stress conform --json";
        return all;
    }
    all.allocator = member_text(json, "allocator");
    for (const Json &check : *checks)
        if (check.is_object()) add_check(all, check);
    return all;
}

} // namespace stress
