// Made-up results for tests of the report: three scenarios, some of every verdict, texts that try to break the page.
#pragma once

#include <string>
#include <vector>

#include "campaign/page/page.h"

namespace stress {

struct MadeUpCampaign {
    ReportHeader header;
    std::vector<std::string> results;  // JSON of each run
    std::string conform; // JSON of hakmem-stress conform on one of the mallocs
};

MadeUpCampaign made_up_campaign();

// Every scenario of the suite on four mallocs, two of which fail: one in most scenarios by six rules and in twelve directed checks,
// the other in two.
MadeUpCampaign made_up_large_campaign();

} // namespace stress
