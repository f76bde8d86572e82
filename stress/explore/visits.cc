#include "explore/visits.h"

extern "C" stress_site __start_stress_sites[], __stop_stress_sites[]; // the linker's names for the ends of the section

namespace stress {

Visits::Visits()
{
    for (const stress_site *site = __start_stress_sites; site < __stop_stress_sites; ++site)
        visits_.push_back({site, {}, {}});
}

void Visits::begin()
{
    for (stress_site *site = __start_stress_sites; site < __stop_stress_sites; ++site)
        site->threads = site->threads_shared = 0;
}

void Visits::add(const std::string &scenario)
{
    const auto append = [&](std::vector<std::string> &list) {
        if (list.empty() || list.back() != scenario) list.push_back(scenario);
    };
    for (Visit &visit : visits_) {
        if (visit.site->threads != 0) append(visit.scenarios);
        if (visit.site->threads_shared != 0) append(visit.two_sided);
    }
}

} // namespace stress
