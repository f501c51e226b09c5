// The state that blocks are executed on, with accounts at hand: those that the blocks between the committed state and
// the parent changed, then those of the committed state that were used lately, then the tables. Everything else is read
// from the tables as it is (FlatState). Used by one thread.
#pragma once

#include <vector>

#include "chain/state/account_cache.h"
#include "chain/state/flat_state.h"

namespace quern::chain::state {

class CachedState final : public StateReader {
public:
    // `committed` reads the committed state, which is that after block `height`, `parent` that after the blocks whose
    // changes are given, newest first; it is the same where there are none. All outlive this.
    CachedState(const store::Reader& committed, const store::Reader& parent, std::vector<const AccountTable*> changed,
                AccountCache& cache, std::uint64_t height)
        : committed_(committed, {&cache, height, true}), parent_(parent), changed_(std::move(changed)) {}

    [[nodiscard]] std::optional<Account> account(const types::Address& address) const override;
    [[nodiscard]] Bytes code(const Hash32& code_hash) const override { return parent_.code(code_hash); }
    [[nodiscard]] Hash32 storage(const types::Address& address, const Hash32& slot) const override {
        return parent_.storage(address, slot);
    }
    [[nodiscard]] std::optional<Bytes> native(BytesView key) const override { return parent_.native(key); }
    [[nodiscard]] std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                                    std::size_t limit) const override {
        return parent_.native_range(prefix, start, limit);
    }

    // The first fault of the store that a read met.
    [[nodiscard]] Status status() const;

private:
    FlatState committed_;
    FlatState parent_;
    std::vector<const AccountTable*> changed_;
};

}  // namespace quern::chain::state
