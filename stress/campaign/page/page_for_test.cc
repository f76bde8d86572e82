// usage: page_for_test DIR [large]: writes the report of a made-up campaign, for the browser test. The large one has every
// scenario of the suite, and a malloc that fails in each.
#include <cstdio>
#include <string>

#include "campaign/report.h"
#include "campaign/runs_for_test.h"
#include "engine/base/file.h"

int main(int argc, char **argv)
{
    const bool large = argc == 3 && std::string(argv[2]) == "large";
    if (argc != 2 && !large) return 2;
    const stress::MadeUpCampaign made = large ? stress::made_up_large_campaign() : stress::made_up_campaign();
    stress::ReportDirectory directory(argv[1]);
    std::string fault = directory.open(false);
    directory.drop_from(0);
    for (std::size_t i = 0; i < made.results.size() && fault.empty(); ++i)
        fault = directory.add(i, stress::record_read(made.results[i]), made.results[i]);
    if (fault.empty()) fault = stress::file_replace(std::string(argv[1]) + "/conform-one.json", made.conform);
    if (fault.empty()) fault = directory.write_page(made.header);
    if (!fault.empty()) std::fprintf(stderr, "page_for_test: %s\n", fault.c_str());
    return fault.empty() ? 0 : 1;
}
