#include "campaign/journal.h"

#include "engine/base/file.h"

namespace stress {

std::string Journal::open(const std::string &path)
{
    path_ = path;
    return result_prepare(path);
}

void Journal::add(const std::string &run_json)
{
    if (!path_.empty()) text_ += (text_.empty() ? "{\"runs\": [\n" : ",\n") + run_json;
}

std::string Journal::close(const SoakState &state, bool passed)
{
    if (path_.empty()) return "";
    if (text_.empty()) text_ = "{\"runs\": [";
    text_ += "],\n\"seed\": " + std::to_string(state.first_seed) +
             ", \"not_confirmed\": " + std::to_string(state.unconfirmed) +
             ", \"passed\": " + std::to_string(state.passed) + ", \"failed\": " + std::to_string(state.failed) +
             ", \"skipped\": " + std::to_string(state.skipped) + ", \"verdict\": \"" + (passed ? "pass" : "fail") +
             "\"}\n";
    return result_write(path_, text_);
}

} // namespace stress
