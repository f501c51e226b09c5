#include "node/serve/content_duties.h"

#include <algorithm>
#include <map>

#include "chain/market/delays.h"
#include "chain/types/native_objects.h"
#include "compute/core/history.h"
#include "compute/core/state_content.h"

namespace quern::node {
namespace {

constexpr std::size_t kObjectsAtOnce = 256;

// The steps of a task, and between its checkpoints.
struct Steps {
    std::uint64_t all = 0;
    std::uint64_t interval = 0;
    std::uint64_t tranche = 0;
    std::uint32_t settled = 0;  // stretches
};

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
    std::map<std::uint64_t, Steps> tasks;
    std::set<Hash32> kept;  // states
    QUERN_CHECK(look_at_all<Task>(state, [&](const Task& task) -> Status {
        // Whoever pays for the tick that deletes it, the duty ends.
        if (!chain::types::is_live(task) && globals.market_ms >= chain::market::retention_end(market, task)) return {};
        tasks[task.id] = {task.steps, task.spec.work.interval, task.spec.work.tranche, task.settled};
        for (const Hash32& program : task.spec.contents.programs) idle.erase(program);
        for (const Hash32& data : task.spec.data_roots) QUERN_CHECK(keep_content(data, store, idle));
        QUERN_CHECK(keep_content(task.spec.contents.init, store, idle));
        return keep_state(task.spec.contents.init, store, kept, idle);
    }));
    std::set<Hash32> seen;  // histories
    return look_at_all<Claim>(state, [&](const Claim& claim) -> Status {
        const auto task = tasks.find(claim.id.task);
        if (idle.empty() || task == tasks.end() || claim.state == chain::types::ClaimState::voided) return {};
        const auto& [all, interval, tranche, settled] = task->second;
        // Of what is settled the state that it led to is wanted, until a later one is.
        const bool is_settled = claim.state == chain::types::ClaimState::settled;
        if (is_settled && claim.id.stretch + 1 < settled) return {};
        QUERN_CHECK(keep_state(claim.checkpoint_content, store, kept, idle));
        idle.erase(claim.history_content);
        if (claim.history_content.is_zero() || !seen.insert(claim.history_content).second) return {};
        const auto stretch = chain::market::stretch_of(all, tranche, claim.id.stretch);
        return keep_history(claim.history_content, stretch.steps, interval, is_settled, store, kept, idle);
    });
}

}  // namespace quern::node
