// Working state during execution: reads fall through to a StateReader (the flat tables of the last committed block, or
// an earlier unfinalized overlay), writes stay here until they are committed or dropped. One journal covers accounts
// and native objects, so that a revert undoes both. What was read of an account or a slot is remembered: the base is
// asked once. Used by one thread, reads included.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/ensure.h"
#include "chain/state/key_table.h"
#include "chain/types/native_objects.h"
#include "chain/types/receipt.h"

namespace quern::chain::state {

struct Account {
    std::uint64_t nonce = 0;
    Uint256 balance;
    Hash32 storage_root;  // types::kEmptyTrieRoot when there is none
    Hash32 code_hash;     // keccak256("") when there is none
    bool operator==(const Account&) const = default;
    [[nodiscard]] bool is_empty() const { return nonce == 0 && balance.is_zero() && !has_code(); }  // EIP-161
    [[nodiscard]] bool has_code() const;
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

// What looking at native objects costs whoever executes, in gas: each that is looked at, there or not, and each byte of
// it. Once it is above its limit nothing more is read: what is computed then is of no use and must be undone.
class ReadMeter {
public:
    // `per_object` is at least 1.
    ReadMeter(std::uint64_t per_object, std::uint64_t per_byte, std::uint64_t limit)
        : per_object_(per_object), per_byte_(per_byte), limit_(limit) {}
    void read(std::size_t bytes) { used_ += per_object_ + per_byte_ * bytes; }
    [[nodiscard]] std::uint64_t used() const { return used_; }
    [[nodiscard]] bool is_exhausted() const { return used_ > limit_; }
    // Objects after which it is exhausted for certain.
    [[nodiscard]] std::size_t objects_left() const {
        return is_exhausted() ? 0 : static_cast<std::size_t>((limit_ - used_) / per_object_) + 1;
    }

private:
    const std::uint64_t per_object_;
    const std::uint64_t per_byte_;
    const std::uint64_t limit_;
    std::uint64_t used_ = 0;
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

    [[nodiscard]] Account account_or_empty(const types::Address& address) const { return account_view(address); }
    // The same without a copy: good until the account is written again.
    [[nodiscard]] const Account& account_view(const types::Address& address) const;
    // The account as the base has it: what it was before anything was written here.
    [[nodiscard]] std::optional<Account> account_before(const types::Address& address) const;
    void set_account(const types::Address& address, const Account& account) { change_account(address) = account; }
    // The account, to be changed in place, at once: the reference is good until the next snapshot or revert.
    [[nodiscard]] Account& change_account(const types::Address& address);
    void set_code(const Hash32& code_hash, Bytes code);
    void set_storage(const types::Address& address, const Hash32& slot, const Hash32& value);
    void set_native(Bytes key, Bytes value);
    void erase_native(const Bytes& key);
    void add_log(types::Log log);

    // A point to which revert_to undoes everything, logs included. Nested points are fine.
    [[nodiscard]] std::size_t snapshot() { return newest_point_ = settled_ + journal_.size(); }
    void revert_to(std::size_t point);
    // What was written stands: there is no way back to the points so far, and what was there before is forgotten. After
    // each transaction, so that a block does not carry along, and miss in the caches, what none of it can undo any
    // more.
    void settle();
    [[nodiscard]] std::vector<types::Log> take_logs();
    // What was written since that point, each object and account once: what execution charges for.
    struct Written {
        std::size_t objects = 0;
        std::size_t object_bytes = 0;  // of their values now
        std::size_t stored_bytes = 0;  // by which each is larger than it was at that point
        std::size_t accounts = 0;
        std::size_t logs = 0;
        std::size_t log_topics = 0;
        std::size_t log_bytes = 0;
    };
    [[nodiscard]] Written written_since(std::size_t point) const;
    // Counts what is read of native objects from now on; null: nobody does. It outlives its use.
    void count_reads(ReadMeter* meter) { meter_ = meter; }
    [[nodiscard]] const StateReader& base() const { return base_; }

