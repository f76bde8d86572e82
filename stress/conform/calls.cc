#include "conform/calls.h"

#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <type_traits>

namespace stress::conform {
namespace {

constexpr std::size_t kArgumentsMax = 3;
constexpr std::uint32_t kSlots = 1024;  // threads take turns, so a slot is used again when its thread has long ended

enum class Kind : std::uint8_t { None, Size, Pointer, Number };

// A slot belongs to one thread, which alone writes it. The runner may read it at any time: a record that is a call off
// is better than none.
struct alignas(128) Call {
    std::atomic<pid_t> thread;
    std::atomic<bool> inside;
    Kind kinds[kArgumentsMax], result_kind;
    const char *symbol;
    std::uintptr_t arguments[kArgumentsMax], result;
    std::atomic<std::uint64_t> finished;
};

}  // namespace

struct CallTable {
    std::atomic<std::uint32_t> next;
    Call calls[kSlots];
};

namespace {

CallTable *table_now;
thread_local Call *call_of_this_thread __attribute__((tls_model("initial-exec")));

Call *my_call()
{
    if (call_of_this_thread == nullptr && table_now != nullptr) {
        Call *call = &table_now->calls[table_now->next.fetch_add(1, std::memory_order_relaxed) % kSlots];
        call->thread.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
        call->inside.store(false, std::memory_order_relaxed);
        call->symbol = nullptr;
        call_of_this_thread = call;
    }
    return call_of_this_thread;
}

template <typename T> constexpr Kind kind_of()
{
    return std::is_pointer_v<T> ? Kind::Pointer : std::is_signed_v<T> ? Kind::Number : Kind::Size;
}

template <typename T> std::uintptr_t word_of(T value)
{
    if constexpr (std::is_pointer_v<T>) return reinterpret_cast<std::uintptr_t>(value);
    else return static_cast<std::uintptr_t>(value);
}

// Ends the record also where operator new throws.
class Recording {
  public:
    template <typename... A> Recording(const char *symbol, A... arguments) : call_(my_call())
    {
        if (call_ == nullptr) return;
        call_->symbol = symbol;
        call_->result_kind = Kind::None;
        std::size_t i = 0;
        ((call_->kinds[i] = kind_of<A>(), call_->arguments[i] = word_of(arguments), ++i), ...);
        for (; i < kArgumentsMax; ++i) call_->kinds[i] = Kind::None;
        call_->inside.store(true, std::memory_order_release);
    }
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;
    ~Recording()
    {
        if (call_ == nullptr) return;
        call_->inside.store(false, std::memory_order_relaxed);
        call_->finished.store(call_->finished.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    template <typename R> void gave(R result)
    {
        if (call_ == nullptr) return;
        call_->result_kind = kind_of<R>();
        call_->result = word_of(result);
    }

  private:
    Call *call_;
};

template <typename Tag, typename Function> struct Recorded;
template <typename Tag, typename R, typename... A> struct Recorded<Tag, R (*)(A...)> {
    static inline R (*real)(A...);
    static R call(A... arguments)
    {
        Recording recording(Tag::text(), arguments...);
        if constexpr (std::is_void_v<R>) {
            real(arguments...);
        } else {
            const R result = real(arguments...);
            recording.gave(result);
            return result;
        }
    }
};

template <typename Tag, typename Function> void intercept(Function &member)
{
    if (member == nullptr) return;
    Recorded<Tag, Function>::real = member;
    member = Recorded<Tag, Function>::call;
}

std::string word_text(Kind kind, std::uintptr_t word)
{
    if (kind == Kind::Pointer) return word == 0 ? "NULL" : fmt::format("{:#x}", word);
    if (kind == Kind::Number) return fmt::format("{}", static_cast<long>(word));
    return word > SIZE_MAX / 2 ? fmt::format("{:#x}", word) : fmt::format("{}", word);
}

// "operator new[]" for "_Znam".
std::string name_text(const std::string &symbol)
{
    if (!symbol.starts_with("_Z") || symbol.size() < 4) return symbol;
    return std::string("operator ") + (symbol[2] == 'n' ? "new" : "delete") + (symbol[3] == 'a' ? "[]" : "");
}

std::string call_text(const Call &call)
{
    std::string text = name_text(call.symbol) + "(";
    for (std::size_t i = 0; i < kArgumentsMax && call.kinds[i] != Kind::None; ++i)
        text += (i > 0 ? ", " : "") + word_text(call.kinds[i], call.arguments[i]);
    return text + ")";
}

}  // namespace

std::size_t call_table_bytes()
{
    return sizeof(CallTable);
}

void calls_record(CallTable *table)
{
    table_now = table;
    call_of_this_thread = nullptr;
}

void calls_after_fork()
{
    call_of_this_thread = nullptr;
}

void calls_intercept(Subject &subject){
#define STRESS_CONFORM_INTERCEPT(member, name, result, parameters) \
    struct tag_##member {                                          \
        static constexpr const char *text()                        \
        {                                                          \
            return name;                                           \
        }                                                          \
    };                                                             \
    intercept<tag_##member>(subject.member);
    STRESS_CONFORM_ENTRIES(STRESS_CONFORM_INTERCEPT) STRESS_CONFORM_OPERATORS(STRESS_CONFORM_INTERCEPT)
#undef STRESS_CONFORM_INTERCEPT
}

std::uint64_t calls_finished(const CallTable &table)
{
    std::uint64_t finished = 0;
    for (const Call &call : table.calls) finished += call.finished.load(std::memory_order_relaxed);
    return finished;
}

std::string call_of_thread(const CallTable &table, pid_t thread)
{
    for (const Call &call : table.calls) {
        if (call.thread.load(std::memory_order_relaxed) != thread || call.symbol == nullptr) continue;
        if (call.inside.load(std::memory_order_acquire)) return "in " + call_text(call);
        return "after " + call_text(call) +
               (call.result_kind == Kind::None ? "" : ", which gave " + word_text(call.result_kind, call.result));
    }
    return "";
}

std::vector<std::string> calls_in_hand(const CallTable &table, const Processes &processes)
{
    std::vector<std::string> lines;
    for (const Call &call : table.calls) {
        const pid_t thread = call.thread.load(std::memory_order_relaxed);
        if (thread != 0 && call.inside.load(std::memory_order_acquire) && tree_has_thread(processes, thread))
            lines.push_back(fmt::format("thread {} is in {}", thread, call_text(call)));
    }
    return lines;
}

}  // namespace stress::conform
