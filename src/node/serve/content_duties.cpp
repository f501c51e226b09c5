#include "node/serve/content_duties.h"

#include "chain/types/native_objects.h"
#include "compute/core/history.h"

namespace quern::node {
namespace {

constexpr std::size_t kTasksAtOnce = 256;

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

}  // namespace

Expected<std::set<Hash32>> content_duties(const chain::state::FlatState& state, const content::Store& store) {
    std::set<Hash32> duties;
    const Bytes all = chain::types::prefix_of<chain::types::Task>();
    for (std::uint64_t from = 0;;) {
        const auto page = state.native_range(all, chain::types::key_of<chain::types::Task>(from), kTasksAtOnce);
        QUERN_CHECK(state.status());
        for (const auto& [key, value] : page) {
            QUERN_TRY(const auto task, chain::types::decode_record<chain::types::Task>(value));
            from = task.id + 1;
            for (const Hash32& id : {task.spec.program_content, task.spec.init_content, task.spec.data_content,
                                     task.checkpoint_content, task.history_content})
                if (id != Hash32{}) duties.insert(id);
            if (task.history_content != Hash32{}) QUERN_CHECK(add_history(task.history_content, store, duties));
        }
        if (page.size() < kTasksAtOnce) return duties;
    }
}

}  // namespace quern::node
