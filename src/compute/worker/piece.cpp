#include "compute/worker/piece.h"

#include "compute/core/history.h"
#include "compute/core/state_content.h"
#include "compute/core/state_piece.h"
#include "compute/core/task_plan.h"
#include "crypto/merkle.h"

namespace quern::compute::worker {
namespace {

namespace tensor = vm::tensor;

// One tile of a slot, and the hashes of all of them.
struct SlotTile {
    std::vector<Hash32> hashes;
    Bytes bytes;
};

// Of a slot that is a content of its own: read whole, as who fetches a state does.
Expected<SlotTile> read_own(NodeView& node, const Hash32& root, const tensor::Shape& shape, std::uint64_t tile) {
    QUERN_TRY(const Bytes bytes, node.get_content(root, core::slot_bytes(shape)));
    if (bytes.size() != core::slot_bytes(shape)) return fail("data.bad_answer", "a slot of another size");
    SlotTile found;
    for (std::uint64_t at = 0; at < bytes.size(); at += tensor::kTileBytes)
        found.hashes.push_back(crypto::merkle_leaf(BytesView(bytes).subspan(at, tensor::kTileBytes)));
    const std::uint64_t first = tile % found.hashes.size() * tensor::kTileBytes;
    found.bytes = to_bytes(BytesView(bytes).subspan(first, tensor::kTileBytes));
    return found;
}

SlotTile tile_of(const tensor::Tensor& slot, std::uint64_t tile) {
    auto hashes = tensor::tile_hashes(slot);
    Bytes bytes = tensor::tile_bytes(tensor::read_tile(slot, tile % hashes.size()));
    return {std::move(hashes), std::move(bytes)};
}

}  // namespace

Expected<chain::types::DataAnswerPayload> piece_of(NodeView& node, const tensor::Program& program,
                                                   const Hash32& content, const Hash32& state_root,
                                                   const chain::types::DataChallenge& asked) {
    QUERN_TRY(const Bytes bytes, node.get_content(content, core::state_content_bytes(program)));
    QUERN_TRY(const auto parts, core::decode_state(program, state_root, bytes));
    if (asked.slot >= parts.slots.size()) return fail("data.bad_answer", "there is no such slot");
    SlotTile found;
    if (parts.slots[asked.slot].words.empty()) {
        QUERN_TRY(found, read_own(node, parts.roots[asked.slot], program.slots[asked.slot].shape, asked.tile));
    } else {
        found = tile_of(parts.slots[asked.slot], asked.tile);
    }
    auto answer = core::make_piece(0, parts.roots, asked.slot, found.hashes, asked.tile, std::move(found.bytes));
    QUERN_CHECK(core::check_piece(state_root, parts.roots.size(), asked.slot, asked.tile, answer));
    return answer;
}

Expected<chain::types::DataAnswerPayload> read_piece(NodeView& node, const chain::types::TaskClaim& live) {
    const auto& task = live.task;
    QUERN_TRY(const auto plan, core::TaskPlan::decode(task.spec.plan));
    // All programs of a plan have the same slots.
    QUERN_TRY(const Bytes encoded, node.get_content(task.spec.contents.programs.front(), tensor::kMaxProgramBytes));
    QUERN_TRY(const tensor::Program program, tensor::decode_program(encoded));
    if (tensor::program_root(program) != plan.programs().front().root) return fail("inputs.wrong_program_root");
    QUERN_TRY(const Bytes history, node.get_content(live.claim.history_content, core::kMaxManifestBytes));
    QUERN_TRY(const auto manifest, core::decode_manifest(history));
    if (manifest.checkpoint_contents.empty()) return fail("history.wrong_counts");
    QUERN_TRY(auto answer,
              piece_of(node, program, manifest.checkpoint_contents.back(), task.start_root, task.asked.front()));
    answer.task = task.id;
    return answer;
}

}  // namespace quern::compute::worker
