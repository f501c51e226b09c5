// The chain's state as the EVM sees it (vm/evm/world.h): accounts, storage, code and logs are an Overlay's, beside
// those that native transactions write; what lasts as long as one transaction is kept here: what is warm, transient
// storage, values at the transaction's beginning, what was made and destroyed. A snapshot is one of both. Used by one
// thread, for one block; what a transaction leaves is told from the next one's by a number, so that nothing is cleared
// between them.
#pragma once

#include <array>
#include <vector>

#include "chain/evm/code_cache.h"
#include "chain/state/overlay.h"
#include "vm/evm/world.h"

namespace quern::chain::evm {

// Hashes of the blocks before the one that is executed.
class BlockHashes {
public:
    virtual ~BlockHashes() = default;
    // `number` is one of the 256 before the block's.
    [[nodiscard]] virtual Hash32 block_hash(std::uint64_t number) const = 0;
};

class StateWorld final : public vm::evm::World {
public:
    using Address = vm::evm::Address;

    // All outlive this. `block_number` is that of the block that is executed. Others may write to the overlay between
    // two transactions.
    StateWorld(state::Overlay& overlay, CodeCache& codes, const BlockHashes& hashes, std::uint64_t block_number);

    void begin_transaction() override;
    // `clears_empty` is what the overlay does (state::EmptyAccounts).
    void end_transaction(bool clears_empty) override;
    [[nodiscard]] std::size_t snapshot() override;
    void revert_to(std::size_t point) override;

    [[nodiscard]] bool exists(const Address& address) override;
    [[nodiscard]] bool is_empty(const Address& address) override;
    [[nodiscard]] Uint256 balance(const Address& address) override;
    [[nodiscard]] std::uint64_t nonce(const Address& address) override;
    [[nodiscard]] Hash32 code_hash(const Address& address) override;
    [[nodiscard]] std::shared_ptr<const vm::evm::Code> code(const Address& address) override;
    [[nodiscard]] bool has_storage(const Address& address) override;
    void set_balance(const Address& address, const Uint256& balance) override;
    void set_nonce(const Address& address, std::uint64_t nonce) override;
    void set_code(const Address& address, BytesView code) override;
    void touch(const Address& address) override;
    void create_contract(const Address& address) override;
    [[nodiscard]] bool is_new(const Address& address) override;
    bool mark_destroyed(const Address& address) override;

    [[nodiscard]] Slot access_slot(const Address& address, const Uint256& key) override;
    void set_storage(const Address& address, const Uint256& key, const Uint256& value) override;
    [[nodiscard]] Uint256 transient(const Address& address, const Uint256& key) override;
    void set_transient(const Address& address, const Uint256& key, const Uint256& value) override;
    bool access_account(const Address& address) override;

    void add_log(vm::evm::Log log) override;
    [[nodiscard]] Hash32 block_hash(std::uint64_t number) override;

private:
    // The number of the transaction in which something was so last.
    using Stamp = std::uint32_t;
    // An account that was met in this block.
    struct Met {
        state::Overlay::AccountRef account;
        Stamp begun = 0;  // whose values at the beginning are known
        Stamp warm = 0;
        Stamp made = 0;
        Stamp destroyed = 0;
        std::uint32_t clearing = 0;  // of its storage, at the beginning of the transaction `begun`
        Hash32 code_hash;            // of `code`, where that is not null
        std::shared_ptr<const vm::evm::Code> code;
    };
    struct MetSlot {
        Met* account = nullptr;
        state::Overlay::SlotRef slot;
        Stamp begun = 0;
        Stamp warm = 0;
        Uint256 original;  // at the beginning of the transaction `begun`
    };
    struct TransientSlot {
        Uint256 value;
        Stamp written = 0;  // zero in all other transactions
    };
    // Address, then the key's limbs as they lie in memory: found by equality alone.
    using SlotKey = FixedBytes<Address::kSize + sizeof(Uint256)>;
    using Accounts = state::KeyTable<Address, Met>;
    using Slots = state::KeyTable<SlotKey, MetSlot>;
    using TransientSlots = state::KeyTable<SlotKey, TransientSlot>;

    // What a revert puts back: a stamp and, with it, the newest of old_transients_ where it is one of a transient slot.
    struct Change {
        Stamp* stamp;
        Stamp old;
        TransientSlot* transient;
    };

    [[nodiscard]] Met& met(const Address& address) {
        Accounts::Entry*& recent = recent_[address.data.back() % kRecent];
        if (recent == nullptr || recent->key != address) recent = &find_account(address);
        begin(recent->value);
        return recent->value;
    }
    void begin(Met& account) const {
        if (account.begun == transaction_) return;
        account.begun = transaction_;
        account.clearing = overlay_.clearing(account.account);
    }
    [[nodiscard]] Accounts::Entry& find_account(const Address& address);
    [[nodiscard]] MetSlot& met_slot(const Address& address, const Uint256& key);
    [[nodiscard]] static SlotKey slot_key(const Address& address, const Uint256& key);
    [[nodiscard]] const state::Account& account(const Address& address) { return overlay_.view(met(address).account); }
    // The slot's value now; its original becomes known.
    Uint256 read(MetSlot& slot);
    void touch(Met& account);
    [[nodiscard]] bool is_there_and_empty(const Met& account) const {
        return overlay_.exists(account.account) && overlay_.view(account.account).is_empty();
    }
    // Marks it as of this transaction; whether it was.
    bool stamp(Stamp& stamp) {
        if (stamp == transaction_) return true;
        changes_.push_back({&stamp, stamp, nullptr});
        stamp = transaction_;
        return false;
    }

    state::Overlay& overlay_;
    CodeCache& codes_;
    const BlockHashes& hashes_;
    const std::uint64_t block_number_;
    const std::shared_ptr<const vm::evm::Code> no_code_;
    const Hash32 no_code_hash_;

    Stamp transaction_ = 1;  // number of the one that runs, in the block
    Accounts accounts_;
    static constexpr std::size_t kRecent = 16;
    std::array<Accounts::Entry*, kRecent> recent_{};  // found last, by the address' last byte
    Slots slots_;
    Slots::Entry* recent_slot_ = nullptr;
    TransientSlots transients_;
    // Of this transaction.
    std::vector<Change> changes_;
    std::vector<Uint256> old_transients_;
    std::vector<Met*> destroyed_;  // marked, if it was not reverted
    std::vector<Met*> touched_;    // empty accounts of the state before, as above
    Met* ripemd160_ = nullptr;     // touched, reverted or not
};

}  // namespace quern::chain::evm
