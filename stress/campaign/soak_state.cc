#include "campaign/soak_state.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace stress {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// FNV-1a: against accidents, not against malice.
std::string checksum(const std::string &text)
{
    std::uint64_t sum = 0xcbf29ce484222325;
    for (char byte : text) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    char hex[17];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(sum));
    return hex;
}

std::string dump(const Json &json)
{
    return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

Json cell_json(const CampaignCell &cell)
{
    return {{"scenario", cell.scenario},
            {"allocator", cell.allocator},
            {"schedule", cell.schedule},
            {"passed", cell.passed},
            {"failed", cell.failed},
            {"skipped", cell.skipped},
            {"known", cell.known},
            {"unconfirmed", cell.unconfirmed},
            {"skip_reason", cell.skip_reason},
            {"ops_per_second", cell.ops_per_second},
            {"peak_rss_bytes", cell.peak_rss_bytes},
            {"seconds", cell.seconds}};
}

CampaignCell cell_of(const Json &json)
{
    CampaignCell cell;
    json.at("scenario").get_to(cell.scenario);
    json.at("allocator").get_to(cell.allocator);
    json.at("schedule").get_to(cell.schedule);
    json.at("passed").get_to(cell.passed);
    json.at("failed").get_to(cell.failed);
    json.at("skipped").get_to(cell.skipped);
    cell.known = json.value("known", std::uint64_t{0}); // older states have none
    cell.unconfirmed = json.value("unconfirmed", std::uint64_t{0});
    json.at("skip_reason").get_to(cell.skip_reason);
    json.at("ops_per_second").get_to(cell.ops_per_second);
    json.at("peak_rss_bytes").get_to(cell.peak_rss_bytes);
    json.at("seconds").get_to(cell.seconds);
    return cell;
}

void read_fields(const Json &json, SoakState &state)
{
    json.at("options").get_to(state.options);
    json.at("first_seed").get_to(state.first_seed);
    json.at("next_run").get_to(state.next_run);
    json.at("started_unix").get_to(state.started_unix);
    json.at("elapsed_seconds").get_to(state.elapsed_seconds);
    json.at("passed").get_to(state.passed);
    json.at("failed").get_to(state.failed);
    json.at("skipped").get_to(state.skipped);
    state.known = json.value("known", std::uint64_t{0});
    state.unconfirmed = json.value("unconfirmed", std::uint64_t{0});
    state.cells.clear();
    for (const Json &cell : json.at("cells")) state.cells.push_back(cell_of(cell));
    state.first.clear();
    for (const Json &run : json.value("first", Json::array())) {
        state.first.push_back({run.at(0).get<std::size_t>(), run.at(1).get<std::uint64_t>()});
        if (state.first.back().cell >= state.cells.size())
            throw std::out_of_range("a kept run is of a cell that is not in its table");
    }
}

}  // namespace

std::string soak_state_text(const SoakState &state)
{
    Json json = {{"version", kVersion},
                 {"options", state.options},
                 {"first_seed", state.first_seed},
                 {"next_run", state.next_run},
                 {"started_unix", state.started_unix},
                 {"elapsed_seconds", state.elapsed_seconds},
                 {"passed", state.passed},
                 {"failed", state.failed},
                 {"skipped", state.skipped},
                 {"known", state.known},
                 {"unconfirmed", state.unconfirmed},
                 {"cells", Json::array()}};
    for (const CampaignCell &cell : state.cells) json["cells"].push_back(cell_json(cell));
    for (const FirstRun &run : state.first) json["first"].push_back(Json::array({run.cell, run.seed}));
    json["checksum"] = checksum(dump(json));
    return dump(json) + "\n";
}

std::string soak_state_read(const std::string &text, SoakState &state)
{
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) return "it is cut short or no JSON";
    try {
        if (json.at("version") != kVersion) return "it is of another version of this program";
        const std::string sum = json.at("checksum").get<std::string>();
        json.erase("checksum");
        if (sum != checksum(dump(json))) return "its checksum is wrong";
        read_fields(json, state);
    } catch (const Json::exception &) {
        return "a field is missing or of the wrong kind";
    } catch (const std::out_of_range &error) {
        return error.what();
    }
    return "";
}

}  // namespace stress
