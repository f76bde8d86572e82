// credits_law_test.cc: the law of credits: in random histories of refills, parks, visits and ends of threads each class has the
// credit, and has paid, what credits.h and purse.h say. Its heap has no slabs, and other accounts leave much or little to buy.
#include "heap/heap_test_support.h"

#include <array>
#include <map>

extern "C" {
#include "cache/credits.h"
#include "superslab/purge.h"
#include "superslab/purse.h"
}

namespace {

// Of a class.
struct ClassSaid {
    uint32_t used = 0, paid = 0, credit = 0, overflows = 0;
    uint32_t takes = 0; // what is left of the bin's credit
    uint32_t seen = 0; // the same when it was asked to give up what it keeps
    bool is_later = false; // the next park looks again
    bool gave_back = false, wants_again = false;
    bool is_at_most = false; // its credit has grown as far as it may
};

// What credits.h says of the classes of a heap.
class CreditsSaid {
  public:
    std::map<uint32_t, ClassSaid> of; // those that the heap uses
    size_t bought = 0, rested = 0;
    size_t others = 0; // what other accounts have bought
    size_t gave_up = 0; // times that a class gave up what it keeps
    size_t beyond_share = 0; // times that the heap may not buy, though the purse may have enough
    const struct heap *heap = nullptr; // its parked lists count

    bool is_paid(uint32_t c)
    {
        const ClassSaid &a = of[c];
        return !a.is_later && (has_paid_all(a) || a.used <= a.paid);
    }
    // Each list in a row that went back halves the credit, and a class that has not paid takes half of what is in use.
    uint32_t takes_now(uint32_t c)
    {
        const ClassSaid &a = of[c];
        const uint32_t least = a.overflows > 0 ? std::min(sizeclass_credit_least(c), a.credit) : 0;
        const uint32_t most = std::max(a.credit >> a.overflows, least);
        return is_paid(c) ? most : std::min(most, std::max(a.used / 2, a.paid));
    }
    void pays(uint32_t c) // at a park
    {
        ClassSaid &a = of[c];
        if (!pays_for(c, std::min(a.used + a.used / 4 + 1, a.credit))) a.is_later = false;
    }
    void outgrows(uint32_t c)
    {
        ClassSaid &a = of[c];
        a.wants_again = a.wants_again || a.gave_back;
        const bool has_far_more = a.used / 2 >= a.credit;
        if (!has_far_more) pays(c);
        if (is_paid(c)) return;
        a.is_later = true;
        if (!has_far_more) a.takes = std::min(a.takes, takes_now(c));
    }
    void wanted(uint32_t c) // a parked list
    {
        ClassSaid &a = of[c];
        a.overflows = 0;
        if (a.is_at_most) return;
        a.wants_again = true;
        const uint32_t most = sizeclass_credit_grown(c), grown = std::min(2 * a.credit, most);
        if (!pays_for(c, std::min(a.used, grown))) return;
        a.credit = grown;
        a.is_at_most = grown == most;
    }
    void idles()
    {
        broke_[0] = broke_[1] = 0;
        for (auto &[c, a] : of) {
            a.is_at_most = a.is_at_most && a.credit <= sizeclass_credit(c);
            a.credit = std::min(a.credit, sizeclass_credit(c));
            a.gave_back = a.wants_again = a.is_later = false;
            const uint32_t before = a.paid;
            a.paid = std::min(a.paid, a.used);
            returns((size_t)(before - a.paid) * sizeclass_bytes(c));
        }
    }
    void pays_back()
    {
        broke_[0] = broke_[1] = 0;
        bought = rested = 0;
        for (auto &[c, a] : of) a.paid = 0, a.is_later = false;
    }
    void tries_again() { broke_[0] = broke_[1] = 0; }
    void rests() { rested += std::exchange(bought, 0); }
    void is_taken()
    {
        if (rested > 0 && !may_buy(rested, true)) pays_back(), idles();
        else bought += rested;
        rested = 0;
        for (auto &[c, a] : of) {
            a.overflows = 0;
            a.takes = is_paid(c) ? a.credit : std::min(a.credit, std::max(a.used / 2, a.paid));
        }
    }

  private:
    uint32_t broke_[2] =
        {}; // how many times the heap does not try to buy: for classes that do not want again, and those that do
    uint32_t asked_ = 0, asked_in_round_ = 0;

    static bool has_paid_all(const ClassSaid &a) { return a.paid != 0 && a.paid >= a.credit; }
    void returns(size_t bytes) { bought -= std::min(bytes, bought); }

