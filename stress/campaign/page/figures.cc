#include "campaign/page/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "campaign/page/html.h"
#include "campaign/page/svg.h"
#include "engine/base/progress.h"

namespace stress {
namespace {

constexpr double kWidth = 360;

std::string bytes_label(double bytes)
{
    // Ticks are powers of two, so they need no decimals.
    constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    std::size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < std::size(units)) {
        bytes /= 1024;
        ++unit;
    }
    return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string bytes_short(double bytes)
{
    if (!(bytes > 0)) return format_bytes(0);
    return format_bytes(bytes < 1e19 ? static_cast<std::uint64_t>(bytes) : UINT64_MAX);
}

}  // namespace

double memory_high(const RunRecord &run)
{
    double high = 0;
    for (const RunSample &sample : run.samples) high = std::max({high, sample.live_bytes, sample.rss_bytes});
    return high;
}

std::string figure_memory(const std::string &id, const RunRecord &run, double high_bytes)
{
    constexpr double height = 190, left = 56, right = kWidth - 6, top = 10, bottom = 164;
    if (run.samples.empty()) return "";
    const double peak_bytes = memory_high(run), high = std::max(high_bytes, peak_bytes);
    const double bound = static_cast<double>(run.memory_bound_bytes.value_or(0));
    const bool bound_shown = bound > 0 && bound <= high * 2.5;  // a bound farther away would flatten the lines
    const std::vector<double> marks = ticks_bytes(bound_shown ? std::max(high, bound) : high, 4);
    const double start = run.samples.front().seconds, end = run.samples.back().seconds;
    const Axis across{std::min(start, 0.0), std::max(end, 1e-9), left, right};
    const Axis up{0, marks.back(), bottom, top};
    Svg svg(kWidth, height, id, "Memory over time: " + run.scenario + " on " + run.label + ", schedule " + run.schedule,
            fmt::format("Resident and live bytes during {:.2f} seconds, {} samples. Highest: {}. At the end: {} "
                        "resident, "
                        "{} live.",
                        end, run.samples.size(), bytes_short(peak_bytes), bytes_short(run.samples.back().rss_bytes),
                        bytes_short(run.samples.back().live_bytes)));
    for (double mark_bytes : marks) {
        svg.line(left, up.place(mark_bytes), right, up.place(mark_bytes), mark_bytes == 0 ? "axis" : "grid");
        svg.text(left - 6, up.place(mark_bytes) + 4, "end", "t dim", mark_bytes == 0 ? "0" : bytes_label(mark_bytes));
    }
    for (double second : ticks_decimal(across.high, 4)) {
        if (second > across.high * 1.0001) continue;
        svg.line(across.place(second), bottom, across.place(second), bottom + 4, "axis");
        svg.text(across.place(second), bottom + 17, second > across.high * 0.93 ? "end" : "middle", "t dim",
                 fmt::format("{:.3g} s", second));
    }
    std::vector<SvgPoint> live, rss, area;
    for (const RunSample &sample : run.samples) {
        live.emplace_back(across.place(sample.seconds), up.place(sample.live_bytes));
        rss.emplace_back(across.place(sample.seconds), up.place(sample.rss_bytes));
    }
    area = rss;
    area.insert(area.end(), live.rbegin(), live.rend());
    svg.polygon(area, "gap");
    if (bound_shown) {
        svg.line(left, up.place(bound), right, up.place(bound), "bound");
        svg.text(right, up.place(bound) - 4, "end", "t bad", "bound " + bytes_short(bound));
    }
    svg.polyline(live, "line live");
    svg.polyline(rss, "line rss");
    if (run.samples.size() == 1) {
        svg.circle(live[0].first, live[0].second, 3, "dot live");
        svg.circle(rss[0].first, rss[0].second, 3, "dot rss");
    }
    return svg.done();
}

namespace {

// One row of the figure of latencies: a line from the median to the maximum, a mark for each percentile.
void latency_row(Svg &svg, const Axis &across, double y, const char *call, const LatencyRow &latency)
{
    const auto at = [&](std::uint64_t nanoseconds) { return log_place(across, static_cast<double>(nanoseconds)); };
    const std::string name = call;
    svg.text(0, y + 4, "start", "t", call);
    if (latency.count == 0) {
        svg.text(across.from, y + 4, "start", "t dim", "not measured");
        return;
    }
    const char *whisker = name == "malloc" ? "whisker k-malloc" : "whisker k-free";
    svg.line(at(latency.p50), y, at(latency.max), y, whisker);
    svg.circle(at(latency.p999), y, 2.2, "dot k-" + name);
    svg.circle(at(latency.p99), y, 3, "dot k-" + name);
    svg.circle(at(latency.p90), y, 3.9, "dot k-" + name);
    svg.circle(at(latency.p50), y, 5, "dot k-" + name);
    svg.line(at(latency.max), y - 5, at(latency.max), y + 5, whisker);
}

std::string latency_said(const Runs &runs)
{
    std::string said;
    for (const RunRecord *run : runs)
        for (const auto &[call, latency] : {std::pair{"malloc", &run->malloc_ns}, std::pair{"free", &run->free_ns}})
            if (latency->count != 0)
                said += fmt::format("{} on {}, {}: median {}, p99.9 {}, maximum {}. ", call, run->label, run->schedule,
                                    nanoseconds_text(static_cast<double>(latency->p50)),
                                    nanoseconds_text(static_cast<double>(latency->p999)),
                                    nanoseconds_text(static_cast<double>(latency->max)));
    return said;
}

}  // namespace

std::string figure_latency(const std::string &id, const Runs &runs)
{
    constexpr double row = 20, heading = 32, foot = 26;
    std::uint64_t low = UINT64_MAX, high = 0;
    Runs measured;
    for (const RunRecord *run : runs) {
        if (run->malloc_ns.count == 0 && run->free_ns.count == 0) continue;
        measured.push_back(run);
        for (const LatencyRow *latency : {&run->malloc_ns, &run->free_ns})
            if (latency->count != 0) {
                low = std::min(low, latency->p50);
                high = std::max(high, latency->max);
            }
    }
    if (measured.empty()) return "";
    const double first = std::pow(10, std::floor(std::log10(std::max<double>(static_cast<double>(low), 1))));
    const double last =
        std::max(std::pow(10, std::ceil(std::log10(std::max<double>(static_cast<double>(high), 1)))), first * 10);
    const Axis across{first, last, 56, kWidth - 22};
    const double bottom = (heading + 2 * row) * static_cast<double>(measured.size());
    Svg svg(kWidth, bottom + foot, id, "Latency of malloc and free in " + runs[0]->scenario, latency_said(measured));
    const auto decades = static_cast<int>(std::lround(std::log10(last / first)));
    const int step = decades > 7 ? 3 : decades > 5 ? 2 : 1;
    for (int i = 0; i <= decades; ++i) {
        const double value = first * std::pow(10, i), x = log_place(across, value);
        svg.line(x, heading - 4, x, bottom, "grid");
        if (i % step == 0) svg.text(x, bottom + 16, "middle", "t dim", nanoseconds_text(value));
    }
    double y = 0;
    for (const RunRecord *run : measured) {
        svg.text(0, y + 20, "start", "t h", run->label + " · " + run->schedule);
        latency_row(svg, across, y + heading + row / 2, "malloc", run->malloc_ns);
        latency_row(svg, across, y + heading + row * 1.5, "free", run->free_ns);
        y += heading + 2 * row;
    }
    return svg.done();
}

}  // namespace stress
