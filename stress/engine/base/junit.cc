#include "engine/base/junit.h"

#include <fmt/core.h>

#include "engine/base/markup.h"

namespace stress {

std::string junit_xml(const std::string &suite, const std::vector<JunitCase> &cases)
{
    std::size_t failed = 0, skipped = 0;
    double seconds = 0;
    std::string body;
    for (const JunitCase &one : cases) {
        failed += one.kind == JunitCase::Kind::Failed;
        skipped += one.kind == JunitCase::Kind::Skipped;
        seconds += one.seconds;
        body += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"", markup_escape(one.group),
                            markup_escape(one.name), one.seconds);
        if (one.kind == JunitCase::Kind::Passed && one.detail.empty()) body += "/>\n";
        else if (one.kind == JunitCase::Kind::Passed)
            body += fmt::format("><system-out>{}</system-out></testcase>\n", markup_escape(one.detail));
        else if (one.kind == JunitCase::Kind::Skipped)
            body += fmt::format("><skipped message=\"{}\"/></testcase>\n", markup_escape(one.message));
        else
            body += fmt::format("><failure message=\"{}\">{}</failure></testcase>\n", markup_escape(one.message),
                                markup_escape(one.detail));
    }
    const std::string counts = fmt::format("name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" "
                                           "time=\"{:.3f}\"",
                                           markup_escape(suite), cases.size(), failed, skipped, seconds);
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite " + counts + ">\n" + body +
           "</testsuite>\n</testsuites>\n";
}

} // namespace stress
