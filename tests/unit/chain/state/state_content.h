// The state as plain maps, with random changes to it: what the stored tries and the tables are compared with.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "base/rlp.h"
#include "base/rng.h"
#include "chain/state/account_codec.h"
#include "chain/state/overlay.h"
#include "chain/state/state_tries.h"
#include "chain/store/tables.h"

namespace quern::chain::state {

inline types::Address address(std::uint64_t number) {
    types::Address result;
    result.data[18] = static_cast<std::uint8_t>(number >> 8);
    result.data[19] = static_cast<std::uint8_t>(number);
    return result;
}

inline Bytes native_key(std::uint64_t number) { return {0x01, static_cast<std::uint8_t>(number)}; }

struct Content {
    std::map<types::Address, Account> accounts;
    std::map<types::Address, std::map<Hash32, Hash32>> slots;
    std::map<Bytes, Bytes, BytesLess> natives;
};

inline Hash32 storage_root_of(const std::map<Hash32, Hash32>& slots) {
    std::vector<std::pair<Bytes, Bytes>> pairs;
    for (const auto& [slot, value] : slots) {
        rlp::Writer out;
        out.integer(Uint256::from_be(value));
        pairs.emplace_back(to_bytes(slot), std::move(out).finish());
    }
    return secure_trie_root(pairs);
}

inline Roots roots_of(const Content& content) {
    std::vector<std::pair<Bytes, Bytes>> accounts;
    for (auto [who, account] : content.accounts) {
        const auto slots = content.slots.find(who);
        account.storage_root = slots == content.slots.end() ? empty_trie_root() : storage_root_of(slots->second);
        accounts.emplace_back(to_bytes(who), encode(account));
    }
    std::vector<std::pair<Bytes, Bytes>> natives(content.natives.begin(), content.natives.end());
    return {secure_trie_root(accounts), trie_root(natives)};
}

// Random writes to the overlay and to the content.
inline void change(Rng& rng, Overlay& overlay, Content& content, std::uint64_t people) {
    for (std::uint64_t i = rng.below(12); i > 0; --i) {
        const auto who = address(rng.below(people));
        if (rng.below(5) == 0) {  // all its storage goes, in half of the cases with the account
            const bool with_account = rng.below(2) == 0;
            const auto account = overlay.account_ref(who);
            with_account ? overlay.erase(account) : overlay.clear_storage(account);
            if (with_account) content.accounts.erase(who);
            content.slots.erase(who);
            if (rng.below(2) == 0) continue;
        }
        Account account = overlay.account_or_empty(who);
        if (rng.below(4) == 0 && !content.slots.contains(who)) {
            overlay.set_account(who, empty_account());
            content.accounts.erase(who);
            continue;
        }
        account.balance = 1 + rng.below(1'000'000);
        overlay.set_account(who, account);
        content.accounts[who] = account;
        if (rng.below(4) == 0) {
            Hash32 slot;
            slot.data[31] = static_cast<std::uint8_t>(rng.below(6));
            Hash32 value;
            value.data[31] = static_cast<std::uint8_t>(rng.below(3));
            overlay.set_storage(who, slot, value);
            auto& slots = content.slots[who];
            if (value.is_zero())
                slots.erase(slot);
            else
                slots[slot] = value;
        }
    }
    for (std::uint64_t i = rng.below(4); i > 0; --i) {
        const Bytes key = native_key(rng.below(40));
        if (rng.below(3) == 0) {
            overlay.erase_native(key);
            content.natives.erase(key);
        } else {
            const Bytes value(1 + rng.below(50), static_cast<std::uint8_t>(rng.u64()));
            overlay.set_native(key, value);
            content.natives[key] = value;
        }
    }
}

inline std::size_t count(const store::Reader& store, store::Table table) {
    std::size_t found = 0;
    EXPECT_TRUE(store.for_each(store::table_key(table), {}, [&](BytesView, BytesView) {
        ++found;
        return true;
    }));
    return found;
}

}  // namespace quern::chain::state
