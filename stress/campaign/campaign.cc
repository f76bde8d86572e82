#include "campaign/campaign.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "campaign/child.h"
#include "campaign/compare/comparison.h"
#include "campaign/compare/comparison_text.h"
#include "campaign/compare/labels.h"
#include "engine/base/file.h"
#include "campaign/interrupt.h"
#include "campaign/journal.h"
#include "campaign/judge.h"
#include "campaign/kept/kept_seeds.h"
#include "campaign/plan.h"
#include "campaign/report.h"
#include "campaign/soak_state.h"
#include "campaign/summary.h"
#include "campaign/command_words.h"
#include "engine/base/clock.h"
#include "engine/base/progress.h"
#include "engine/base/rng.h"
#include "engine/base/verdict.h"

namespace stress {
namespace {

constexpr double kSlowRunLineSeconds = 60;  // if there is no terminal to show a live line

struct JudgedRun {
    RunRecord record;
    std::string json; // the run's own result
    double seconds = 0; // of the child
};

class Campaign {
  public:
    explicit Campaign(const CampaignOptions &options)
        : o_(options), expected_(options.expected), soak_(options.soak_seconds > 0),
          out_(options.json_path == "-" || options.junit_path == "-" ? STDERR_FILENO : STDOUT_FILENO),
          terminal_(isatty(out_) == 1)
    {}

    int run()
    {
        std::string refusal = open_all();
        if (!refusal.empty()) {
            write_text(STDERR_FILENO, "hakmem-stress: " + refusal + "\n");
            return 2;
        }
        interrupt_install();
        say(fmt::format("seed {}\n", state_.first_seed));
        if (!state_.first.empty() && state_.next_run == 0)
            say(fmt::format("runs of kept seeds first: {}\n", state_.first.size()));
        if (state_.next_run > 0)
            say(fmt::format("resumed at run {}, after {} of {}\n", state_.next_run + 1,
                            duration_text(state_.elapsed_seconds), duration_text(o_.soak_seconds)));
        start_seconds_ = now_seconds() - state_.elapsed_seconds;
        next_checkpoint_ = (std::floor(state_.elapsed_seconds / o_.checkpoint_seconds) + 1) * o_.checkpoint_seconds;
        save();
        while (fault_.empty() && refused_.empty() && !interrupt_requested() && !done()) one_run();
        return finish();
    }

  private:
    std::string open_all();
    std::string open_state();
    bool done() const;
    FirstRun next_run() const;
    void one_run();
    std::optional<JudgedRun> judged_run(const CampaignCell &cell, std::uint64_t seed);
    std::string known_reason(const CampaignCell &cell, const RunRecord &record);
    void account(CampaignCell &cell, const JudgedRun &run);
    bool tick(const CampaignCell &cell, double seconds, const std::string &last_line);
    void checkpoint_if_due();
    void save();
    void report();
    int finish();

    std::uint64_t runs() const { return state_.first.size() + plan_.size(); } // of a campaign that is no soak
    double elapsed() const { return now_seconds() - start_seconds_; }
    std::string counts() const
    {
        return fmt::format("{} passed, {} failed, {} skipped", state_.passed, state_.failed, state_.skipped) +
               (state_.known == 0 ? "" : fmt::format(", {} known to fail", state_.known)) +
               (state_.unconfirmed == 0 ? "" : fmt::format(", {} not confirmed", state_.unconfirmed));
    }
    void say(const std::string &text)
    {
        if (live_) write_text(out_, "\r\033[K");
        live_ = false;
        write_text(out_, text);
    }

