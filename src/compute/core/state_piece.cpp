#include "compute/core/state_piece.h"

#include "crypto/merkle.h"
#include "vm/tensor/tensor.h"

namespace quern::compute::core {

Status check_piece(const Hash32& state_root, std::uint64_t slot_count, std::uint32_t slot, std::uint64_t tile,
                   const chain::types::DataAnswerPayload& answer) {
    const auto refuse = [](const Error& error) { return fail("data.bad_answer", error.to_string()); };
    if (answer.tiles == 0 || answer.tiles > kMaxPieceTiles) return fail("data.bad_answer", "so many tiles");
    const auto top = crypto::merkle_top_from_path(crypto::merkle_leaf(answer.tile), tile % answer.tiles, answer.tiles,
                                                  answer.tile_path);
    if (!top) return refuse(top.error());
    const Hash32 slot_root = crypto::bytes_id(answer.tiles * vm::tensor::kTileBytes, *top);
    if (const auto is_there = crypto::check_list_path(crypto::MerkleTag::state, state_root, slot_root, slot, slot_count,
                                                      answer.slot_path);
        !is_there)
        return refuse(is_there.error());
    return {};
}

chain::types::DataAnswerPayload make_piece(std::uint64_t task, std::span<const Hash32> slot_roots, std::uint32_t slot,
                                           std::span<const Hash32> tile_hashes, std::uint64_t tile, Bytes bytes) {
    return {task, tile_hashes.size(), std::move(bytes), crypto::merkle_path(tile_hashes, tile % tile_hashes.size()),
            crypto::merkle_path(slot_roots, slot)};
}

}  // namespace quern::compute::core
