// How a program ends that the system gives no more memory. Used by src/bin only; main thread.
#pragma once

#include <new>

#include "bin/terminal.h"

namespace quern {

// What `run` returns; where memory ends, a message with a name.
template <class Run>
int with_memory_named(const char* program, const Run& run) {
    try {
        return run();
    } catch (const std::bad_alloc&) {
        return complain(program, Error{"memory.exhausted", "the system gives no more", {}});
    }
}

}  // namespace quern
