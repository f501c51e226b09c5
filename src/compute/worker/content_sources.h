// Where contents may come from that no node serves, as an interface: what InputStore asks. Thread-safe.
#pragma once

#include <optional>

#include "chain/types/native_objects.h"

namespace quern::compute::worker {

enum class Duty : bool { bound, voluntary };  // voluntary work leaves half of the memory to what the worker answers for

struct WantedContent {
    Hash32 id;
    std::optional<std::uint64_t> size;  // known beforehand
    std::uint64_t max_bytes = 0;        // else
    bool is_only_data = false;          // the one data tensor of its task
};

class ContentSources {
public:
    virtual ~ContentSources() = default;
    // Whether it is being fetched for this task, or will be: the node has it later, or not. False: nothing more is to
    // be expected for now.
    [[nodiscard]] virtual bool fetches(const chain::types::Task& task, const WantedContent& content, Duty duty) = 0;
};

}  // namespace quern::compute::worker
