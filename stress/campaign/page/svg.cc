#include "campaign/page/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "campaign/page/html.h"

namespace stress {
namespace {

// Clamped to [0, limit], with one decimal.
std::string coordinate(double value, double limit)
{
    if (!(value > 0)) return "0";  // NaN too
    value = std::round(std::min(value, limit) * 10) / 10;
    return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

double finite_or_zero(double value)
{
    return std::isfinite(value) ? value : 0;
}

std::vector<double> ticks(double high, double step)
{
    std::vector<double> values{0};
    while (values.back() < high && values.size() < 16) values.push_back(values.back() + step);
    return values;
}

}  // namespace

Svg::Svg(double width, double height, const std::string &id, const std::string &title, const std::string &description)
    : width_(width), height_(height)
{
    body_ = fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-labelledby=\"{}-t {}-d\">"
                        "<title id=\"{}-t\">{}</title><desc id=\"{}-d\">{}</desc>",
                        width, height, id, id, id, html_escape(title), id, html_escape(description));
}

std::string Svg::x(double value) const
{
    return coordinate(value, width_);
}

std::string Svg::y(double value) const
{
    return coordinate(value, height_);
}

void Svg::line(double x1, double y1, double x2, double y2, const char *style_class)
{
    body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>", x(x1), y(y1), x(x2), y(y2),
                         style_class);
}

void Svg::rect(double left, double top, double width, double height, double radius, const std::string &style_class)
{
    left = std::clamp(finite_or_zero(left), 0.0, width_);
    top = std::clamp(finite_or_zero(top), 0.0, height_);
    body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" class=\"{}\"/>", x(left), y(top),
                         coordinate(width, width_ - left), coordinate(height, height_ - top),
                         coordinate(radius, width_), style_class);
}

void Svg::circle(double centre_x, double centre_y, double radius, const std::string &style_class)
{
    centre_x = std::clamp(finite_or_zero(centre_x), radius, width_ - radius);
    centre_y = std::clamp(finite_or_zero(centre_y), radius, height_ - radius);
    body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{}\"/>", x(centre_x), y(centre_y),
                         coordinate(radius, width_), style_class);
}

std::string Svg::point_list(const std::vector<SvgPoint> &points) const
{
    std::string list;
    for (const SvgPoint &point : points) {
        if (!list.empty()) list += ' ';
        list += x(point.first) + "," + y(point.second);
    }
    return list;
}

void Svg::polyline(const std::vector<SvgPoint> &points, const char *style_class)
{
    body_ += fmt::format("<polyline points=\"{}\" class=\"{}\"/>", point_list(points), style_class);
}

void Svg::polygon(const std::vector<SvgPoint> &points, const char *style_class)
{
    body_ += fmt::format("<polygon points=\"{}\" class=\"{}\"/>", point_list(points), style_class);
}

void Svg::text(double left, double top, const char *anchor, const char *style_class, const std::string &text)
{
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" class=\"{}\">{}</text>", x(left), y(top), anchor,
                         style_class, html_escape(text));
}

std::string Svg::done()
{
    return body_ + "</svg>\n";
}

double Axis::place(double value) const
{
    if (!(high > low) || !(value > low)) return from;
    if (value >= high) return to;
    return from + (to - from) * ((value - low) / (high - low));
}

double log_place(const Axis &axis, double value)
{
    if (!(axis.low > 0) || !(value > axis.low)) return axis.from;
    const Axis linear{std::log10(axis.low), std::log10(axis.high), axis.from, axis.to};
    return linear.place(std::log10(value));
}

std::vector<double> ticks_bytes(double high, int count)
{
    high = std::isfinite(high) && high >= 1 ? std::min(high, 1e30) : 1;
    double step = 1;
    while (step * count < high) step *= 2;
    return ticks(high, step);
}

std::vector<double> ticks_decimal(double high, int count)
{
    high = std::isfinite(high) && high > 0 ? std::clamp(high, 1e-9, 1e30) : 1;
    double step = std::pow(10, std::floor(std::log10(high / count)));
    for (double factor : {2.0, 2.5, 2.0}) {
        if (step * count >= high) break;
        step *= factor;
    }
    return ticks(high, step);
}

}  // namespace stress