    const CampaignOptions &o_;
    Expectations expected_;
    std::vector<PlannedRun> plan_;
    const bool soak_;
    const int out_;
    const bool terminal_;
    SoakState state_;
    KeptSeeds kept_;
    std::unique_ptr<Journal> journal_;
    std::unique_ptr<ReportDirectory> directory_;
    double start_seconds_ = 0, next_checkpoint_ = 0, slow_line_seconds_ = 0;
    bool live_ = false;
    std::vector<RunRecord> compared_; // of a campaign that is no soak, without samples
    std::string refused_; // what a run that ended with bad input said
    std::string fault_;  // why results can no longer be kept
};

std::string Campaign::open_state()
{
    const std::string path = o_.report_directory + "/soak.json";
    if (!soak_ || o_.fresh || !file_exists(path)) return "";
    const std::string mend = "add --fresh to start over, or name another --report directory";
    std::string text, fault = file_read(path, text);
    if (fault.empty()) fault = soak_state_read(text, state_);
    if (!fault.empty()) return fmt::format("'{}' cannot be resumed, {}; {}", path, fault, mend);
    if (state_.options != options_text(o_))
        return fmt::format("'{}' is of a soak with other options ({}); give the same, {}", path, state_.options, mend);
    if (o_.seed.has_value() && *o_.seed != state_.first_seed)
        return fmt::format("'{}' is of a soak from seed {}; leave --seed out, {}", path, state_.first_seed, mend);
    if (state_.cells.size() != o_.scenarios.size() * o_.allocators.size() * o_.schedules.size())
        return fmt::format("'{}' cannot be resumed, its table does not fit its options; {}", path, mend);
    return "";
}

std::string Campaign::open_all()
{
    if (soak_ && o_.report_directory.empty()) return "--soak: it needs a place for its state; add --report DIR";
    if (soak_ && !o_.json_path.empty()) return "--soak: every result is kept under --report already; leave --json out";
    if (!o_.report_directory.empty()) {
        directory_ = std::make_unique<ReportDirectory>(o_.report_directory);
        if (std::string fault = directory_->open(soak_); !fault.empty()) return "--report: " + fault;
    }
    if (std::string fault = open_state(); !fault.empty()) return "--soak: " + fault;
    if (std::string fault = kept_.open(o_.kept_path); !fault.empty()) return "--seeds: " + fault;
    plan_ = plan_runs(o_);
    for (const CampaignCell &cell : state_.cells)
        if (cell.passed + cell.failed + cell.known != 0)
            expected_.recall(cell.scenario, cell.allocator, cell.known != 0);
    if (state_.next_run == 0) {
        state_ = SoakState{};
        state_.options = options_text(o_);
        state_.first_seed = o_.seed.has_value() ? *o_.seed : seed_draw();
        state_.started_unix = static_cast<std::uint64_t>(time(nullptr));
        state_.cells = plan_cells(o_);
        state_.first = kept_.runs_of(state_.cells, o_.seed_shard, o_.seed_stride);
    }
    journal_ = std::make_unique<Journal>();
    if (std::string fault = journal_->open(o_.json_path); !fault.empty()) return "--json: " + fault;
    if (std::string fault = result_prepare(o_.junit_path); !fault.empty()) return "--junit: " + fault;
    if (soak_ && o_.fresh) unlink((o_.report_directory + "/soak.json").c_str());
    if (directory_ != nullptr) directory_->drop_from(state_.next_run);
    return "";
}

bool Campaign::done() const
{
    return soak_ ? elapsed() >= o_.soak_seconds : state_.next_run >= runs();
}

FirstRun Campaign::next_run() const
{
    if (state_.next_run < state_.first.size()) return state_.first[state_.next_run];
    const std::uint64_t run = state_.next_run - state_.first.size();
    const PlannedRun &planned = plan_[run % plan_.size()];
    return {planned.cell, state_.first_seed + run / plan_.size() * o_.seed_stride + planned.seed_offset};
}

void Campaign::one_run()
{
    const auto [cell_index, seed] = next_run();
    CampaignCell &cell = state_.cells[cell_index];
    std::optional<JudgedRun> run = judged_run(cell, seed);
    if (!run.has_value()) return;
    run->record.expected = known_reason(cell, run->record);
    if (run->record.expected.empty()) {
        for (unsigned runs = 1; judge_wants_again(run->record, runs);) {
            std::optional<JudgedRun> again = judged_run(cell, seed);
            if (!again.has_value()) return;
            const bool skipped = again->record.verdict == RunVerdict::Skip;
            const RunRecord all = judge_again(run->record, again->record, ++runs);
            if (all.verdict == RunVerdict::Pass) run = std::move(again);
            run->record = all;
            if (skipped) break;
        }
    }
    account(cell, *run);
}

// Why the failures of this run are known; empty: they are not, or there are none.
std::string Campaign::known_reason(const CampaignCell &cell, const RunRecord &record)
{
    if (record.verdict == RunVerdict::Skip) return "";
    std::vector<std::string> rules;
    for (const RunFailure &failure : record.failures) rules.push_back(failure.rule);
    return expected_.judge(cell.scenario, cell.allocator, rules);
}

// One child. Nothing if it says nothing about the malloc: it was interrupted, refused, or could not keep its result.
std::optional<JudgedRun> Campaign::judged_run(const CampaignCell &cell, std::uint64_t seed)
{
    std::vector<std::string> words = run_arguments(o_, cell, seed);
    std::string repeat = words_quoted({o_.program_name}) + " " + words_quoted(words);
    words.insert(words.end(), {"--json", kChildJsonPath});

    slow_line_seconds_ = kSlowRunLineSeconds;
    const ChildTick on_tick = [&](double seconds, const std::string &last_line) {
        return tick(cell, seconds, last_line);
    };
    const ChildOutcome outcome = child_run({o_.program, o_.program_name, words, o_.timeout_seconds}, on_tick);
    // An interrupted run says nothing about the malloc. It runs again when the campaign resumes.
    if (outcome.end == ChildEnd::Interrupted) return std::nullopt;
    if (outcome.end == ChildEnd::Exited && outcome.code == kExitBadInput) {
        refused_ = outcome.err_last_line.empty() ? "hakmem-stress: a run was refused" : outcome.err_last_line;
        return std::nullopt;
    }
    // Not the malloc's doing: the run could not keep its result.
    if (outcome.end == ChildEnd::Exited && outcome.code == kExitLost) {
        fault_ = outcome.err_last_line.substr(outcome.err_last_line.find(": ") + 2);
        return std::nullopt;
    }
    RunRecord record = judge(outcome, o_.timeout_seconds);
    record.scenario = cell.scenario;
    record.allocator = cell.allocator;
    if (o_.build_id) record.build_id = o_.build_id(cell.allocator);
    record.schedule = cell.schedule;
    record.mode = cell.mode;
    record.seed = seed;
    // The run's own command is best, since the run may add what only it knows; but a run that died had no time to print
    // one.
    record.reproduce = record.reproduce.empty() ? repeat : child_words_forget(record.reproduce);
    return JudgedRun{std::move(record), outcome.json, outcome.seconds};
}

// Writes the result first, then the state that counts it. If the campaign is killed in between, the run is repeated
// under the same name.
void Campaign::account(CampaignCell &cell, const JudgedRun &run)
{
    const RunRecord &record = run.record;
    const std::string json = record_json(record, run.json);
    if (directory_ != nullptr) fault_ = directory_->add(state_.next_run, record, json);
    if (record.verdict == RunVerdict::Fail && record.mode == RunMode::Check && record.expected.empty())
        if (std::string fault = kept_.add(record); fault_.empty()) fault_ = fault;
    journal_->add(json);
    ++state_.next_run;
    const auto count = [&record](auto &counts) {
        ++(record.verdict == RunVerdict::Pass   ? counts.passed
           : record.verdict == RunVerdict::Skip ? counts.skipped
           : record.expected.empty()            ? counts.failed
                                                : counts.known);
        counts.unconfirmed += !record.unconfirmed.empty();
    };
    count(state_);
    count(cell);
    if (record.verdict == RunVerdict::Skip) cell.skip_reason = record.skip_reason;
    cell.ops_per_second = record.ops_per_second.value_or(-1);
    cell.peak_rss_bytes = record.peak_rss_bytes.has_value() ? static_cast<double>(*record.peak_rss_bytes) : -1;
    cell.seconds = record.seconds.has_value() ? *record.seconds : run.seconds;
    if (!soak_) {
        compared_.push_back(record);
        compared_.back().samples.clear();
        compared_.back().samples.shrink_to_fit();
    }
    // A soak only counts passes, unless one of two runs failed, and prints a skip once.
    const bool first_skip = record.verdict == RunVerdict::Skip && cell.skipped == 1;
    if (!soak_ || record.verdict == RunVerdict::Fail || !record.unconfirmed.empty() || first_skip)
        say(summary_line(record));
    save();
    checkpoint_if_due();
}

bool Campaign::tick(const CampaignCell &cell, double seconds, const std::string &last_line)
{
    state_.elapsed_seconds = elapsed();
    checkpoint_if_due();
    const std::string name = cell.scenario + " on " + cell.allocator + ", " + cell.schedule;
    if (terminal_) {
        const std::string at = soak_
                                   ? fmt::format("{} of {}, {} runs, {} failed", duration_text(state_.elapsed_seconds),
                                                 duration_text(o_.soak_seconds), state_.next_run, state_.failed)
                                   : fmt::format("run {} of {}", state_.next_run + 1, runs());
        std::string line = fmt::format("{}: {}  {}", at, name, last_line.substr(0, 60));
        write_text(out_, "\r\033[K" + line.substr(0, 119));
        live_ = true;
    } else if (!soak_ && seconds >= slow_line_seconds_) {
        slow_line_seconds_ += kSlowRunLineSeconds;
        say(fmt::format("  ... {} for {}\n", name, duration_text(seconds)));
    }
    return !interrupt_requested();
}

void Campaign::checkpoint_if_due()
{
    if (elapsed() < next_checkpoint_) return;
    while (next_checkpoint_ <= elapsed()) next_checkpoint_ += o_.checkpoint_seconds;
    if (soak_)
        say(fmt::format("checkpoint: {} of {}, {} runs, {} failed\n", duration_text(elapsed()),
                        duration_text(o_.soak_seconds), state_.next_run, state_.failed));
    save();
    report();
}

void Campaign::save()
{
    state_.elapsed_seconds = elapsed();
    if (!soak_ || !fault_.empty()) return;
    fault_ = file_replace(o_.report_directory + "/soak.json", soak_state_text(state_));
}

void Campaign::report()
{
    if (directory_ == nullptr || !fault_.empty()) return;
    state_.elapsed_seconds = elapsed();
    ReportHeader header;
    header.command = o_.command;
    if (!o_.seed.has_value()) header.command += fmt::format(" --seed {}", state_.first_seed);
    header.options = state_.options;
    header.state = state_;
    header.soak_seconds = o_.soak_seconds;
    header.complete = done();
    fault_ = directory_->write_page(header);
}

int Campaign::finish()
{
    const bool complete = done();
    save();
    report();
    if (!refused_.empty()) { // nothing was judged, and the journal's file goes
        write_text(STDERR_FILENO, refused_ + "\n");
        return kExitBadInput;
    }
    const std::vector<std::string> mended = complete ? expected_.mended() : std::vector<std::string>();
    const bool passed = complete && state_.failed == 0 && mended.empty();
    if (std::string fault = journal_->close(state_, passed); fault_.empty()) fault_ = fault;
    label_runs(compared_);
    const std::string junit = soak_ ? soak_junit(state_.cells, mended) : summary_junit(compared_, mended);
    if (std::string fault = result_write(o_.junit_path, junit); fault_.empty()) fault_ = fault;
    if (o_.speed_rounds == 0) {
        say("\n" + summary_table(state_.cells));
    } else {
        say("\n" + comparison_text(comparison_of(compared_)));
    }
    if (o_.list_skips) say(summary_skips(state_.cells));
    if (directory_ != nullptr && fault_.empty()) say("report: " + directory_->page_path() + "\n");
    if (state_.next_run > 0) verdict_reached(passed ? "pass" : "fail");
    if (!fault_.empty()) result_lost(fault_ + "; free some space there, and run again");
    if (!complete && soak_) say("interrupted; to resume: " + o_.command + "\n");
    else if (!complete) say(fmt::format("interrupted after {} of {} runs\n", state_.next_run, runs()));
    else if (soak_) say(fmt::format("soak of {} complete; --fresh starts over\n", duration_text(o_.soak_seconds)));
    for (const std::string &line : mended) say(line + "\n");
    say(counts() + "\n");
    if (!fault_.empty()) return state_.next_run > 0 ? kExitLost : kExitBadInput;
    return passed && !(interrupt_requested() && !soak_) ? 0 : 1;
}

} // namespace

int campaign_run(const CampaignOptions &options)
{
    Campaign campaign(options);
    return campaign.run();
}

} // namespace stress
