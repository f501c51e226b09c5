#include "chain/evm/state_world.h"

#include <bit>

#include "base/ensure.h"
#include "crypto/hash.h"

namespace quern::chain::evm {
namespace {

using vm::evm::Code;

constexpr std::uint64_t kReachableBlocks = 256;

// RIPEMD-160, which stays touched when a call of it is reverted: so the chain was in block 2,675,119, and so the rule
// is for all (EIP-161, addendum of the Yellow Paper's appendix K).
constexpr std::uint8_t kRipemd160 = 3;

bool is_ripemd160(const Bytes20& address) {
    Bytes20 ripemd160;
    ripemd160.data.back() = kRipemd160;
    return address == ripemd160;
}

// A point is the overlay's, which fits 32 bits, and the place in the changes of the transaction.
static_assert(sizeof(std::size_t) == 8);
constexpr unsigned kPlaceBits = 32;

Uint256 to_number(const Hash32& word) {
    Uint256 number;
    for (std::size_t i = 0; i < 4; ++i) {
        std::memcpy(&number.limb[3 - i], word.data.data() + 8 * i, 8);
        if constexpr (std::endian::native == std::endian::little)
            number.limb[3 - i] = __builtin_bswap64(number.limb[3 - i]);
    }
    return number;
}

Hash32 to_word(const Uint256& number) {
    Hash32 word;
    for (std::size_t i = 0; i < 4; ++i) {
        std::uint64_t limb = number.limb[3 - i];
        if constexpr (std::endian::native == std::endian::little) limb = __builtin_bswap64(limb);
        std::memcpy(word.data.data() + 8 * i, &limb, 8);
    }
    return word;
}

}  // namespace

StateWorld::StateWorld(state::Overlay& overlay, CodeCache& codes, const BlockHashes& hashes, std::uint64_t block_number)
    : overlay_(overlay),
      codes_(codes),
      hashes_(hashes),
      block_number_(block_number),
      no_code_(Code::analyse({})),
      no_code_hash_(crypto::keccak256({})) {}

void StateWorld::begin_transaction() {
    ensure(transaction_ != std::numeric_limits<Stamp>::max(), "a block has no more transactions than can be counted");
    ++transaction_;
    changes_.clear();
    old_transients_.clear();
    destroyed_.clear();
    touched_.clear();
    ripemd160_ = nullptr;
}

void StateWorld::end_transaction(bool clears_empty) {
    ensure(clears_empty != overlay_.keeps_empty(), "what becomes of empty accounts is a rule of the fork");
    for (const Met* account : destroyed_)
        if (account->destroyed == transaction_) overlay_.erase(account->account);
    if (!clears_empty) return;
    // Others that are written and empty are none to the overlay; these may have storage, too.
    for (const Met* account : touched_)
        if (!overlay_.exists(account->account)) overlay_.erase(account->account);
    if (ripemd160_ != nullptr && is_there_and_empty(*ripemd160_)) overlay_.erase(ripemd160_->account);
}

std::size_t StateWorld::snapshot() {
    const std::size_t place = changes_.size();
    ensure(place >> kPlaceBits == 0, "a transaction changes no more than can be counted");
    return overlay_.snapshot() << kPlaceBits | place;
}

void StateWorld::revert_to(std::size_t point) {
    overlay_.revert_to(point >> kPlaceBits);
    const std::size_t place = point & ((std::size_t{1} << kPlaceBits) - 1);
    for (; changes_.size() > place; changes_.pop_back()) {
        const Change& change = changes_.back();
        *change.stamp = change.old;
        if (change.transient == nullptr) continue;
        change.transient->value = old_transients_.back();
        old_transients_.pop_back();
    }
}

// --- What was met.

StateWorld::Accounts::Entry& StateWorld::find_account(const Address& address) {
    const auto [entry, added] = accounts_.find_or_add(address);
    if (added) entry->value.account = overlay_.account_ref(address);
    return *entry;
}

StateWorld::SlotKey StateWorld::slot_key(const Address& address, const Uint256& key) {
    SlotKey joined;
    std::memcpy(joined.data.data(), address.data.data(), Address::kSize);
    std::memcpy(joined.data.data() + Address::kSize, key.limb.data(), sizeof(key.limb));
    return joined;
}

StateWorld::MetSlot& StateWorld::met_slot(const Address& address, const Uint256& key) {
    const SlotKey wanted = slot_key(address, key);
    if (recent_slot_ == nullptr || recent_slot_->key != wanted) {
        const auto [entry, added] = slots_.find_or_add(wanted);
        if (added) {
            entry->value.account = &met(address);
            entry->value.slot = overlay_.slot_ref(entry->value.account->account, to_word(key));
        }
        recent_slot_ = entry;
    }
    begin(*recent_slot_->value.account);
    return recent_slot_->value;
}

Uint256 StateWorld::read(MetSlot& slot) {
    const Uint256 value = to_number(overlay_.value(slot.slot));
    if (slot.begun == transaction_) return value;
    // Storage that was cleared within the transaction was another at its beginning, and may be so again after a revert.
    if (overlay_.clearing(slot.account->account) == slot.account->clearing) {
        slot.original = value;
        slot.begun = transaction_;
    }
    return value;
}

// --- Accounts.

bool StateWorld::exists(const Address& address) { return overlay_.exists(met(address).account); }

bool StateWorld::is_empty(const Address& address) { return account(address).is_empty(); }

Uint256 StateWorld::balance(const Address& address) { return account(address).balance; }

std::uint64_t StateWorld::nonce(const Address& address) { return account(address).nonce; }

Hash32 StateWorld::code_hash(const Address& address) { return account(address).code_hash; }

std::shared_ptr<const Code> StateWorld::code(const Address& address) {
    Met& found = met(address);
    const Hash32& hash = overlay_.view(found.account).code_hash;
    if (found.code != nullptr && found.code_hash == hash) return found.code;
    if (hash == no_code_hash_) return no_code_;
    auto code = codes_.find(hash);
    if (code == nullptr) {
        const Bytes bytes = overlay_.code(hash);
        // A fault of the store reads as nothing: whoever executes looks at its status, and others must not inherit it.
        if (bytes.empty()) return no_code_;
        code = codes_.put(hash, Code::analyse(bytes));
    }
    found.code_hash = hash;
    found.code = std::move(code);
    return found.code;
}

bool StateWorld::has_storage(const Address& address) { return overlay_.has_storage(met(address).account); }

void StateWorld::set_balance(const Address& address, const Uint256& balance) {
    Met& found = met(address);
    if (overlay_.view(found.account).balance == balance)
        touch(found);
    else
        overlay_.change(found.account).balance = balance;
}

void StateWorld::set_nonce(const Address& address, std::uint64_t nonce) {
    overlay_.change(met(address).account).nonce = nonce;
}

void StateWorld::set_code(const Address& address, BytesView code) {
    const Hash32 hash = crypto::keccak256(code);
    if (!code.empty()) overlay_.set_code(hash, to_bytes(code));
    overlay_.change(met(address).account).code_hash = hash;
}

void StateWorld::touch(const Address& address) {
    Met& found = met(address);
    touch(found);
    if (is_ripemd160(address)) ripemd160_ = &found;
}

// An account that is not empty is not changed by a touch, and one that is neither empty nor there is not made by it
// where empty ones are removed.
void StateWorld::touch(Met& account) {
    if (overlay_.keeps_empty()) {
        if (!overlay_.exists(account.account)) (void)overlay_.change(account.account);
    } else if (is_there_and_empty(account)) {
        (void)overlay_.change(account.account);
        touched_.push_back(&account);
    }
}

void StateWorld::create_contract(const Address& address) {
    Met& found = met(address);
    overlay_.clear_storage(found.account);
    stamp(found.made);
}

bool StateWorld::is_new(const Address& address) { return met(address).made == transaction_; }

bool StateWorld::mark_destroyed(const Address& address) {
    Met& found = met(address);
    if (stamp(found.destroyed)) return false;
    destroyed_.push_back(&found);
    return true;
}

bool StateWorld::access_account(const Address& address) { return stamp(met(address).warm); }

// --- Storage.

StateWorld::Slot StateWorld::access_slot(const Address& address, const Uint256& key) {
    MetSlot& slot = met_slot(address, key);
    Slot result;
    result.value = read(slot);
    // A contract that was made in this transaction has had nothing before.
    if (overlay_.clearing(slot.account->account) == slot.account->clearing) result.original = slot.original;
    result.was_warm = stamp(slot.warm);
    return result;
}

void StateWorld::set_storage(const Address& address, const Uint256& key, const Uint256& value) {
    MetSlot& slot = met_slot(address, key);
    if (read(slot) != value) overlay_.set_value(slot.slot, to_word(value));
}

Uint256 StateWorld::transient(const Address& address, const Uint256& key) {
    const auto* found = transients_.find(slot_key(address, key));
    return found != nullptr && found->value.written == transaction_ ? found->value.value : Uint256();
}

void StateWorld::set_transient(const Address& address, const Uint256& key, const Uint256& value) {
    TransientSlot& slot = transients_.find_or_add(slot_key(address, key)).first->value;
    changes_.push_back({&slot.written, slot.written, &slot});
    old_transients_.push_back(slot.value);
    slot.written = transaction_;
    slot.value = value;
}

// --- The block.

void StateWorld::add_log(vm::evm::Log log) {
    overlay_.add_log({log.address, std::move(log.topics), std::move(log.data)});
}

Hash32 StateWorld::block_hash(std::uint64_t number) {
    if (number >= block_number_ || block_number_ - number > kReachableBlocks) return {};
    return hashes_.block_hash(number);
}

}  // namespace quern::chain::evm
