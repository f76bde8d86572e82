// Visits: which atomic accesses of the allocator's sources the scenarios make, and on which words. An access is visited
// from two sides if in some run the word was one that another thread of the run accessed too, and one of the two wrote:
// there the explorer tries a switch before it.
#pragma once

#include <string>
#include <vector>

#include "explore/inside/site.h"

namespace stress {

class Visits {
  public:
    struct Visit {
        const stress_site *site;
        std::vector<std::string> scenarios, two_sided; // that make the access; that visit it from two sides
    };

    Visits();

    // Forgets what was noted in the sites.
    static void begin();
    // Adds what was noted since under this scenario's name.
    void add(const std::string &scenario);

    // Every access that was compiled into the program, in no order.
    const std::vector<Visit> &all() const { return visits_; }

  private:
    std::vector<Visit> visits_;
};

} // namespace stress
