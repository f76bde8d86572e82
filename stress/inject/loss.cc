// Decides whether a run lost blocks: by the subject's own books, more is in use at its end than at the end of a run
// without a fault, in which libc keeps some.
#include <fmt/core.h>

#include "engine/subject/whitebox.h"
#include "inject/inject.h"

namespace stress::inject {

std::string loss_unseen(const Task &task)
{
    if (!whitebox_shows_use()) return "this malloc has no books to look at (hak_purge and hak_stats_get)";
    if (task.scenario == "dlopen") return "libc's loader keeps blocks for each thread that met a library";
    if (task.schedule == Schedule::Os) return "what libc keeps for threads then differs from run to run";
    return "";
}

Outcome run_judged(const Task &task, const Kept &without_fault)
{
    Outcome outcome = run_once(task);
    if (!outcome.failure.empty() || !loss_unseen(task).empty()) return outcome;
    const Kept &kept = outcome.kept;
    if (kept.blocks > without_fault.blocks || kept.bytes > without_fault.bytes)
        outcome.failure = fmt::format("lost: {} blocks and {} bytes more than at the start are in use at the end, {} "
                                      "and {} without a fault",
                                      kept.blocks, kept.bytes, without_fault.blocks, without_fault.bytes);
    return outcome;
}

}  // namespace stress::inject
