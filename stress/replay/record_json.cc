#include <nlohmann/json.hpp>

#include "replay/record_report.h"

namespace stress {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(const CrashRecord &record, record_field field)
{
    const auto number = record.number(field);
    return number.has_value() ? Json(*number) : Json();
}

Json hex_or_null(const CrashRecord &record, record_field field)
{
    const auto number = record.number(field);
    return number.has_value() ? Json(crash_hex(*number)) : Json();
}

Json text_or_null(const CrashRecord &record, record_field field)
{
    return record.texts.count(field) != 0 ? Json(record.text(field)) : Json();
}

Json json_of(const CrashFrame &frame)
{
    Json lines = Json::array();
    for (const CrashLine &line : frame.lines)
        lines.push_back({{"function", line.function}, {"file", line.file}, {"line", line.line}});
    return {{"pc", crash_hex(frame.pc)},
            {"module", frame.module},
            {"offset", crash_hex(frame.offset)},
            {"function", frame.lines.empty() ? "" : frame.lines[0].function},
            {"lines", lines}};
}

Json json_of(const CrashPlace &place)
{
    Json words = Json::array();
    for (const std::uint64_t word : place.words) words.push_back(crash_hex(word));
    return {{"of", place.of},
            {"address", crash_hex(place.address)},
            {"kind", crash_kind_name(place.kind)},
            {"state", crash_state_name(place.state)},
            {"superslab", crash_hex(place.superslab)},
            {"page", place.page},
            {"class", place.class_index},
            {"block_start", crash_hex(place.block_start)},
            {"block_bytes", place.block_bytes},
            {"offset", static_cast<std::int64_t>(place.offset)},
            {"owner", place.owner},
            {"owner_is_orphan", place.owner_is_orphan != 0},
            {"slab_start", crash_hex(place.slab_start)},
            {"slab_capacity", place.slab_capacity},
            {"slab_carved", place.slab_carved},
            {"slab_used", place.slab_used},
            {"list_head", crash_hex(place.list_head)},
            {"list_word", crash_hex(place.list_word)},
            {"list_value", crash_hex(place.list_value)},
            {"words", words}};
}

Json json_of(const CrashGuard &guard, const GuardFrames &frames)
{
    Json allocated = Json::array(), freed = Json::array();
    for (const CrashFrame &frame : frames.allocated) allocated.push_back(json_of(frame));
    for (const CrashFrame &frame : frames.freed) freed.push_back(json_of(frame));
    return {{"finding", crash_finding_name(guard.finding)},
            {"text", crash_finding_text(guard.finding)},
            {"address", crash_hex(guard.address)},
            {"block_start", crash_hex(guard.block_start)},
            {"block_bytes", guard.block_bytes},
            {"offset", static_cast<std::int64_t>(guard.address - guard.block_start)},
            {"state", crash_state_name(guard.state)},
            {"allocated", {{"thread", guard.allocated_by}, {"frames", allocated}}},
            {"freed", guard.freed_by == 0 ? Json() : Json{{"thread", guard.freed_by}, {"frames", freed}}}};
}

Json suspect_json(const CrashRecord &record)
{
    if (!record.number(RECORD_suspect_address).has_value()) return Json();
    Json copies = Json::array();
    for (const std::uint64_t copy : record.suspect_copies) copies.push_back(crash_hex(copy));
    return {{"address", hex_or_null(record, RECORD_suspect_address)},
            {"value", hex_or_null(record, RECORD_suspect_value)},
            {"class", number_or_null(record, RECORD_suspect_class)},
            {"text", text_or_null(record, RECORD_suspect_text)},
            {"copies", copies}};
}

Json modules_json(const CrashRecord &record)
{
    Json modules = Json::array();
    for (const CrashModule &module : record.modules)
        modules.push_back({{"path", module.path},
                           {"base", crash_hex(module.base)},
                           {"start", crash_hex(module.start)},
                           {"end", crash_hex(module.end)},
                           {"build_id", module.build_id}});
    return modules;
}

Json cut_json(const CrashRecord &record)
{
    Json cut = Json::array();
#define X(id, name, type, text) \
    if (record.is_cut(RECORD_##name)) cut.push_back(#name);
    RECORD_FIELDS(X)
#undef X
    return cut;
}

}  // namespace

std::string crash_json(const CrashRecord &record, const std::vector<CrashFrame> &frames,
                       const std::vector<GuardFrames> &guards)
{
    Json json;
    json["version"] = RECORD_VERSION;
    json["signal"] = {{"name", crash_signal_name(record)},
                      {"number", number_or_null(record, RECORD_signal)},
                      {"code", static_cast<std::int64_t>(record.number(RECORD_signal_code).value_or(0))},
                      {"text", crash_code_text(record)},
                      {"fault_address", hex_or_null(record, RECORD_fault_address)}};
    json["frames"] = Json::array();
    for (const CrashFrame &frame : frames) json["frames"].push_back(json_of(frame));
    json["registers"] = Json::object();
    for (const CrashRegister &one : record.registers) json["registers"][one.name] = crash_hex(one.value);
    json["places"] = Json::array();
    for (const CrashPlace &place : record.places) json["places"].push_back(json_of(place));
    json["guards"] = Json::array();
    for (std::size_t i = 0; i < record.guards.size(); ++i)
        json["guards"].push_back(json_of(record.guards[i], i < guards.size() ? guards[i] : GuardFrames()));
    json["suspect"] = suspect_json(record);
    json["process"] = number_or_null(record, RECORD_process);
    json["thread"] = {{"id", number_or_null(record, RECORD_thread)},
                      {"name", text_or_null(record, RECORD_thread_name)}};
    json["seed"] = number_or_null(record, RECORD_seed);
    json["logical_clock"] = number_or_null(record, RECORD_clock);
    json["schedule_hash"] = hex_or_null(record, RECORD_schedule_hash);
    json["operations"] = text_or_null(record, RECORD_operations);
    json["reproduce"] = text_or_null(record, RECORD_reproduce);
    json["arguments"] = record.list(RECORD_arguments);
    json["directory"] = text_or_null(record, RECORD_directory);
    json["environment"] = record.list(RECORD_environment);
    json["time_ns"] = number_or_null(record, RECORD_time_ns);
    json["program"] = {{"path", text_or_null(record, RECORD_program)},
                       {"build_id", text_or_null(record, RECORD_program_build_id)}};
    json["library"] = {{"path", text_or_null(record, RECORD_library)},
                       {"build_id", text_or_null(record, RECORD_library_build_id)},
                       {"version", text_or_null(record, RECORD_library_version)}};
    json["architecture"] = text_or_null(record, RECORD_architecture);
    json["modules"] = modules_json(record);
    json["cut"] = cut_json(record);
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stress
