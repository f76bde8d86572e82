// An SVG picture as text. Everything drawn stays inside the viewBox, and every coordinate is a finite number with one
// decimal, so no data can break a figure. Colours come from the page's style sheet, by class.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stress {

using SvgPoint = std::pair<double, double>;

class Svg {
  public:
    // `id` is unique on the page; title and description are for readers who cannot see the figure.
    Svg(double width, double height, const std::string &id, const std::string &title, const std::string &description);

    void line(double x1, double y1, double x2, double y2, const char *style_class);
    void rect(double x, double y, double width, double height, double radius, const std::string &style_class);
    void circle(double x, double y, double radius, const std::string &style_class);
    void polyline(const std::vector<SvgPoint> &points, const char *style_class);
    void polygon(const std::vector<SvgPoint> &points, const char *style_class);
    // anchor: start, middle or end.
    void text(double x, double y, const char *anchor, const char *style_class, const std::string &text);
    std::string done();

  private:
    std::string x(double value) const;
    std::string y(double value) const;
    std::string point_list(const std::vector<SvgPoint> &points) const;

    double width_, height_;
    std::string body_;
};

// The place of a value on an axis that runs from low to high over [from, to]. A value outside, or one that is not a
// number, is put at the nearer end.
struct Axis {
    double low, high, from, to;
    double place(double value) const;
};

// The same on a logarithmic axis; low is above 0.
double log_place(const Axis &axis, double value);

// Round numbers from 0 to the first that is at least `high`, about `count` of them: powers of two times 1 for bytes,
// otherwise 1, 2 and 5 times powers of ten.
std::vector<double> ticks_bytes(double high, int count);
std::vector<double> ticks_decimal(double high, int count);

}  // namespace stress
