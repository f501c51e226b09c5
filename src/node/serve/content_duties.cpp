#include "node/serve/content_duties.h"

#include "chain/types/native_objects.h"
#include "compute/core/history.h"

namespace quern::node {
namespace {

constexpr std::size_t kObjectsAtOnce = 256;

Status add_history(const Hash32& id, const content::Store& store, std::set<Hash32>& duties) {
    const auto size = store.size(id);
    if (!size && size.error().name == "content.not_found") return {};  // nothing that it names is served from here
    if (!size) return fail(size.error());
    if (*size > compute::core::kMaxManifestBytes) return {};
    Bytes bytes;
    while (bytes.size() < *size) {
        QUERN_TRY(const Bytes more, store.read(id, bytes.size(), *size - bytes.size()));
        append(bytes, more);
    }
    // One that is none, which its solver answers for, holds nothing.
    if (const auto history = compute::core::decode_manifest(bytes))
        duties.insert(history->checkpoint_contents.begin(), history->checkpoint_contents.end());
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

Expected<std::set<Hash32>> content_duties(const chain::state::FlatState& state, const content::Store& store) {
    std::set<Hash32> duties;
    const auto add = [&](const Hash32& id) {
        if (!id.is_zero()) duties.insert(id);
    };
    QUERN_CHECK(look_at_all<chain::types::Task>(state, [&](const chain::types::Task& task) -> Status {
        for (const Hash32& program : task.spec.program_contents) add(program);
        add(task.spec.init_content);
        add(task.spec.data_content);
        return {};
    }));
    QUERN_CHECK(look_at_all<chain::types::Claim>(state, [&](const chain::types::Claim& claim) -> Status {
        add(claim.checkpoint_content);
        add(claim.history_content);
        if (claim.history_content.is_zero()) return {};
        return add_history(claim.history_content, store, duties);
    }));
    return duties;
}

}  // namespace quern::node
