// The contents of a claim's history that custodians keep by fragment (crypto/content_fragments.h,
// compute/core/custody_manifest.h): which they are, their fragments in a node's store, whether a manifest is right, and
// a content out of its fragments. Used by solvers, custodians, verifiers, and whoever lacks a content. Everything is
// read and sent by windows: memory is a few MiB and the leaf hashes of the content, whatever its size; of one that is
// put together 3 k MiB, and a thread. What is sent while it is read takes another connection to the same node.
#pragma once

#include <span>
#include <vector>

#include "base/cancellation.h"
#include "compute/core/custody_manifest.h"
#include "compute/core/history.h"
#include "compute/worker/node_view.h"
#include "vm/tensor/graph.h"

namespace quern::compute::worker {

// How a run that reads contents is bounded.
struct CustodyLimits {
    std::uint64_t content_bytes = core::kMaxCustodyContentBytes;  // of each content
    const Cancellation* cancellation = nullptr;                   // requested: worker.stopped (busy)
    unsigned shard_level = crypto::kContentShardLevel;            // of contents that are there by shard
};

// The same for contents of a history of this program, none of which is larger than what a state or a manifest is read
// from: whoever names what it likes as a state has nothing larger fetched.
[[nodiscard]] CustodyLimits limits_of(const vm::tensor::Program& program, CustodyLimits limits);

inline constexpr std::string_view kWrongCustody = "custody.wrong_manifest";

// Where the custodians of a claim's history are told. `manifest` zero: it has none.
struct CustodyRef {
    Hash32 manifest;
    crypto::CellCode code;
    [[nodiscard]] bool exists() const { return !manifest.is_zero() && code.is_valid(); }
};
[[nodiscard]] CustodyRef custody_of(const chain::types::TaskClaim& live);
// Of what the first stretch that is not settled begins with.
[[nodiscard]] CustodyRef custody_of_start(const chain::types::Task& task);

// The ids that a custody manifest of this history must have, ascending, each once: `history`, which is the manifest's
// content; the states with which the stretch and its last segment begin and with which it ends; their slots that are
// contents of their own. A first state that is a file has none. Errors: those of NodeView::get_content,
// core::check_manifest, core::slot_roots; state.wrong_size (slots that are not the program's).
[[nodiscard]] Expected<std::vector<Hash32>> custody_contents(NodeView& node, const vm::tensor::Program& program,
                                                             const Hash32& history,
                                                             const core::HistoryManifest& manifest,
                                                             const CustodyLimits& limits);

// Puts all fragments of these contents, which are ascending, and the manifest into the node's store, and gives the
// manifest's id. What is there already is not sent again, so that it may be called again after any error. Errors:
// code.bad_shape, custody.too_many, the node's.
[[nodiscard]] Expected<Hash32> put_custody(NodeView& node, crypto::CellCode code, std::span<const Hash32> contents,
                                           const CustodyLimits& limits);

// The manifest `id`. Errors: core::decode_custody_manifest's; custody.wrong_manifest (another code); the node's.
[[nodiscard]] Expected<core::CustodyManifest> fetch_custody(NodeView& node, const Hash32& id, crypto::CellCode code);
// Makes all ids of these contents again. Error custody.wrong_manifest: the manifest lacks one, has another beside them,
// or names what are not its fragments. Others: the node's.
[[nodiscard]] Status check_custody(NodeView& node, const core::CustodyManifest& manifest,
                                   std::span<const Hash32> contents, const CustodyLimits& limits);
// Has the node fetch what the custodian at `place`, below n, keeps. Errors: custody.wrong_manifest or
// content.too_large (a fragment is smaller or larger than the manifest says); worker.stopped; the node's.
[[nodiscard]] Status fetch_fragments(NodeView& node, const core::CustodyManifest& manifest, std::size_t place,
                                     const CustodyLimits& limits);
// The same from content number `done` on, which it moves: whoever was interrupted asks for nothing twice.
[[nodiscard]] Status fetch_fragments(NodeView& node, const core::CustodyManifest& manifest, std::size_t place,
                                     const CustodyLimits& limits, std::size_t& done);
// Puts the content into the node's store out of any k of its fragments that can be had, those that are here first. What
// is on its way is waited for a little, a quarter of a minute at most. Errors: content.not_found (fewer than k can be
// had, or it is not in the manifest); busy: content.on_its_way (ask again, what came meanwhile is here),
// custody.no_connection, worker.stopped; fragments.wrong_content; the node's.
[[nodiscard]] Status restore_content(NodeView& node, const core::CustodyManifest& manifest, const Hash32& content,
                                     const CustodyLimits& limits);
// The same of a content that may be a state, where the node lacks it; else of what it lacks of that one's slots, in the
// same time for all. What is no content of the manifest is passed over. Errors: fetch_custody's, restore_content's.
[[nodiscard]] Status restore_state(NodeView& node, const CustodyRef& custody, const Hash32& content,
                                   const CustodyLimits& limits);

}  // namespace quern::compute::worker
