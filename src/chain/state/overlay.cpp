#include "chain/state/overlay.h"

#include <algorithm>

#include "chain/types/block.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

const Hash32& empty_code_hash() {
    static const Hash32 hash = crypto::keccak256({});
    return hash;
}

bool has_prefix(BytesView key, BytesView prefix) {
    return key.size() >= prefix.size() && equal(key.first(prefix.size()), prefix);
}

}  // namespace

bool Account::is_empty() const { return nonce == 0 && balance.is_zero() && code_hash == empty_code_hash(); }

Account empty_account() {
    Account account;
    account.storage_root = types::kEmptyTrieRoot;
    account.code_hash = empty_code_hash();
    return account;
}

std::optional<Account> Overlay::account(const types::Address& address) const {
    const auto found = accounts_.find(address);
    if (found == accounts_.end()) return base_.account(address);
    if (found->second.is_empty()) return std::nullopt;
    return found->second;
}

Bytes Overlay::code(const Hash32& code_hash) const {
    const auto found = code_.find(code_hash);
    return found != code_.end() ? found->second : base_.code(code_hash);
}

Hash32 Overlay::storage(const types::Address& address, const Hash32& slot) const {
    const auto found = storage_.find({address, slot});
    return found != storage_.end() ? found->second : base_.storage(address, slot);
}

std::optional<Bytes> Overlay::native(BytesView key) const {
    const auto found = native_.find(key);
    return found != native_.end() ? found->second : base_.native(key);
}

std::vector<std::pair<Bytes, Bytes>> Overlay::native_range(BytesView prefix, BytesView start, std::size_t limit) const {
    const Bytes from = to_bytes(as_text(start) < as_text(prefix) ? prefix : start);
    auto change = native_.lower_bound(from);
    std::size_t hidden = 0;
    for (auto it = change; it != native_.end() && has_prefix(it->first, prefix); ++it)
        if (!it->second) ++hidden;
    const auto below = base_.native_range(prefix, from, limit + hidden);

    std::vector<std::pair<Bytes, Bytes>> merged;
    auto old = below.begin();
    while (merged.size() < limit) {
        const bool have_change = change != native_.end() && has_prefix(change->first, prefix);
        if (have_change && (old == below.end() || as_text(change->first) <= as_text(old->first))) {
            if (old != below.end() && old->first == change->first) ++old;
            if (change->second) merged.emplace_back(change->first, *change->second);
            ++change;
        } else if (old != below.end()) {
            merged.push_back(*old++);
        } else {
            break;
        }
    }
    return merged;
}

Account Overlay::account_or_empty(const types::Address& address) const {
    auto found = account(address);
    return found ? *found : empty_account();
}

void Overlay::set_account(const types::Address& address, const Account& account) {
    JournalEntry entry{JournalEntry::What::account, to_bytes(address), std::nullopt, {}, std::nullopt, std::nullopt};
    const auto [position, inserted] = accounts_.try_emplace(address, account);
    if (!inserted) {
        entry.account = position->second;
        position->second = account;
    }
    journal_.push_back(std::move(entry));
}

void Overlay::set_code(const Hash32& code_hash, Bytes code) {
    if (!code_.try_emplace(code_hash, std::move(code)).second) return;
    journal_.push_back({JournalEntry::What::code, {}, std::nullopt, code_hash, std::nullopt, std::nullopt});
}

void Overlay::set_storage(const types::Address& address, const Hash32& slot, const Hash32& value) {
    JournalEntry entry{JournalEntry::What::storage, to_bytes(address), std::nullopt, slot, std::nullopt, std::nullopt};
    const auto [position, inserted] = storage_.try_emplace({address, slot}, value);
    if (!inserted) {
        entry.storage = position->second;
        position->second = value;
    }
    journal_.push_back(std::move(entry));
}

void Overlay::set_native(Bytes key, Bytes value) { write_native(std::move(key), std::move(value)); }

void Overlay::erase_native(const Bytes& key) { write_native(key, std::nullopt); }

void Overlay::write_native(Bytes key, std::optional<Bytes> value) {
    JournalEntry entry{JournalEntry::What::native, key, std::nullopt, {}, std::nullopt, std::nullopt};
    const auto found = native_.find(key);
    if (found != native_.end()) {
        entry.native = std::move(found->second);
        found->second = std::move(value);
    } else {
        native_.emplace(std::move(key), std::move(value));
    }
    journal_.push_back(std::move(entry));
}

void Overlay::add_log(types::Log log) {
    logs_.push_back(std::move(log));
    journal_.push_back({JournalEntry::What::log, {}, std::nullopt, {}, std::nullopt, std::nullopt});
}

void Overlay::revert_to(std::size_t point) {
    while (journal_.size() > point) {
        auto& entry = journal_.back();
        switch (entry.what) {
            case JournalEntry::What::account: {
                const auto address = types::Address::copy_of(entry.key);
                if (entry.account)
                    accounts_[address] = *entry.account;
                else
                    accounts_.erase(address);
                break;
            }
            case JournalEntry::What::storage: {
                const std::pair key{types::Address::copy_of(entry.key), entry.slot};
                if (entry.storage)
                    storage_[key] = *entry.storage;
                else
                    storage_.erase(key);
                break;
            }
            case JournalEntry::What::code:
                code_.erase(entry.slot);
                break;
            case JournalEntry::What::native:
                if (entry.native)
                    native_[entry.key] = std::move(*entry.native);
                else
                    native_.erase(entry.key);
                break;
            case JournalEntry::What::log:
                if (!logs_.empty()) logs_.pop_back();
                break;
        }
        journal_.pop_back();
    }
}

std::size_t Overlay::native_writes_since(std::size_t point) const {
    std::set<std::string_view> keys;
    for (std::size_t i = point; i < journal_.size(); ++i)
        if (journal_[i].what == JournalEntry::What::native) keys.insert(as_text(journal_[i].key));
    return keys.size();
}

std::vector<types::Log> Overlay::take_logs() { return std::exchange(logs_, {}); }

}  // namespace quern::chain::state
