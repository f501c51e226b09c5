#include "base/machine_memory.h"

#include <unistd.h>

#include <string>

namespace quern {
inline namespace base {

std::uint64_t machine_memory() {
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page = ::sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0) return ~std::uint64_t{0};
    return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
}

Status check_memory(std::uint64_t needed, std::uint64_t memory) {
    if (needed <= memory) return {};
    constexpr std::uint64_t kMib = 1U << 20;
    return fail("memory.too_little", std::to_string((needed - 1) / kMib + 1) + " MiB are needed, there are " +
                                         std::to_string(memory / kMib));
}

}  // namespace base
}  // namespace quern
