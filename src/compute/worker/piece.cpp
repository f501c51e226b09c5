#include "compute/worker/piece.h"

#include <algorithm>

#include "base/log.h"
#include "compute/core/history.h"
#include "compute/core/state_content.h"
#include "compute/core/state_piece.h"
#include "compute/core/task_plan.h"
#include "crypto/merkle.h"

namespace quern::compute::worker {
namespace {

namespace tensor = vm::tensor;

constexpr std::uint64_t kReadAgainMs = 1'000;  // after what a node could not give

// One tile of a slot, and the hashes of all of them.
struct SlotTile {
    std::vector<Hash32> hashes;
    Bytes bytes;
};

// What is read of a slot's tiles: it, or its shards where nobody has it whole.
struct Part {
    Hash32 id;
    std::uint64_t bytes = 0;
};

Expected<std::vector<Part>> parts_of(NodeView& node, const Hash32& root, std::uint64_t size) {
    const Part whole{root, size};
    if (size <= crypto::kContentShardBytes) return std::vector{whole};
    if (const auto first = node.read_content(root, 0, tensor::kTileBytes); first || !is_not_found(first.error()))
        return std::vector{whole};
    QUERN_TRY(const auto shards, node.content_shards(root, crypto::kContentShardLevel));
    if (shards.size != size) return fail("data.bad_answer", "a slot of another size");
    std::vector<Part> parts;
    for (std::size_t i = 0; i < shards.tops.size(); ++i) parts.push_back({shards.id_of(i), shards.bytes_of(i)});
    return parts;
}

// Of a slot that is a content of its own. Nothing is checked here: what is made of it is.
Expected<SlotTile> read_own(NodeView& node, const Hash32& root, const tensor::Shape& shape, std::uint64_t tile,
                            const Cancellation* cancellation) {
    SlotTile found;
    const std::uint64_t asked = tile % shape.tiles();
    found.hashes.reserve(shape.tiles());
    QUERN_TRY(const auto parts, parts_of(node, root, core::slot_bytes(shape)));
    for (const Part& part : parts) {
        for (std::uint64_t at = 0; at < part.bytes; at += kPiecePartBytes) {
            if (is_requested(cancellation)) return busy("worker.stopped");
            QUERN_TRY(const Bytes bytes, node.read_content(part.id, at, std::min(kPiecePartBytes, part.bytes - at)));
            for (BytesView rest(bytes); rest.size() >= tensor::kTileBytes; rest = rest.subspan(tensor::kTileBytes)) {
                const BytesView each = rest.first(tensor::kTileBytes);
                if (found.hashes.size() == asked) found.bytes = to_bytes(each);
                found.hashes.push_back(crypto::merkle_leaf(each));
            }
        }
    }
    if (found.hashes.size() != shape.tiles()) return fail("data.bad_answer", "a slot of another size");
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
                                                   const chain::types::DataChallenge& asked,
                                                   const Cancellation* cancellation) {
    QUERN_TRY(const Bytes bytes, node.get_content(content, core::state_content_bytes(program)));
    QUERN_TRY(const auto parts, core::decode_state(program, state_root, bytes));
    if (asked.slot >= parts.slots.size()) return fail("data.bad_answer", "there is no such slot");
    SlotTile found;
    if (parts.slots[asked.slot].words.empty()) {
        QUERN_TRY(found,
                  read_own(node, parts.roots[asked.slot], program.slots[asked.slot].shape, asked.tile, cancellation));
    } else {
        found = tile_of(parts.slots[asked.slot], asked.tile);
    }
    auto answer = core::make_piece(0, parts.roots, asked.slot, found.hashes, asked.tile, std::move(found.bytes));
    QUERN_CHECK(core::check_piece(state_root, parts.roots.size(), asked.slot, asked.tile, answer));
    return answer;
}

Expected<chain::types::DataAnswerPayload> read_piece(NodeView& node, const chain::types::TaskClaim& live,
                                                     const Cancellation* cancellation) {
    const auto& task = live.task;
    QUERN_TRY(const auto plan, core::TaskPlan::decode(task.spec.plan));
    // All programs of a plan have the same slots.
    QUERN_TRY(const Bytes encoded, node.get_content(task.spec.contents.programs.front(), tensor::kMaxProgramBytes));
    QUERN_TRY(const tensor::Program program, tensor::decode_program(encoded));
    if (tensor::program_root(program) != plan.programs().front().root) return fail("inputs.wrong_program_root");
    QUERN_TRY(const Bytes history, node.get_content(live.claim.history_content, core::kMaxManifestBytes));
    QUERN_TRY(const auto manifest, core::decode_manifest(history));
    if (manifest.checkpoint_contents.empty()) return fail("history.wrong_counts");
    QUERN_TRY(auto answer, piece_of(node, program, manifest.checkpoint_contents.back(), task.start_root,
                                    task.asked.front(), cancellation));
    answer.task = task.id;
    return answer;
}

bool PieceJobs::work() {
    const auto orders = board_.take();
    if (!orders) return false;
    std::erase_if(again_ms_, [&](const auto& entry) { return !orders->contains(entry.first); });
    for (const auto& [id, order] : *orders) {
        if (context_.stop) return false;
        if (board_.facts(order) != nullptr) continue;
        const std::uint64_t now = context_.clock.monotonic_ms();
        if (const auto again = again_ms_.find(id); again != again_ms_.end() && now < again->second) continue;
        auto answer = read_piece(*context_.node, *order.live, &context_.stopping);
        if (answer) {
            board_.publish(order, std::make_shared<const chain::types::DataAnswerPayload>(std::move(*answer)));
            continue;
        }
        log::warning(log::Category::solver, "piece not read task={} reason={}", id, answer.error().to_string());
        again_ms_[id] = context_.clock.monotonic_ms() + kReadAgainMs;
    }
    return true;
}

}  // namespace quern::compute::worker
