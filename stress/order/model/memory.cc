#include "order/model/memory.h"

#include <algorithm>
#include <cstring>

namespace stress::order {
namespace {

constexpr unsigned kGranuleBytes = 16; // the largest atomic object; one is never in two granules

std::uint64_t mix(std::uint64_t hash, std::uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
    return hash ^ (hash >> 29);
}

std::uint64_t code(Event event)
{
    return std::uint64_t{event.thread} << 32 | event.number;
}

Value low_bytes(unsigned bytes)
{
    return bytes >= sizeof(Value) ? ~Value{0} : (Value{1} << 8 * bytes) - 1;
}

} // namespace

Value Memory::updated(Update kind, Value old, Value operand)
{
    switch (kind) {
    case Update::exchange: return operand;
    case Update::add: return old + operand;
    case Update::sub: return old - operand;
    case Update::conj: return old & operand;
    case Update::disj: return old | operand;
    case Update::exclusive: return old ^ operand;
    case Update::nand: return ~(old & operand);
    }
    return old;
}

void Memory::clear()
{
    for (Thread &thread : threads_) thread = {};
    serial_.clear();
    granules_.clear();
    locations_digest_ = 0;
    mixed_sizes_ = 0;
}

void Memory::begin_thread(unsigned parent, unsigned child)
{
    Clock &clock = threads_[parent].clock;
    clock.last[parent]++;
    threads_[child].clock.join(clock);
}

void Memory::join_thread(unsigned joiner, unsigned ended)
{
    threads_[ended].clock.last[ended]++; // its last plain accesses are part of this event
    threads_[joiner].clock.join(threads_[ended].clock);
    threads_[joiner].clock.last[joiner]++;
}

void Memory::acquire(unsigned thread, const Clock &from)
{
    Thread &self = threads_[thread];
    self.clock.last[thread]++;
    self.clock.join(from);
    for (const std::uint32_t number : from.last) self.digest = mix(self.digest, number);
}

void Memory::release(unsigned thread, Clock &to)
{
    threads_[thread].clock.last[thread]++;
    to.join(threads_[thread].clock);
}

std::unique_ptr<Memory::Location> Memory::fresh(std::uintptr_t start, unsigned bytes)
{
    auto location = std::make_unique<Location>();
    location->start = start;
    location->bytes = bytes;
    Store &first = location->stores.emplace_back();
    std::memcpy(&first.value, reinterpret_cast<const void *>(start), bytes);
    location->line.push_back(0);
    return location;
}

Memory::Location &Memory::locate(std::uintptr_t start, unsigned bytes)
{
    auto &inside = granules_[start / kGranuleBytes];
    std::uintptr_t from = start, to = start + bytes;
    bool overlaps = false;
    for (auto &location : inside) {
        const std::uintptr_t end = location->start + location->bytes;
        if (location->start <= start && to <= end && (location->is_mixed || location->bytes == bytes)) return *location;
        if (end <= from || to <= location->start) continue;
        overlaps = true;
        from = std::min(from, location->start);
        to = std::max(to, end);
    }
    if (!overlaps) return *inside.emplace_back(fresh(start, bytes));

    // A size that these bytes did not have: one location from now on, which begins with what is in memory. All that the old
    // ones released comes with it, so that no order is lost.
    auto merged = fresh(from, static_cast<unsigned>(to - from));
    merged->is_mixed = true;
    std::erase_if(inside, [&](const auto &old) {
        if (old->start + old->bytes <= from || to <= old->start) return false;
        for (const Store &store : old->stores) merged->stores[0].releases.join(store.releases);
        locations_digest_ ^= old->digest;
        return true;
    });
    mixed_sizes_++;
    return *inside.emplace_back(std::move(merged));
}

void Memory::forget(const volatile void *address, std::size_t bytes)
{
    if (granules_.empty() || bytes == 0) return;
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    auto drop = [&](std::vector<std::unique_ptr<Location>> &inside) {
        std::erase_if(inside, [&](const auto &old) {
            if (old->start + old->bytes <= start || start + bytes <= old->start) return false;
            locations_digest_ ^= old->digest;
            return true;
        });
    };
    const std::uintptr_t first = start / kGranuleBytes, last = (start + bytes - 1) / kGranuleBytes;
    if (last - first > granules_.size()) {
        for (auto &[granule, inside] : granules_)
            if (granule >= first && granule <= last) drop(inside);
        return;
    }
    for (std::uintptr_t granule = first; granule <= last; ++granule)
        if (const auto found = granules_.find(granule); found != granules_.end()) drop(found->second);
}

Memory::Plan Memory::plan(unsigned thread, const volatile void *address, unsigned bytes)
{
    threads_[thread].clock.last[thread]++;
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    Location &location = locate(start, bytes);
    const auto offset = static_cast<unsigned>(start - location.start);
    const auto mask = static_cast<std::uint32_t>((1U << bytes) - 1) << offset;
    return {thread, &location, mask, offset * 8, bytes, threads_[thread].clock};
}

// Coherence: the last store, in modification order, that an event which happens before has read or written.
unsigned Memory::floor(const Location &location, const Clock &clock)
{
    unsigned rank = 0; // from the newest on: it often has the last store, and then nothing is behind that
    for (auto i = location.accesses.size(); i > 0 && rank + 1 < location.line.size(); --i)
        if (const Access &access = location.accesses[i - 1]; clock.has(access.event))
            rank = std::max(rank, location.stores[access.store].rank);
    return rank;
}

// The store whose value a read at this place gets: in a location of mixed sizes, the last that wrote any of its bytes.
const Memory::Store &Memory::source(const Plan &plan, unsigned rank) const
{
    const Location &location = *plan.location;
    while (rank > 0 && (location.stores[location.line[rank]].bytes_written & plan.mask) == 0) --rank;
    return location.stores[location.line[rank]];
}

Value Memory::extract(const Plan &plan, unsigned rank) const
{
    return plan.location->stores[plan.location->line[rank]].value >> plan.shift & low_bytes(plan.bytes);
}

Clock Memory::after(const Plan &plan, unsigned rank, Order order) const
{
    Clock clock = plan.before;
    if (acquires(order)) clock.join(source(plan, rank).releases);
    return clock;
}

bool Memory::is_followed(const Location &location, unsigned rank)
{
    return rank + 1 < location.line.size() && location.stores[location.line[rank + 1]].is_update;
}

bool Memory::allows(const Plan &plan, Option option, Order order, bool reads) const
{
    if (serial_.is_empty()) return true;
    const Clock clock = reads ? after(plan, option.rank, order) : plan.before;
    return serial_.allows(edges(plan, clock, option, order));
}

unsigned Memory::choose(Choice kind, std::size_t count)
{
    return count < 2 ? 0 : choices_->choose(kind, static_cast<unsigned>(count), false);
}

void Memory::record(const Plan &plan, Option option, Order order, unsigned store,
                    const std::vector<Serial::Edge> &edges)
{
    const Clock &clock = threads_[plan.thread].clock;
    Access access{
        {plan.thread, clock.last[plan.thread]}, store, option.is_write, order == Order::seq_cst, 0, {}, clock};
    serial_.touch(plan.thread, access.event.number, plan.location->start);
    if (access.is_serial) {
        access.node = serial_.next();
        serial_.add({access.event, false, plan.location->start, clock, 0}, edges);
    } else {
        serial_.add(edges);
    }
    serial_.fences_before(clock, access.fences);
    plan.location->accesses.push_back(std::move(access));
    finish(plan.thread, plan.location->start);
}

// The thread's event at this location is done.
void Memory::finish(unsigned thread, std::uintptr_t location)
{
    Thread &self = threads_[thread];
    if (self.last_location != location) self.elsewhere = self.last_clock;
    self.last_location = location;
    self.last_clock = self.clock;
}

void Memory::plain(unsigned thread, const volatile void *address)
{
    const auto location = reinterpret_cast<std::uintptr_t>(address);
    serial_.touch(thread, upcoming(thread).number, location);
    finish(thread, location);
}

// Takes what the read acquires. The caller records the access.
Seen Memory::do_read(const Plan &plan, unsigned rank, Order order)
{
    const Store &store = source(plan, rank);
    Thread &thread = threads_[plan.thread];
    if (acquires(order)) thread.clock.join(store.releases);
    thread.pending.join(store.releases);
    const auto newer = static_cast<unsigned>(plan.location->line.size() - 1 - rank);
    return {extract(plan, rank), store.event, newer, false, 0};
}

// Writes behind the store of this rank. `read`: a read-modify-write's, whose release sequence continues.
void Memory::do_write(const Plan &plan, unsigned rank, Value value, Order order, const Store *read, Seen &seen)
{
    Location &location = *plan.location;
    Thread &thread = threads_[plan.thread];
    Store store;
    const Value bits = low_bytes(plan.bytes) << plan.shift;
    store.value = (location.stores[location.line[rank]].value & ~bits) | (value << plan.shift & bits);
    store.event = {plan.thread, thread.clock.last[plan.thread]};
    store.rank = rank + 1;
    store.is_update = read != nullptr;
    store.bytes_written = plan.mask;
    store.releases = releases(order) ? thread.clock : thread.fenced;
    if (rules_.own_stores_release) {
        location.own_releases.resize(kThreadsMax);
        Clock &own = location.own_releases[plan.thread];
        store.releases.join(own);
        own = store.releases;
    }
    if (read != nullptr) store.releases.join(read->releases);
    for (std::size_t i = rank + 1; i < location.line.size(); ++i) location.stores[location.line[i]].rank++;
    location.line.insert(location.line.begin() + rank + 1, static_cast<unsigned>(location.stores.size()));
    location.stores.push_back(store);
    seen.wrote = true;
    seen.before = static_cast<unsigned>(location.line.size() - 2 - rank);
    if (seen.before == 0) std::memcpy(reinterpret_cast<void *>(location.start + plan.shift / 8), &value, plan.bytes);
    digest_location(location);
}

Seen Memory::load(unsigned thread, const volatile void *address, unsigned bytes, Order order)
{
    const Plan access = plan(thread, address, bytes);
    std::vector<Option> options;
    const auto last = static_cast<unsigned>(access.location->line.size() - 1);
    const unsigned lowest = rules_.is_weak ? floor(*access.location, access.before) : last;
    for (unsigned rank = last + 1; rank-- > lowest;)
        if (rank == last || allows(access, {rank, false}, order, true)) options.push_back({rank, false});
    const Option option = options[choose(Choice::read, options.size())];
    const auto demanded = edges(access, after(access, option.rank, order), option, order);
    const Seen seen = do_read(access, option.rank, order);
    record(access, option, order, access.location->line[option.rank], demanded);
    note(thread, 1 + static_cast<unsigned>(order), seen);
    return seen;
}

// The stores that a write may follow, the last one first.
std::vector<Memory::Option> Memory::places(const Plan &access, Order order, bool reads) const
{
    const Location &location = *access.location;
    const auto last = static_cast<unsigned>(location.line.size() - 1);
    std::vector<Option> options{{last, true}};
    const unsigned lowest = rules_.is_weak && !location.is_mixed ? floor(location, access.before) : last;
    for (unsigned rank = last; rank-- > lowest;)
        if (!is_followed(location, rank) && allows(access, {rank, true}, order, reads)) options.push_back({rank, true});
    return options;
}

Seen Memory::store(unsigned thread, volatile void *address, unsigned bytes, Value value, Order order)
{
    const Plan access = plan(thread, address, bytes);
    const auto options = places(access, order, false);
    const Option option = options[choose(Choice::place, options.size())];
    const auto demanded = edges(access, access.before, option, order);
    Seen seen{value, {}, 0, true, 0};
    do_write(access, option.rank, value, order, nullptr, seen);
    record(access, option, order, access.location->line[option.rank + 1], demanded);
    note(thread, 17 + static_cast<unsigned>(order), seen);
    return seen;
}

Seen Memory::update(unsigned thread, volatile void *address, unsigned bytes, Update kind, Value operand, Order order)
{
    const Plan access = plan(thread, address, bytes);
    const auto options = places(access, order, true);
    const Option option = options[choose(Choice::read, options.size())];
    const auto demanded = edges(access, after(access, option.rank, order), option, order);
    Seen seen = do_read(access, option.rank, order);
    const Store read = source(access, option.rank);
    const Value written = updated(kind, seen.value, operand) & low_bytes(bytes);
    do_write(access, option.rank, written, order, &read, seen);
    record(access, option, order, access.location->line[option.rank + 1], demanded);
    note(thread, 33 + static_cast<unsigned>(order), seen);
    return seen;
}

Seen Memory::compare_exchange(unsigned thread, volatile void *address, unsigned bytes, Value expected, Value desired,
                              bool is_weak, Order success, Order failure)
{
    const Plan access = plan(thread, address, bytes);
    std::vector<Option> options;
    const auto last = static_cast<unsigned>(access.location->line.size() - 1);
    const unsigned lowest = rules_.is_weak ? floor(*access.location, access.before) : last;
    for (unsigned rank = last + 1; rank-- > lowest;) {
        const bool is_equal = extract(access, rank) == expected;
        const bool is_stuck = access.location->is_mixed && rank != last;
        if (is_equal && !is_stuck && !is_followed(*access.location, rank) &&
            allows(access, {rank, true}, success, true))
            options.push_back({rank, true});
        if ((!is_equal || (is_weak && rules_.is_weak)) && allows(access, {rank, false}, failure, true))
            options.push_back({rank, false});
    }
    const Option option = options[choose(Choice::read, options.size())];
    const Order order = option.is_write ? success : failure;
    const auto demanded = edges(access, after(access, option.rank, order), option, order);
    Seen seen = do_read(access, option.rank, order);
    if (option.is_write) {
        const Store read = source(access, option.rank);
        do_write(access, option.rank, desired, order, &read, seen);
    }
    const unsigned touched = access.location->line[option.rank + (option.is_write ? 1 : 0)];
    record(access, option, order, touched, demanded);
    note(thread, 49 + static_cast<unsigned>(order), seen);
    return seen;
}

void Memory::fence(unsigned thread, Order order)
{
    Thread &self = threads_[thread];
    self.clock.last[thread]++;
    if (acquires(order)) self.clock.join(self.pending);
    if (releases(order)) self.fenced = self.clock;
    self.digest = mix(self.digest, 65 + static_cast<unsigned>(order));
    serial_.touch(thread, self.clock.last[thread], 0);
    if (order == Order::seq_cst) {
        std::vector<Serial::Edge> edges;
        serial_.precede_fence(thread, self.clock, edges);
        for (const auto &[granule, inside] : granules_)
            for (const auto &location : inside) demand_of_fence(*location, self.clock, edges);
        serial_.add({{thread, self.clock.last[thread]}, true, 0, self.clock, 0}, edges);
    }
    finish(thread, 0);
}

void Memory::note(unsigned thread, std::uint64_t what, const Seen &seen)
{
    std::uint64_t &digest = threads_[thread].digest;
    digest = mix(digest, what);
    digest = mix(digest, static_cast<std::uint64_t>(seen.value) ^ static_cast<std::uint64_t>(seen.value >> 64) << 1);
    digest = mix(digest, code(seen.from) << 1 | (seen.wrote ? 1 : 0));
}

void Memory::digest_location(Location &location)
{
    const bool is_last = location.digest != 0 && location.line.back() + 1 == location.stores.size();
    std::uint64_t digest = is_last ? location.digest : mix(0, location.start);
    for (auto store = is_last ? location.line.end() - 1 : location.line.begin(); store != location.line.end(); ++store)
        digest = mix(digest, code(location.stores[*store].event));
    locations_digest_ ^= std::exchange(location.digest, digest) ^ digest;
}

std::uint64_t Memory::threads_digest() const
{
    std::uint64_t digest = 0;
    for (unsigned i = 0; i < kThreadsMax; ++i) digest = mix(mix(digest, threads_[i].digest), threads_[i].clock.last[i]);
    return digest;
}

} // namespace stress::order
