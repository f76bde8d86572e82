#include "campaign/compare/labels.h"

#include <algorithm>
#include <map>

namespace stress {
namespace {

// The last `parts` parts of a path.
std::string tail_of(const std::string &path, std::size_t parts)
{
    std::size_t at = path.size();
    for (; parts > 0; --parts) {
        at = at == 0 ? std::string::npos : path.rfind('/', at - 1);
        if (at == std::string::npos) return path;
    }
    return path.substr(at + 1);
}

std::string shortened(const std::string &label, std::size_t length_max)
{
    if (label.size() <= length_max) return label;
    std::size_t at = label.size() - (length_max - 1);
    while (at < label.size() && (static_cast<unsigned char>(label[at]) & 0xc0) == 0x80) ++at; // not within a character
    return "…" + label.substr(at);
}

bool all_differ(const std::vector<std::string> &names)
{
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

} // namespace

std::vector<std::string> allocator_labels(const std::vector<std::string> &allocators, std::size_t length_max)
{
    std::vector<std::string> names, labels;
    std::vector<std::size_t> parts(allocators.size(), 1);
    for (const std::string &allocator : allocators) names.push_back(allocator == "system" ? "libc" : allocator);
    labels.resize(names.size());
    // An allocator that shares its label with another shows one more part of its path, until none does.
    for (bool again = true; again;) {
        again = false;
        std::map<std::string, std::size_t> seen;
        for (std::size_t i = 0; i < names.size(); ++i) ++seen[labels[i] = tail_of(names[i], parts[i])];
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (seen[labels[i]] == 1 || labels[i] == names[i]) continue;
            ++parts[i];
            again = true;
        }
    }
    std::vector<std::string> shorts;
    for (const std::string &label : labels) shorts.push_back(shortened(label, length_max));
    return all_differ(shorts) ? shorts : labels;
}

void label_runs(std::vector<RunRecord> &runs)
{
    std::vector<std::string> allocators;
    for (const RunRecord &run : runs)
        if (std::find(allocators.begin(), allocators.end(), run.allocator) == allocators.end())
            allocators.push_back(run.allocator);
    const std::vector<std::string> labels = allocator_labels(allocators);
    for (RunRecord &run : runs)
        run.label = labels[static_cast<std::size_t>(std::find(allocators.begin(), allocators.end(), run.allocator) -
                                                    allocators.begin())];
}

} // namespace stress
