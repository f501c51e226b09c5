#include "base/ensure.h"

#include <cstdio>
#include <cstdlib>

namespace quern {

void broken_invariant(std::string_view what, const char* file, int line) {
    std::fprintf(stderr, "broken invariant: %.*s (%s, line %d)\n", static_cast<int>(what.size()), what.data(), file,
                 line);
    std::abort();
}

}  // namespace quern
