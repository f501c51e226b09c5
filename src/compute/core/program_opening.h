// Openings of single leaves of a step program under its root: how the chain learns one node or update without ever
// seeing the whole program. Used by the dispute game, by challenges of probes and by workers. Pure functions;
// thread-safe.
#pragma once

#include "chain/types/fields.h"
#include "vm/tensor/graph.h"

namespace quern::compute::core {

inline constexpr std::size_t kMaxOpeningBytes = 128;  // the longest node has less

// A node's or update's bytes (its RLP, graph.h) and its path under program_root.
struct ProgramOpening {
    std::uint64_t index = 0;  // of the node, or of the slot that is updated
    Bytes bytes;
    std::vector<Hash32> path;
    QUERN_FIELDS(v("index", index), v("bytes", bytes), v("path", path))
};

// The opened node, or the number of the node that updates the slot. `header` must have been proven under
// `program_root`. Errors: dispute.bad_opening (also when the bytes do not decode: a program with such a leaf is no
// program).
[[nodiscard]] Expected<std::uint32_t> open_update(const Hash32& program_root, const vm::tensor::ProgramHeader& header,
                                                  const ProgramOpening& opening);
[[nodiscard]] Expected<vm::tensor::Node> open_node(const Hash32& program_root, const vm::tensor::ProgramHeader& header,
                                                   const ProgramOpening& opening);
// Whether it is the program's header (task_submit). Error: task.bad_header_path.
[[nodiscard]] Status check_header_path(const Hash32& program_root, const vm::tensor::ProgramHeader& header,
                                       std::span<const Hash32> path);

// Makes openings of one program; hashes its leaves once.
class ProgramProver {
public:
    // `program` must be valid and outlive the prover.
    explicit ProgramProver(const vm::tensor::Program& program);
    [[nodiscard]] const Hash32& root() const { return root_; }
    [[nodiscard]] std::vector<Hash32> header_path() const;
    [[nodiscard]] ProgramOpening update(std::uint64_t slot) const;  // in range
    [[nodiscard]] ProgramOpening node(std::uint64_t index) const;

private:
    const vm::tensor::Program& program_;
    std::vector<Hash32> leaves_;
    Hash32 root_;
};

}  // namespace quern::compute::core
