#include "node/serve/content_duties.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "chain/market/custody.h"
#include "chain/market/delays.h"
#include "chain/types/native_objects.h"
#include "compute/core/custody_manifest.h"
#include "compute/core/history.h"
#include "compute/core/state_content.h"
#include "compute/core/task_spec.h"
#include "vm/tensor/graph.h"

namespace quern::node {
namespace {

constexpr std::size_t kObjectsAtOnce = 256;

// Tiles that the contents of a custody manifest may come to beside states and the hashes of a history: the file that a
// first state may be has a head, and four of the contents may be small.
constexpr std::uint64_t kCustodySlackTiles = 2'048;
constexpr std::uint64_t kCustodyStates = 5;  // a first state that is a file, twice as large at most, two others, lists

// What of a task says which contents of its claims are kept.
struct TaskTerms {
    std::uint64_t steps = 0;
    std::uint64_t interval = 0;  // between checkpoints
    std::uint64_t tranche = 0;
    std::uint32_t settled = 0;        // stretches
    unsigned custodians = 0;          // of each claim
    std::uint64_t custody_tiles = 0;  // of the contents that these have fragments of, at most
};

// Of custody manifests: by the number n of fragments that a claim's has the most tiles of its contents.
using CustodyTerms = std::map<unsigned, std::uint64_t>;

Expected<Bytes> read(const content::Store& store, const Hash32& id, std::uint64_t bytes) {
    Bytes read;
    while (read.size() < bytes) {
        QUERN_TRY(const Bytes more, store.read(id, read.size(), bytes - read.size()));
        if (more.empty()) break;
        append(read, more);
    }
    return read;
}

// A content, and its shards where it is here by shard.
Status keep_content(const Hash32& id, const content::Store& store, std::set<Hash32>& idle) {
    idle.erase(id);
    if (idle.empty()) return {};
    const auto list = store.shards(id);
    if (!list && list.error().name == "content.not_found") return {};
    if (!list) return fail(list.error());
    for (std::size_t i = 0; i < (*list)->tops.size(); ++i) idle.erase((*list)->id_of(i));
    return {};
}

// A state and its slots; nothing but its name when it is not here, or a file. `kept`: those that are here and that this
// was done for, so that a history which names one a million times costs no more for it.
Status keep_state(const Hash32& id, const content::Store& store, std::set<Hash32>& kept, std::set<Hash32>& idle) {
    idle.erase(id);
    if (idle.empty() || kept.contains(id)) return {};
    const auto size = store.size(id);
    if (!size && size.error().name == "content.not_found") return {};
    if (!size) return fail(size.error());
    kept.insert(id);
    namespace core = compute::core;
    QUERN_TRY(const Bytes beginning, read(store, id, std::min(*size, core::slot_list_bytes(0))));
    const auto slots = core::slot_count(beginning);
    if (!slots || core::slot_list_bytes(*slots) > *size) return {};
    QUERN_TRY(const Bytes list, read(store, id, core::slot_list_bytes(*slots)));
    QUERN_TRY(const std::vector<Hash32> roots, core::slot_roots(list));
    for (const Hash32& root : roots) idle.erase(root);
    return {};
}

// `steps`: of the stretch that the history is of. `last`: no state but that one.
Status keep_history(const Hash32& id, std::uint64_t steps, std::uint64_t interval, bool last,
                    const content::Store& store, std::set<Hash32>& kept, std::set<Hash32>& idle) {
    const auto size = store.size(id);
    if (!size && size.error().name == "content.not_found") return {};  // nothing that it names is served from here
    if (!size) return fail(size.error());
    if (*size > compute::core::kMaxManifestBytes) return {};
    QUERN_TRY(const Bytes bytes, read(store, id, *size));
    // One that is none, or another task's, which its solver answers for, holds nothing.
    const auto history = compute::core::decode_manifest(bytes);
    if (!history || history->steps() != steps || history->interval != interval) return {};
    const std::span<const Hash32> checkpoints = history->checkpoint_contents;
    for (const Hash32& checkpoint : last ? checkpoints.last(1) : checkpoints)
        QUERN_CHECK(keep_state(checkpoint, store, kept, idle));
    return {};
}

// Of the contents of a claim's custody manifest. They are a history, three states, and slots of these: two states of
// which each has a list that is less than a 64th of it, and one that may be a file, which is twice as large at most.
std::uint64_t most_custody_tiles(const chain::types::Task& task) {
    namespace market = chain::market;
    const Uint256 history = market::history_hashes(market::work_of(task).plan) * Uint256(market::kHashBytes);
    return kCustodyStates * (compute::core::task_state_bytes(task) / vm::tensor::kTileBytes) +
           (history / Uint256(vm::tensor::kTileBytes)).low_u64() + kCustodySlackTiles;
}

// Each content counted as the least that is stored for itself, a slot, so that their number is bounded with their size.
std::uint64_t custody_tiles(const compute::core::CustodyManifest& manifest) {
    std::uint64_t tiles = 0;
    for (const auto& each : manifest.contents)
        tiles +=
            std::max(compute::core::kInlineTiles, (each.size + vm::tensor::kTileBytes - 1) / vm::tensor::kTileBytes);
    return tiles;
}

// Those of the fragments that are here and as large as the manifest says.
Status keep_custody(const Hash32& id, const CustodyTerms& terms, const content::Store& store, std::set<Hash32>& idle) {
    const auto size = store.size(id);
    if (!size && size.error().name == "content.not_found") return {};
    if (!size) return fail(size.error());
    if (*size > compute::core::kMaxCustodyManifestBytes) return {};
    QUERN_TRY(const Bytes bytes, read(store, id, *size));
    // One that is none, or of no such claim, which its solver answers for, holds nothing.
    const auto manifest = compute::core::decode_custody_manifest(bytes);
    if (!manifest) return {};
    const auto& [data, total] = manifest->code;
    const auto most = terms.find(total);
    if (most == terms.end() || data != chain::market::custody_data(total)) return {};
    if (custody_tiles(*manifest) > most->second) return {};
    for (const auto& content : manifest->contents)
        for (const Hash32& fragment : content.fragments) {
            if (!idle.contains(fragment)) continue;
            const auto here = store.size(fragment);
            if (here && *here == crypto::fragment_bytes(content.size, data)) idle.erase(fragment);
        }
    return {};
}

// All objects of a type, in pages.
template <class T, class Look>
Status look_at_all(const chain::state::FlatState& state, Look look) {
    const Bytes all = chain::types::prefix_of<T>();
    for (Bytes from = all;;) {
        const auto page = state.native_range(all, from, kObjectsAtOnce);
        QUERN_CHECK(state.status());
        for (const auto& [key, value] : page) {
            QUERN_TRY(const T object, chain::types::decode_record<T>(value));
            QUERN_CHECK(look(object));
            from = key;
        }
        if (page.size() < kObjectsAtOnce) return {};
        from.push_back(0);  // the least key behind it
    }
}

}  // namespace

Status keep_content_duties(const chain::state::FlatState& state, const chain::params::MarketParams& market,
                           const content::Store& store, std::set<Hash32>& idle) {
    using chain::types::Claim;
    using chain::types::Task;
    chain::types::Globals globals;
    if (const auto stored = state.native(chain::types::key_of<chain::types::Globals>())) {
        QUERN_TRY(globals, chain::types::decode_record<chain::types::Globals>(*stored));
    }
    QUERN_CHECK(state.status());
    std::map<std::uint64_t, TaskTerms> tasks;
    std::set<Hash32> kept;  // states
    QUERN_CHECK(look_at_all<Task>(state, [&](const Task& task) -> Status {
        // Whoever pays for the tick that deletes it, the duty ends.
        if (!chain::types::is_live(task) && globals.market_ms >= chain::market::retention_end(market, task)) return {};
        tasks[task.id] = {task.steps,   task.spec.work.interval, task.spec.work.tranche,
                          task.settled, task.custodians,         most_custody_tiles(task)};
        for (const Hash32& program : task.spec.contents.programs) idle.erase(program);
        for (const Hash32& data : task.spec.data_roots) QUERN_CHECK(keep_content(data, store, idle));
        QUERN_CHECK(keep_content(task.spec.contents.init, store, idle));
        return keep_state(task.spec.contents.init, store, kept, idle);
    }));
    // Histories, each once for what claims say of it: a liar's may be the first that names another's.
    std::set<std::tuple<Hash32, std::uint64_t, std::uint64_t, bool>> seen;
    std::map<Hash32, CustodyTerms> custody;
    QUERN_CHECK(look_at_all<Claim>(state, [&](const Claim& claim) -> Status {
        const auto task = tasks.find(claim.id.task);
        if (idle.empty() || task == tasks.end() || claim.state == chain::types::ClaimState::voided) return {};
        const TaskTerms& terms = task->second;
        // Of what is settled the state that it led to is wanted, until a later one is.
        const bool is_settled = claim.state == chain::types::ClaimState::settled;
        if (is_settled && claim.id.stretch + 1 < terms.settled) return {};
        QUERN_CHECK(keep_state(claim.checkpoint_content, store, kept, idle));
        if (!is_settled) QUERN_CHECK(keep_content(claim.claimed_content, store, idle));
        idle.erase(claim.custody_content);
        if (!claim.custody_content.is_zero()) {
            std::uint64_t& most = custody[claim.custody_content][terms.custodians];
            most = std::max(most, terms.custody_tiles);
        }
        idle.erase(claim.history_content);
        const auto stretch = chain::market::stretch_of(terms.steps, terms.tranche, claim.id.stretch);
        const bool is_new = seen.insert({claim.history_content, stretch.steps, terms.interval, is_settled}).second;
        if (claim.history_content.is_zero() || !is_new) return {};
        return keep_history(claim.history_content, stretch.steps, terms.interval, is_settled, store, kept, idle);
    }));
    // Once all claims are known that name a manifest: a liar's may be the first of them.
    for (const auto& [id, terms] : custody) {
        if (idle.empty()) return {};
        QUERN_CHECK(keep_custody(id, terms, store, idle));
    }
    return {};
}

}  // namespace quern::node
