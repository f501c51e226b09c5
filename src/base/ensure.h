// What must hold whatever came from outside. Where it does not, the program itself is wrong and its memory cannot be
// trusted: it says what and where on standard error and aborts, in a release build too. Never for what a peer, a
// client, a file or an operator can cause: those are errors (base/expected.h). In loops that bound throughput use
// assert().
#pragma once

#include <string_view>
#include <type_traits>

namespace quern {

// Says what was to hold and where, then aborts.
[[noreturn]] void broken_invariant(std::string_view what, const char* file, int line);

inline void ensure(bool holds, std::string_view what, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
    if (!holds) [[unlikely]]
        broken_invariant(what, file, line);
}

// total -= part, of a sum of what is held: below zero it would wrap, and the limit that it is compared with would be
// off.
template <class Total>
void deduct(Total& total, std::type_identity_t<Total> part, const char* file = __builtin_FILE(),
            int line = __builtin_LINE()) {
    static_assert(std::is_unsigned_v<Total>);
    ensure(part <= total, "no more is given back than was taken", file, line);
    total -= part;
}

}  // namespace quern
