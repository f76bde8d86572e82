#include "engine/base/expect.h"

#include <algorithm>

#include "engine/base/file.h"

namespace stress {
namespace {

std::vector<std::string> words_in(const std::string &text)
{
    std::vector<std::string> words;
    for (std::size_t at = 0; (at = text.find_first_not_of(" \t\r", at)) != std::string::npos;) {
        const std::size_t end = std::min(text.find_first_of(" \t\r", at), text.size());
        words.push_back(text.substr(at, end - at));
        at = end;
    }
    return words;
}

bool names_allocator(const std::string &known, const std::string &allocator)
{
    return known.empty() || known == allocator || allocator.ends_with("/" + known);
}

} // namespace

std::string Expectations::parse(const std::string &path, const std::string &text, const std::vector<std::string> &names)
{
    std::size_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        const std::string place = path + ":" + std::to_string(++number);
        const std::size_t hash = std::min(line.find('#'), line.size());
        const std::vector<std::string> words = words_in(line.substr(0, hash)), reason = words_in(line.substr(hash));
        if (words.empty()) continue;
        if ((words.size() != 2 && words.size() != 3) || words.back() == "?")
            return place + ": must be NAME [ALLOCATOR] RULE # REASON, not '" + line + "'";
        if (std::find(names.begin(), names.end(), words[0]) == names.end())
            return place + ": there is nothing called '" + words[0] + "'";
        if (reason.empty() || line.find_first_not_of("# \t\r", hash) == std::string::npos)
            return place + ": say why it is known, behind a #";
        const std::size_t why = line.find_first_not_of("# \t\r", hash), last = line.find_last_not_of(" \t\r");
        const bool by_chance = words.back().ends_with("?");
        const std::string rule = words.back().substr(0, words.back().size() - by_chance);
        known_.push_back({place, words[0], words.size() == 3 ? words[1] : "", rule, line.substr(why, last - why + 1),
                          by_chance, false, false});
    }
    return "";
}

std::string Expectations::read(const std::string &path, const std::vector<std::string> &names)
{
    if (path.empty()) return "";
    std::string text;
    if (std::string fault = file_read(path, text); !fault.empty()) return fault;
    return parse(path, text, names);
}

std::string Expectations::judge(const std::string &name, const std::string &allocator,
                                const std::vector<std::string> &rules)
{
    std::string reason;
    std::size_t matched = 0;
    for (Known &known : known_) known.judged |= known.name == name && names_allocator(known.allocator, allocator);
    for (const std::string &rule : rules) {
        bool is_known = false;
        for (Known &known : known_) {
            if (known.name != name || !names_allocator(known.allocator, allocator)) continue;
            if (known.rule != rule && known.rule != "*") continue;
            known.came = is_known = true;
            if (reason.empty()) reason = known.reason;
        }
        matched += is_known;
    }
    return matched == rules.size() ? reason : "";
}

void Expectations::recall(const std::string &name, const std::string &allocator, bool came)
{
    for (Known &known : known_) {
        if (known.name != name || !names_allocator(known.allocator, allocator)) continue;
        known.judged = true;
        known.came |= came;
    }
}

std::vector<std::string> Expectations::mended() const
{
    std::vector<std::string> lines;
    for (const Known &known : known_)
        if (known.judged && !known.came && !known.by_chance)
            lines.push_back("mended: " + known.place + ": " + known.name + " no longer fails by " +
                            (known.rule == "*" ? "any rule" : known.rule) + "; take the line out");
    return lines;
}

} // namespace stress
