// The committed state as flat tables (account, code, storage, native): what execution and RPC read. A FlatState is a
// view over a store or a snapshot of one; it holds nothing else. Thread-safe as far as its reader is; a fault of the
// store reads as "nothing there" and is kept in status(), which whoever commits or answers from it must look at.
#pragma once

#include "base/mutex.h"
#include "chain/state/account_cache.h"
#include "chain/state/overlay.h"
#include "chain/store/kv.h"

namespace quern::chain::state {

class FlatState final : public StateReader {
public:
    // Accounts at hand: those that `cache` (outlives this) knows after block `height`, whose state `reader` reads. With
    // `puts` it is told of what was read, which a stranger's questions should not: they would push others out.
    struct Cached {
        AccountCache* cache = nullptr;
        std::uint64_t height = 0;
        bool puts = false;
    };
    // `reader` outlives this.
    explicit FlatState(const store::Reader& reader) : FlatState(reader, Cached{}) {}
    FlatState(const store::Reader& reader, const Cached& cached) : reader_(reader), cached_(cached) {}

    [[nodiscard]] std::optional<Account> account(const types::Address& address) const override;
    [[nodiscard]] Bytes code(const Hash32& code_hash) const override;
    [[nodiscard]] Hash32 storage(const types::Address& address, const Hash32& slot) const override;
    [[nodiscard]] std::optional<Bytes> native(BytesView key) const override;
    [[nodiscard]] std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                                    std::size_t limit) const override;

    // The first fault of the store that a read met.
    [[nodiscard]] Status status() const;

private:
    [[nodiscard]] std::optional<Bytes> get(const Bytes& key) const;
    void note(const Error& error) const;

    [[nodiscard]] std::optional<Account> read_account(const types::Address& address) const;

    const store::Reader& reader_;
    const Cached cached_;
    mutable Mutex mutex_;
    mutable std::optional<Error> fault_ QUERN_GUARDED_BY(mutex_);
};

// The overlay's changes as writes to the flat tables: all but the accounts', whose storage roots follow from the tries.
void write_flat_tables(const Overlay& overlay, store::WriteBatch& batch);

}  // namespace quern::chain::state
