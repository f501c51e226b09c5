// Working state during execution: reads fall through to a StateReader (the flat tables of the last committed block, or
// an earlier unfinalized overlay), writes stay here until they are committed or dropped. One journal covers accounts
// and native objects, so that a revert undoes both. Used by one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "chain/types/native_objects.h"
#include "chain/types/receipt.h"

namespace quern::chain::state {

struct Account {
    std::uint64_t nonce = 0;
    Uint256 balance;
    Hash32 storage_root;  // types::kEmptyTrieRoot when there is none
    Hash32 code_hash;     // keccak256("") when there is none
    bool operator==(const Account&) const = default;
    [[nodiscard]] bool is_empty() const;  // EIP-161
};
[[nodiscard]] Account empty_account();

// Read access to a state. Implementations: FlatState (committed tables, flat_state.h), Overlay.
class StateReader {
public:
    virtual ~StateReader() = default;
    [[nodiscard]] virtual std::optional<Account> account(const types::Address& address) const = 0;
    [[nodiscard]] virtual Bytes code(const Hash32& code_hash) const = 0;
    [[nodiscard]] virtual Hash32 storage(const types::Address& address, const Hash32& slot) const = 0;
    [[nodiscard]] virtual std::optional<Bytes> native(BytesView key) const = 0;
    // Keys and values whose key starts with `prefix`, ascending, from `start` on (inclusive; empty: the first), at most
    // `limit`.
    [[nodiscard]] virtual std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                                            std::size_t limit) const = 0;
};

class Overlay final : public StateReader {
public:
    explicit Overlay(const StateReader& base) : base_(base) {}
    // A copy would not be a layer over the original; to lie over another overlay, name it as a StateReader.
    Overlay(const Overlay&) = delete;
    Overlay& operator=(const Overlay&) = delete;

    [[nodiscard]] std::optional<Account> account(const types::Address& address) const override;
    [[nodiscard]] Bytes code(const Hash32& code_hash) const override;
    [[nodiscard]] Hash32 storage(const types::Address& address, const Hash32& slot) const override;
    [[nodiscard]] std::optional<Bytes> native(BytesView key) const override;
    [[nodiscard]] std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                                    std::size_t limit) const override;

    [[nodiscard]] Account account_or_empty(const types::Address& address) const;
    void set_account(const types::Address& address, const Account& account);
    void set_code(const Hash32& code_hash, Bytes code);
    void set_storage(const types::Address& address, const Hash32& slot, const Hash32& value);
    void set_native(Bytes key, Bytes value);
    void erase_native(const Bytes& key);
    void add_log(types::Log log);

    // A point to which revert_to undoes everything, logs included. Nested points are fine.
    [[nodiscard]] std::size_t snapshot() const { return journal_.size(); }
    void revert_to(std::size_t point);
    [[nodiscard]] std::vector<types::Log> take_logs();
    // Number of different native objects written since that point: what execution charges for.
    [[nodiscard]] std::size_t native_writes_since(std::size_t point) const;
    [[nodiscard]] const StateReader& base() const { return base_; }

    // What was written, in key order: for roots and the flat tables.
    [[nodiscard]] const std::map<types::Address, Account>& changed_accounts() const { return accounts_; }
    [[nodiscard]] const std::map<std::pair<types::Address, Hash32>, Hash32>& changed_storage() const {
        return storage_;
    }
    [[nodiscard]] const std::map<Hash32, Bytes>& new_code() const { return code_; }
    [[nodiscard]] const std::map<Bytes, std::optional<Bytes>, BytesLess>& changed_native() const { return native_; }

    // Typed access to native records. Error state.corrupt_object when a stored record does not decode.
    template <types::Record T>
    [[nodiscard]] Expected<std::optional<T>> load(const Bytes& key) const {
        const auto bytes = native(key);
        if (!bytes) return std::optional<T>{};
        auto record = types::decode_record<T>(*bytes);
        if (!record) return fault("state.corrupt_object", record.error().to_string());
        return std::optional<T>(std::move(*record));
    }
    template <types::Record T>
    void store(Bytes key, const T& record) {
        set_native(std::move(key), types::encode_record(record));
    }

private:
    void write_native(Bytes key, std::optional<Bytes> value);

    const StateReader& base_;
    std::map<types::Address, Account> accounts_;
    std::map<std::pair<types::Address, Hash32>, Hash32> storage_;
    std::map<Hash32, Bytes> code_;
    std::map<Bytes, std::optional<Bytes>, BytesLess> native_;
    std::vector<types::Log> logs_;
    struct JournalEntry {
        enum class What : std::uint8_t { account, storage, code, native, log } what;
        Bytes key;
        std::optional<Account> account;
        Hash32 slot;
        std::optional<Hash32> storage;
        std::optional<std::optional<Bytes>> native;
    };
    std::vector<JournalEntry> journal_;
};

}  // namespace quern::chain::state
