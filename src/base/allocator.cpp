#include "base/allocator.h"

#include <cstdlib>  // defines __GLIBC__

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace quern {
inline namespace base {

bool keep_freed_memory() {
#ifdef __GLIBC__
    return mallopt(M_TRIM_THRESHOLD, static_cast<int>(kKeptBytes)) == 1 &&
           mallopt(M_MMAP_THRESHOLD, static_cast<int>(kLargeBytes)) == 1;
#else
    return false;
#endif
}

}  // namespace base
}  // namespace quern
