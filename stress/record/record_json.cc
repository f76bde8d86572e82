#include <nlohmann/json.hpp>

#include "record/record_report.h"

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

Json json_of(const std::vector<CrashFrame> &frames)
{
    Json json = Json::array();
    for (const CrashFrame &frame : frames) json.push_back(json_of(frame));
    return json;
}

Json json_of(const CrashGuard &guard, const EventFrames &frames)
{
    return {
        {"finding", crash_finding_name(guard.finding)},
        {"text", crash_finding_text(guard.finding)},
        {"address", crash_hex(guard.address)},
        {"block_start", crash_hex(guard.block_start)},
        {"block_bytes", guard.block_bytes},
        {"offset", static_cast<std::int64_t>(guard.address - guard.block_start)},
        {"state", crash_state_name(guard.state)},
        {"allocated", {{"thread", guard.allocated_by}, {"frames", json_of(frames.allocated)}}},
        {"freed", guard.freed_by == 0 ? Json() : Json{{"thread", guard.freed_by}, {"frames", json_of(frames.freed)}}}};
}

// null if neither the thread nor a return address is known.
Json event_json(std::uint64_t thread, const std::vector<CrashFrame> &frames)
{
    if (thread == 0 && frames.empty()) return Json();
    return {{"thread", thread == 0 ? Json() : Json(thread)}, {"frames", json_of(frames)}};
}

Json failfast_json(const CrashRecord &record, const EventFrames &frames)
{
    if (!record.failfast.has_value()) return Json();
    const CrashFailfast &found = *record.failfast;
    const bool has_block = found.block_start != 0, has_bad = found.bad_address != 0;
    return {{"kind", found.name},
            {"text", found.text},
            {"found_by", found.call.empty() ? Json() : Json(found.call)},
            {"address", crash_hex(found.address)},
            {"memory", crash_kind_name(found.kind)},
            {"block_start", has_block ? Json(crash_hex(found.block_start)) : Json()},
            {"block_bytes", has_block ? Json(found.block_bytes) : Json()},
            {"offset", has_block ? Json(static_cast<std::int64_t>(found.address - found.block_start)) : Json()},
            {"state", crash_state_name(found.state)},
            {"class", has_block ? Json(found.class_index) : Json()},
            {"bad_address", has_bad ? Json(crash_hex(found.bad_address)) : Json()},
            {"bad_bytes", found.bad_bytes != 0 ? Json(found.bad_bytes) : Json()},
            {"value", has_bad ? Json(crash_hex(found.value)) : Json()},
            {"allocated", event_json(found.allocated_by, frames.allocated)},
            {"freed", event_json(found.freed_by, frames.freed)},
            {"report", text_or_null(record, RECORD_failfast_report)}};
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

std::string crash_json(const CrashRecord &record, const CrashFrames &frames)
{
    Json json;
    json["version"] = RECORD_VERSION;
    json["signal"] = {{"name", crash_signal_name(record)},
                      {"number", number_or_null(record, RECORD_signal)},
                      {"code", static_cast<std::int64_t>(record.number(RECORD_signal_code).value_or(0))},
                      {"text", crash_code_text(record)},
                      {"fault_address", hex_or_null(record, RECORD_fault_address)},
                      {"sender", number_or_null(record, RECORD_signal_sender)}};
    json["frames"] = json_of(frames.stack);
    json["registers"] = Json::object();
    for (const CrashRegister &one : record.registers) json["registers"][one.name] = crash_hex(one.value);
    json["places"] = Json::array();
    for (const CrashPlace &place : record.places) json["places"].push_back(json_of(place));
    json["guards"] = Json::array();
    for (std::size_t i = 0; i < record.guards.size(); ++i)
        json["guards"].push_back(
            json_of(record.guards[i], i < frames.guards.size() ? frames.guards[i] : EventFrames()));
    json["failfast"] = failfast_json(record, frames.failfast);
    json["suspect"] = suspect_json(record);
    json["process"] = number_or_null(record, RECORD_process);
    json["installed_pid"] = number_or_null(record, RECORD_installed_process);
    json["forked"] = crash_is_forked(record).has_value() ? Json(*crash_is_forked(record)) : Json();
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
    json["standard_input"] = text_or_null(record, RECORD_standard_input);
    json["time_ns"] = number_or_null(record, RECORD_time_ns);
    json["program"] = {{"path", text_or_null(record, RECORD_program)},
                       {"build_id", text_or_null(record, RECORD_program_build_id)},
                       {"size_bytes", number_or_null(record, RECORD_program_bytes)},
                       {"mtime_ns", number_or_null(record, RECORD_program_mtime_ns)}};
    json["library"] = {{"path", text_or_null(record, RECORD_library)},
                       {"build_id", text_or_null(record, RECORD_library_build_id)},
                       {"size_bytes", number_or_null(record, RECORD_library_bytes)},
                       {"mtime_ns", number_or_null(record, RECORD_library_mtime_ns)},
                       {"version", text_or_null(record, RECORD_library_version)}};
    json["architecture"] = text_or_null(record, RECORD_architecture);
    json["modules"] = modules_json(record);
    json["cut"] = cut_json(record);
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stress
