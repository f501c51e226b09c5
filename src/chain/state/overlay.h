// Working state during execution: reads fall through to a StateReader (the flat tables of the last committed block, or
// an earlier unfinalized overlay), writes stay here until they are committed or dropped. One journal covers accounts,
// storage and native objects, so that a revert undoes all. What was read of an account or a slot is remembered: the
// base is asked once. Used by one thread, reads included.
//
// An account's storage can be cleared as a whole (a contract is destroyed, or made where one was): from then on its
// slots are those that were written since. Each clearing has a number, and a slot that was written knows under which
// one, so that clearing costs the same however many slots there are, and a revert brings them back.
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

// What becomes of accounts that are written and empty: removed (EIP-161), or kept as before Spurious Dragon, which only
// Ethereum's own tests ask for (StateTries know the first alone).
enum class EmptyAccounts : std::uint8_t { removed, kept };

class Overlay final : public StateReader {
public:
    class AccountRef;
    class SlotRef;

    explicit Overlay(const StateReader& base, EmptyAccounts empty = EmptyAccounts::removed)
        : base_(base), keeps_empty_(empty == EmptyAccounts::kept) {}
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

    // --- An account or a slot at hand: found once, then read and written without another look-up. Good as long as the
    // overlay.
    [[nodiscard]] AccountRef account_ref(const types::Address& address) const;
    [[nodiscard]] SlotRef slot_ref(AccountRef account, const Hash32& slot) const;
    [[nodiscard]] const Account& view(AccountRef account) const;
    [[nodiscard]] bool exists(AccountRef account) const;
    [[nodiscard]] Account& change(AccountRef account);  // as change_account
    // The account and its storage are gone; what is written of it later makes it anew.
    void erase(AccountRef account);
    // Each slot reads as zero. The account counts as written.
    void clear_storage(AccountRef account);
    // The number of the clearing under which its slots are; 0: they are the base's and what was written over it.
    [[nodiscard]] std::uint32_t clearing(AccountRef account) const;
    // Whether a slot is not zero. Slots of the base that were set to zero one by one count as if they were not.
    [[nodiscard]] bool has_storage(AccountRef account) const;
    [[nodiscard]] Hash32 value(SlotRef slot) const;
    void set_value(SlotRef slot, const Hash32& value);
    [[nodiscard]] bool keeps_empty() const { return keeps_empty_; }

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
    // By address, then slot. Of storage that was cleared: what was written since.
    [[nodiscard]] std::vector<StorageChange> changed_storage() const;
    // Nothing of the base's storage is left.
    [[nodiscard]] bool is_storage_cleared(const types::Address& address) const;
    // The slot as the base has it.
    [[nodiscard]] Hash32 storage_before(const types::Address& address, const Hash32& slot) const;
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
    // What the journal brings back of an account or slot that was read or written. A read alone leaves `changed` false.
    struct AccountState {
        Account account;
        bool changed = false;
        bool erased = false;
        bool wrote_slots = false;     // since `clearing` with others than zero; it may be that all were reverted
        std::uint32_t clearing = 0;   // the newest of its storage
        std::uint32_t journaled = 0;  // number of its newest journal entry, from 1
    };
    struct TouchedAccount {
        AccountState now;
        Account before;  // the base's, or an empty one
        bool existed = false;
    };
    struct SlotState {
        Hash32 value;
        bool changed = false;
        std::uint32_t clearing = 0;  // of the account, when it was written
        std::uint32_t journaled = 0;
    };
    struct TouchedSlot {
        SlotState now;
        Hash32 before;
        bool is_before_known = false;
    };
    using Accounts = KeyTable<types::Address, TouchedAccount>;
    using Slots = KeyTable<FixedBytes<types::Address::kSize + Hash32::kSize>, TouchedSlot>;

    // What a journal entry undoes; the old values lie on a stack for each kind.
    enum class What : std::uint8_t { account, storage, code, native, log };
    struct OldAccount {
        Accounts::Entry* entry;
        AccountState state;
    };
    struct OldSlot {
        Slots::Entry* entry;
        SlotState state;
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
    [[nodiscard]] const Account& view(const TouchedAccount& touched) const {
        // An empty account is none, whatever roots it was written with.
        return touched.now.changed && touched.now.account.is_empty() ? empty_ : touched.now.account;
    }
    [[nodiscard]] bool exists(const TouchedAccount& touched) const {
        if (!touched.now.changed) return touched.existed;
        return !touched.now.erased && (keeps_empty_ || !touched.now.account.is_empty());
    }
    [[nodiscard]] AccountState& change(Accounts::Entry& entry);
    [[nodiscard]] const Hash32& before(Slots::Entry& entry) const;
    // Whether an entry with this number is in the journal after the newest point: then its old value is there already.
    [[nodiscard]] bool in_journal(std::uint32_t journaled) const { return journaled > newest_point_; }
    [[nodiscard]] std::uint32_t note(What what) {
        journal_.push_back(what);
        const std::size_t number = settled_ + journal_.size();
        ensure(number <= std::numeric_limits<std::uint32_t>::max(), "a journal counts no further");
        return static_cast<std::uint32_t>(number);
    }

    const StateReader& base_;
    const bool keeps_empty_;
    const Account empty_ = empty_account();
    mutable Accounts accounts_;
    static constexpr std::size_t kRecent = 16;
    mutable std::array<Accounts::Entry*, kRecent> recent_{};  // found last, by the address' last byte
    mutable Slots storage_;
    std::uint32_t clearings_ = 0;  // numbers that were given
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

class Overlay::AccountRef {
public:
    AccountRef() = default;

private:
    friend class Overlay;
    explicit AccountRef(Accounts::Entry* entry) : entry_(entry) {}
    Accounts::Entry* entry_ = nullptr;
};

class Overlay::SlotRef {
public:
    SlotRef() = default;

private:
    friend class Overlay;
    SlotRef(Accounts::Entry* account, Slots::Entry* slot) : account_(account), slot_(slot) {}
    Accounts::Entry* account_ = nullptr;
    Slots::Entry* slot_ = nullptr;
};

inline Overlay::AccountRef Overlay::account_ref(const types::Address& address) const {
    return AccountRef(&touch(address));
}
inline const Account& Overlay::view(AccountRef account) const { return view(account.entry_->value); }
inline bool Overlay::exists(AccountRef account) const { return exists(account.entry_->value); }
inline Account& Overlay::change(AccountRef account) { return change(*account.entry_).account; }
inline std::uint32_t Overlay::clearing(AccountRef account) const { return account.entry_->value.now.clearing; }
inline Hash32 Overlay::value(SlotRef slot) const {
    const SlotState& now = slot.slot_->value.now;
    const std::uint32_t clearing = slot.account_->value.now.clearing;
    if (now.changed && now.clearing == clearing) return now.value;
    return clearing != 0 ? Hash32() : before(*slot.slot_);
}

}  // namespace quern::chain::state
