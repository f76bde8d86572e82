// Results as JUnit XML, which CI systems read. There is no standard; this is what Jenkins, GitLab and the actions of
// GitHub agree on.
#pragma once

#include <string>
#include <vector>

namespace stress {

struct JunitCase {
    enum class Kind { Passed, Failed, Skipped };
    std::string group; // of tests: the classname
    std::string name;
    Kind kind = Kind::Passed;
    double seconds = 0;
    std::string message; // of a failure or a skip, in one line
    std::string detail;  // of a failure or a pass: what else there is to say
};

std::string junit_xml(const std::string &suite, const std::vector<JunitCase> &cases);

} // namespace stress