    bool may_buy(size_t bytes, bool is_wanted) const
    {
        const size_t most = is_wanted ? purse_bytes_max() : (size_t)PURSE_FIRST_BYTES;
        return bought + bytes <= PURSE_HEAP_LEAST_BYTES || others + bought + bytes <= most;
    }
    bool buys(size_t bytes, bool is_wanted)
    {
        const bool is_beyond = bought + bytes > heap_most(), may = !is_beyond && may_buy(bytes, is_wanted);
        beyond_share += is_beyond;
        if (may) bought += bytes;
        return may;
    }
    size_t heap_most() const
    {
        size_t used_bytes = 0;
        for (const auto &[c, a] : of) used_bytes += (size_t)a.used * sizeclass_bytes(c);
        return PURSE_HEAP_BYTES + (used_bytes >> PURSE_SHARE_LOG2);
    }
    // Another class that has freed nothing since it was asked in the round before, and has no list parked.
    bool one_gives_up(uint32_t but)
    {
        if (asked_ == 0 && std::exchange(asked_in_round_, pool_tick_rounds()) == pool_tick_rounds()) return false;
        for (int i = 0; i < GIVE_UP_STEPS; i++) {
            asked_ = (asked_ + 1) % CLASS_COUNT;
            if (asked_ == 0) return false;
            const auto found = of.find(asked_);
            if (found == of.end()) continue;
            ClassSaid &a = found->second;
            const bool is_idle = std::exchange(a.seen, a.takes) == a.takes && a.paid != 0;
            if (!is_idle || asked_ == but || heap->parking[asked_].count != 0) continue;
            returns((size_t)a.paid * sizeclass_bytes(asked_));
            a.paid = a.takes = 0;
            a.is_later = false;
            gave_up++;
            return true;
        }
        return false;
    }
    bool pays_for(uint32_t c, uint32_t blocks)
    {
        ClassSaid &a = of[c];
        uint32_t &broke = broke_[a.wants_again];
        if (blocks > a.paid) {
            if (broke > 0) return broke--, false;
            const size_t bytes = (size_t)(blocks - a.paid) * sizeclass_bytes(c);
            const bool has = buys(bytes, a.wants_again) || (a.wants_again && one_gives_up(c) && buys(bytes, true));
            if (!has) return broke = BROKE_TRIES, false;
            a.paid = blocks;
        }
        a.is_later = false;
        return true;
    }
};

class CreditLaw : public test::HeapTest {
  protected:
    static constexpr uint32_t STEPS_OF_CLASS =
        3; // 38 classes: together their credits may cost more than a heap may buy
    struct heap heap_ = {};
    struct tcache self_ = {};
    CreditsSaid said_;
    test::Rng rng_;
    size_t others_ = 0;
    size_t busy_ = 0; // how many classes are in use at this time
    bool is_calm_ = false;

