#include "compute/core/program_opening.h"

#include "crypto/merkle.h"

namespace quern::compute::core {

using crypto::MerkleTag;
using vm::tensor::Node;
using vm::tensor::Program;
using vm::tensor::ProgramHeader;

namespace {

Status check_leaf(const Hash32& program_root, const ProgramHeader& header, const ProgramOpening& opening,
                  std::uint64_t leaf_index) {
    if (opening.bytes.size() > kMaxOpeningBytes) return fail("dispute.bad_opening", "the leaf is too long");
    if (const Status status =
            crypto::check_list_path(MerkleTag::program, program_root, crypto::merkle_leaf(opening.bytes), leaf_index,
                                    vm::tensor::program_leaf_count(header), opening.path);
        !status)
        return fail("dispute.bad_opening", status.error().to_string());
    return {};
}

}  // namespace

Expected<std::uint32_t> open_update(const Hash32& program_root, const ProgramHeader& header,
                                    const ProgramOpening& opening) {
    if (opening.index >= header.slot_count) return fail("dispute.bad_opening", "there is no such slot");
    QUERN_CHECK(check_leaf(program_root, header, opening, vm::tensor::update_leaf_index(header, opening.index)));
    Expected<std::uint32_t> node = vm::tensor::decode_update(opening.bytes);
    if (!node) return fail("dispute.bad_opening", node.error().to_string());
    return node;
}

Expected<Node> open_node(const Hash32& program_root, const ProgramHeader& header, const ProgramOpening& opening) {
    if (opening.index >= header.node_count) return fail("dispute.bad_opening", "there is no such node");
    QUERN_CHECK(check_leaf(program_root, header, opening, vm::tensor::node_leaf_index(opening.index)));
    Expected<Node> node = vm::tensor::decode_node(opening.bytes);
    if (!node) return fail("dispute.bad_opening", node.error().to_string());
    return node;
}

Status check_header_path(const Hash32& program_root, const ProgramHeader& header, std::span<const Hash32> path) {
    if (const Status status =
            crypto::check_list_path(MerkleTag::program, program_root, crypto::merkle_leaf(vm::tensor::encode(header)),
                                    vm::tensor::header_leaf_index(), vm::tensor::program_leaf_count(header), path);
        !status)
        return fail("task.bad_header_path", status.error().to_string());
    return {};
}

ProgramProver::ProgramProver(const Program& program)
    : program_(program),
      leaves_(vm::tensor::program_leaves(program)),
      root_(crypto::list_id_of(MerkleTag::program, leaves_)) {}

std::vector<Hash32> ProgramProver::header_path() const {
    return crypto::merkle_path(leaves_, vm::tensor::header_leaf_index());
}

ProgramOpening ProgramProver::update(std::uint64_t slot) const {
    return {slot, vm::tensor::encode_update(program_.updates[slot]),
            crypto::merkle_path(leaves_, vm::tensor::update_leaf_index(program_.header, slot))};
}

ProgramOpening ProgramProver::node(std::uint64_t index) const {
    return {index, vm::tensor::encode(program_.nodes[index]),
            crypto::merkle_path(leaves_, vm::tensor::node_leaf_index(index))};
}

}  // namespace quern::compute::core