    // What was written, in key order: for roots and the flat tables.
    [[nodiscard]] std::vector<std::pair<types::Address, Account>> changed_accounts() const;
    struct StorageChange {
        types::Address address;
        Hash32 slot;
        Hash32 value;
    };
    [[nodiscard]] std::vector<StorageChange> changed_storage() const;  // by address, then slot
    [[nodiscard]] const std::map<Hash32, Bytes>& new_code() const { return code_; }
    [[nodiscard]] const std::map<Bytes, std::optional<Bytes>, BytesLess>& changed_native() const { return native_; }

    // Typed access to native objects: load<Task>(7). Errors: state.corrupt_object when a stored one does not decode,
    // state.unpaid_read when the meter is exhausted.
    template <types::Record T, class... Id>
    requires types::ObjectId<T, Id...>
    [[nodiscard]] Expected<std::optional<T>> load(const Id&... id) const {
        const auto bytes = native(types::key_of<T>(id...));
        if (meter_ != nullptr && meter_->is_exhausted()) return fail("state.unpaid_read");
        if (!bytes) return std::optional<T>{};
        auto record = types::decode_record<T>(*bytes);
        if (!record) return fault("state.corrupt_object", record.error().to_string());
        return std::optional<T>(std::move(*record));
    }
    // The key is types::key_of's.
    template <types::Record T>
    void store(Bytes key, const T& record) {
        set_native(std::move(key), types::encode_record(record));
    }

private:
    using Natives = std::map<Bytes, std::optional<Bytes>, BytesLess>;
    // An account or slot that was read or written. A read alone leaves `changed` false.
    struct TouchedAccount {
        std::uint32_t journaled = 0;  // number of its newest journal entry, from 1
        bool existed = false;
        bool changed = false;
        Account now;
        Account before;  // the base's, or an empty one
    };
    struct TouchedSlot {
        Hash32 now;
        bool changed = false;
        std::uint32_t journaled = 0;
    };
    using Accounts = KeyTable<types::Address, TouchedAccount>;
    using Slots = KeyTable<FixedBytes<types::Address::kSize + Hash32::kSize>, TouchedSlot>;

    // What a journal entry undoes; the old values lie on a stack for each kind.
    enum class What : std::uint8_t { account, storage, code, native, log };
    struct OldAccount {
        Accounts::Entry* entry;
        Account account;
        bool changed;
        std::uint32_t journaled;
    };
    struct OldSlot {
        Slots::Entry* entry;
        Hash32 value;
        bool changed;
        std::uint32_t journaled;
    };
    struct OldNative {
        Natives::iterator entry;
        std::optional<std::optional<Bytes>> value;  // absent: nothing was written before
    };

    void write_native(Bytes key, std::optional<Bytes> value);
    [[nodiscard]] Accounts::Entry& touch(const types::Address& address) const {
        Accounts::Entry*& recent = recent_[address.data.back() % kRecent];
        if (recent == nullptr || recent->key != address) recent = &find_account(address);
        return *recent;
    }
    [[nodiscard]] Accounts::Entry& find_account(const types::Address& address) const;
    // Whether an entry with this number is in the journal after the newest point: then its old value is there already.
    [[nodiscard]] bool in_journal(std::uint32_t journaled) const { return journaled > newest_point_; }
    [[nodiscard]] std::uint32_t note(What what) {
        journal_.push_back(what);
        const std::size_t number = settled_ + journal_.size();
        ensure(number <= std::numeric_limits<std::uint32_t>::max(), "a journal counts no further");
        return static_cast<std::uint32_t>(number);
    }

    const StateReader& base_;
    mutable Accounts accounts_;
    static constexpr std::size_t kRecent = 16;
    mutable std::array<Accounts::Entry*, kRecent> recent_{};  // found last, by the address' last byte
    Slots storage_;
    std::map<Hash32, Bytes> code_;
    Natives native_;
    std::vector<types::Log> logs_;
    std::vector<What> journal_;
    std::size_t settled_ = 0;  // entries before journal_'s first one
    std::size_t newest_point_ = 0;
    std::vector<OldAccount> old_accounts_;
    std::vector<OldSlot> old_slots_;
    std::vector<Hash32> old_code_;
    std::vector<OldNative> old_natives_;
    ReadMeter* meter_ = nullptr;  // null: nobody counts
};

}  // namespace quern::chain::state
