// The state after blocks that are executed and not committed: a layer is one block's WriteBatch over its parent's
// reader, which is another layer or the store. FlatState reads layers as it reads the store. Layers are as thread-safe
// as what lies below them, except rebase(), which needs the layer for itself.
#pragma once

#include "chain/store/kv.h"

namespace quern::chain::store {

class LayeredReader final : public Reader {
public:
    // Both outlive the layer; operations may be appended to the batch later, and are not seen. Of several operations
    // on one key the last wins, as in a store.
    LayeredReader(const Reader& below, const WriteBatch& batch);

    [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key) const override;
    [[nodiscard]] Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override;

    // Puts another reader below, which holds the same as the old one did: the store, after the batches below this layer
    // were written to it.
    void rebase(const Reader& below) { below_ = &below; }

private:
    using Operation = WriteBatch::Operation;
    // The first place in the index whose key is not less.
    [[nodiscard]] std::size_t lower_bound(BytesView key) const;
    [[nodiscard]] const Operation& at(std::size_t place) const { return batch_.operations()[index_[place]]; }

    const Reader* below_;
    const WriteBatch& batch_;
    std::vector<std::uint32_t> index_;  // the winning operations' numbers in the batch, by key
};

}  // namespace quern::chain::store
