#include "chain/state/account_cache.h"

#include <algorithm>
#include <vector>

namespace quern::chain::state {

AccountCache::AccountCache(std::size_t max_accounts) : max_of_part_(std::max<std::size_t>(1, max_accounts / kParts)) {}

// By the hash's upper bits: the tables place by the lower ones.
std::size_t AccountCache::part_of(const types::Address& address) const {
    return static_cast<std::size_t>(seeded_hash<types::Address::kSize>(address.data.data(), seed_) >> 32) % kParts;
}

std::optional<Account> AccountCache::find(const types::Address& address, std::uint64_t height) {
    Part& part = parts_[part_of(address)];
    const MutexLock lock(part.mutex);
    if (part.height != height) return std::nullopt;
    if (const auto* found = part.young->find(address)) return found->value;
    const auto* found = part.old->find(address);
    if (found == nullptr) return std::nullopt;
    const Account account = found->value;
    put_in(part, address, account);
    return account;
}

void AccountCache::put(const types::Address& address, const Account& account, std::uint64_t height) {
    Part& part = parts_[part_of(address)];
    const MutexLock lock(part.mutex);
    // What was read before a commit may be what that changed.
    if (part.height == height) put_in(part, address, account);
}

void AccountCache::put_all(const AccountTable& changed, std::uint64_t height) {
    std::array<std::vector<const AccountTable::Entry*>, kParts> of_part;
    for (const auto* entry : changed.in_key_order([](const Account&) { return true; }))
        of_part[part_of(entry->key)].push_back(entry);
    for (std::size_t i = 0; i < kParts; ++i) {
        Part& part = parts_[i];
        const MutexLock lock(part.mutex);
        part.height = height;
        for (const auto* entry : of_part[i]) put_in(part, entry->key, entry->value);
    }
}

void AccountCache::put_in(Part& part, const types::Address& address, const Account& account) {
    if (part.young->size() >= max_of_part_ && part.young->find(address) == nullptr) {
        part.old = std::move(part.young);
        part.young = std::make_unique<AccountTable>();
    }
    part.young->find_or_add(address).first->value = account;
}

std::size_t AccountCache::size() const {
    std::size_t sum = 0;
    for (const Part& part : parts_) {
        const MutexLock lock(part.mutex);
        sum += part.young->size() + part.old->size();
    }
    return sum;
}

}  // namespace quern::chain::state
