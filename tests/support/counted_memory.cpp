#include "support/counted_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> held{0};
std::atomic<std::size_t> peak{0};

}  // namespace

// The other forms of new and delete, without alignment, call these two.
void* operator new(std::size_t size) {
    void* const memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) throw std::bad_alloc();
    const std::size_t now = held += malloc_usable_size(memory);
    std::size_t most = peak;
    while (now > most && !peak.compare_exchange_weak(most, now)) {
    }
    return memory;
}

// A sanitizer has a form of its own of this one, whose memory the delete below would not know.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    try {
        return operator new(size);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void operator delete(void* memory) noexcept {
    if (memory != nullptr) held -= malloc_usable_size(memory);
    std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace quern::test {

std::size_t counted_memory() { return held; }
void mark_counted_memory() { peak = held.load(); }
std::size_t peak_of_counted_memory() { return peak; }

}  // namespace quern::test
