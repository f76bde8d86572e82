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

}  // namespace stress