    void SetUp() override
    {
        HeapTest::SetUp();
        hak_purge_all();
        self_.heap = &heap_;
        said_.heap = &heap_;
        for (uint32_t c = 1; c < CLASS_COUNT; c += STEPS_OF_CLASS) said_.of[c].credit = sizeclass_credit(c);
        said_.others = purse_bought_bytes();
        tcache_fill_credits(&self_);
        said_.is_taken();
    }
    void TearDown() override
    {
        heap_credits_pay_back(&heap_);
        purse_return(&others_, SIZE_MAX);
        HeapTest::TearDown();
    }
    void used_change(uint32_t c, uint32_t by) // negated: they come back
    {
        heap_.owner.blocks[c].room -= by;
        owner_used_bytes_set(&heap_.owner, owner_used_bytes(&heap_.owner) + (size_t)(int32_t)by * sizeclass_bytes(c));
        said_.of[c].used += by;
    }
    void leave(size_t bytes) // to be bought
    {
        purse_return(&others_, SIZE_MAX);
        const size_t most = purse_bytes_max(), all = purse_bought_bytes() + bytes;
        if (most > all) purse_buy(&others_, most - all, true);
        said_.others = purse_bought_bytes() - heap_.owner.bought_bytes;
    }
    void refill(uint32_t c)
    {
        used_change(c, 1 + (uint32_t)rng_.below(said_.of[c].credit));
        if ((int32_t)heap_.owner.blocks[c].room < 0) {
            credit_outgrown(&self_, c);
            said_.outgrows(c);
        }
    }
    void park(uint32_t c)
    {
        parking &at = heap_.parking[c];
        ClassSaid &a = said_.of[c];
        self_.credits[c] = a.takes = 0; // the bin is full
        if (!said_.is_paid(c)) said_.pays(c), credit_pay(&self_, c);
        ASSERT_EQ(credit_is_paid(&heap_, c), said_.is_paid(c)) << "class " << c;
        if (said_.is_paid(c) && at.count < sizeclass_magazines(c, a.credit)) {
            ASSERT_TRUE(heap_has_room(&heap_, c));
            at.count++;
        } else { // the list goes back
            ASSERT_FALSE(heap_has_room(&heap_, c));
            const uint32_t back = std::min(a.used, a.credit);
            used_change(c, -back);
            at.gave_back = a.gave_back = true;
            if (a.overflows < OVERFLOWS_MAX) at.overflows = (uint8_t)++a.overflows;
        }
        self_.credits[c] = heap_credit_now(&heap_, c);
        a.takes = said_.takes_now(c);
    }
    void take_parked(uint32_t c)
    {
        parking &at = heap_.parking[c];
        if (at.count == 0) return;
        at.count--;
        at.overflows = 0;
        if (!parking_is_grown(&at)) credit_grow(&self_, c);
        said_.wanted(c);
    }
    // Money for most or for little, rounds of many classes or of three, and for some time none of what was learned is forgotten.
    void begin_time(int number)
    {
        busy_ = number % 2 == 0 ? said_.of.size() : 3;
        leave(number % 4 < 2 ? 64 * test::MIB : (size_t)1 << rng_.below(24));
        is_calm_ = number % 8 < 4;
        for (auto &[c, a] : said_.of)
            if (rng_.below(2) == 0) heap_.parking[c].count = 0; // its lists went back
    }
    void step()
    {
        const uint32_t c = 1 + STEPS_OF_CLASS * (uint32_t)rng_.below(busy_);
        ClassSaid &a = said_.of[c];
        if (rng_.below(16) == 0) pool_tick_force();
        if (rng_.below(8) == 0) heap_.broke[0] = heap_.broke[1] = 0, said_.tries_again();
        switch (rng_.below(is_calm_ ? 33 : 40)) {
        default: return refill(c);
        case 12 ... 21: return park(c);
        case 22 ... 26: return take_parked(c);
        case 27 ... 29: return used_change(c, -(uint32_t)rng_.below(a.used + 1));
        case 30 ... 31: // frees that the bin takes
            self_.credits[c] = a.takes -= (uint32_t)rng_.below(a.takes + 1);
            return;
        case 32 ... 34: return leave((size_t)1 << rng_.below(26));
        case 35: // lists that were parked went back
            heap_.parking[c].count = 0;
            return;
        case 36: // a visit
            heap_credits_decay(&heap_);
            return said_.idles();
        case 37: // the thread ends, once or twice, and another takes the heap
            for (uint64_t ends = rng_.below(2); ends <= 1; ends++) heap_credits_rest(&heap_), said_.rests();
            if (rng_.below(2) == 0) leave(1 << 12);
            tcache_fill_credits(&self_);
            return said_.is_taken();
        case 38: // it shrinks
            if (rng_.below(8) != 0) return;
            tcache_return_credits(&self_);
            said_.pays_back();
            for (auto &[each, of] : said_.of) of.takes = 0;
            return;
        case 39: // an orphan is flushed, and taken
            heap_credits_pay_back(&heap_);
            heap_credits_decay(&heap_);
            said_.pays_back();
            said_.idles();
            tcache_fill_credits(&self_);
            return said_.is_taken();
        }
    }
    void check()
    {
        size_t paid_bytes = 0;
        for (auto &[c, a] : said_.of) {
            const parking &at = heap_.parking[c];
            const std::array<uint32_t, 11> is = {parking_credit(&at),
                                                 parking_is_grown(&at),
                                                 at.count_max,
                                                 at.paid,
                                                 at.overflows,
                                                 at.gave_back,
                                                 at.wants_again,
                                                 owner_used_blocks(&heap_.owner, c),
                                                 credit_is_paid(&heap_, c),
                                                 heap_credit_now(&heap_, c),
                                                 self_.credits[c]};
            const std::array<uint32_t, 11> said = {a.credit,
                                                   a.is_at_most,
                                                   sizeclass_magazines(c, a.credit),
                                                   a.paid,
                                                   a.overflows,
                                                   a.gave_back,
                                                   a.wants_again,
                                                   a.used,
                                                   said_.is_paid(c),
                                                   said_.takes_now(c),
                                                   a.takes};
            ASSERT_EQ(is, said) << "class " << c
                                << ": its credit, whether that is the most, lists, paid, overflows, gave "
                                   "back, wants again, in use, is paid, takes now, what is left of it";
            paid_bytes += (size_t)a.paid * sizeclass_bytes(c);
        }
        ASSERT_EQ(heap_.owner.bought_bytes, said_.bought);
        ASSERT_EQ(paid_bytes, said_.bought) << "law 10";
        ASSERT_EQ(purse_bought_bytes(), said_.others + said_.bought);
    }
};

} // namespace

TEST_F(CreditLaw, WhatABinTakesIsWhatItsClassHasPaidFor)
{
    for (int i = 0; i < 32000; i++) {
        if (i % 2000 == 0) begin_time(i / 2000);
        step();
        check();
        if (HasFatalFailure()) FAIL() << "at step " << i;
    }
    EXPECT_GT(said_.beyond_share, 10u);
    EXPECT_GT(said_.gave_up, 10u);
}
