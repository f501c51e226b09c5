// A world of maps for tests of the machine: a snapshot is a copy of everything. One thread.
#pragma once

#include <map>
#include <set>

#include "crypto/hash.h"
#include "vm/evm/code.h"
#include "vm/evm/world.h"

namespace quern::vm::evm {

class MapWorld final : public World {
public:
    struct Account {
        Uint256 balance;
        std::uint64_t nonce = 0;
        Bytes code;
        std::map<Uint256, Uint256> storage;
        bool operator==(const Account&) const = default;
    };
    struct State {
        std::map<Address, Account> accounts;
        std::map<std::pair<Address, Uint256>, Uint256> transient;
        std::set<Address> warm, created, destroyed;
        std::set<std::pair<Address, Uint256>> warm_slots;
        std::vector<Log> logs;
    };
    State now;
    State before;  // the transaction's beginning

    void begin_transaction() override {
        now.transient.clear();
        now.warm.clear();
        now.created.clear();
        now.destroyed.clear();
        now.warm_slots.clear();
        now.logs.clear();
        before = now;
    }
    void end_transaction(bool clears_empty) override {
        for (const Address& address : now.destroyed) now.accounts.erase(address);
        if (clears_empty) std::erase_if(now.accounts, [this](const auto& each) { return is_empty(each.first); });
    }
    std::size_t snapshot() override {
        snapshots_.push_back(now);
        return snapshots_.size() - 1;
    }
    void revert_to(std::size_t point) override {
        now = snapshots_[point];
        snapshots_.resize(point + 1);
    }
    bool exists(const Address& address) override { return now.accounts.contains(address); }
    bool is_empty(const Address& address) override {
        const Account& account = get(address);
        return account.balance.is_zero() && account.nonce == 0 && account.code.empty();
    }
    Uint256 balance(const Address& address) override { return get(address).balance; }
    std::uint64_t nonce(const Address& address) override { return get(address).nonce; }
    Hash32 code_hash(const Address& address) override { return crypto::keccak256(get(address).code); }
    std::shared_ptr<const Code> code(const Address& address) override { return Code::analyse(get(address).code); }
    bool has_storage(const Address& address) override { return !get(address).storage.empty(); }
    void set_balance(const Address& address, const Uint256& balance) override {
        now.accounts[address].balance = balance;
    }
    void set_nonce(const Address& address, std::uint64_t nonce) override { now.accounts[address].nonce = nonce; }
    void set_code(const Address& address, BytesView code) override { now.accounts[address].code = to_bytes(code); }
    void touch(const Address& address) override { now.accounts[address]; }
    void create_contract(const Address& address) override {
        now.accounts[address].storage.clear();
        now.created.insert(address);
    }
    bool is_new(const Address& address) override { return now.created.contains(address); }
    bool mark_destroyed(const Address& address) override { return now.destroyed.insert(address).second; }
    Slot access_slot(const Address& address, const Uint256& key) override {
        const bool was_warm = !now.warm_slots.insert({address, key}).second;
        return {value_of(now, address, key), value_of(before, address, key), was_warm};
    }
    void set_storage(const Address& address, const Uint256& key, const Uint256& value) override {
        now.accounts[address].storage[key] = value;
    }
    Uint256 transient(const Address& address, const Uint256& key) override { return now.transient[{address, key}]; }
    void set_transient(const Address& address, const Uint256& key, const Uint256& value) override {
        now.transient[{address, key}] = value;
    }
    bool access_account(const Address& address) override { return !now.warm.insert(address).second; }
    void add_log(Log log) override { now.logs.push_back(std::move(log)); }
    Hash32 block_hash(std::uint64_t number) override { return Uint256(number).to_be32(); }

private:
    const Account& get(const Address& address) const {
        static const Account kNone;
        const auto found = now.accounts.find(address);
        return found == now.accounts.end() ? kNone : found->second;
    }
    static Uint256 value_of(const State& state, const Address& address, const Uint256& key) {
        const auto account = state.accounts.find(address);
        if (account == state.accounts.end()) return {};
        const auto slot = account->second.storage.find(key);
        return slot == account->second.storage.end() ? Uint256() : slot->second;
    }
    std::vector<State> snapshots_;
};

}  // namespace quern::vm::evm
