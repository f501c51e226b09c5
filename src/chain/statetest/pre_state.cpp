#include "chain/statetest/pre_state.h"

#include <algorithm>

#include "base/rlp.h"
#include "chain/state/account_codec.h"
#include "chain/state/trie.h"
#include "crypto/hash.h"

namespace quern::chain::statetest {
namespace {

using Pairs = std::vector<std::pair<Bytes, Bytes>>;

bool is_before(const PreState::Slot& slot, const Hash32& key) { return slot.first < key; }

// What was there with what was written over it; both by key.
std::vector<PreState::Slot> merge(std::span<const PreState::Slot> below,
                                  std::span<const state::Overlay::StorageChange> changes) {
    std::vector<PreState::Slot> slots;
    slots.reserve(below.size() + changes.size());
    auto old = below.begin();
    for (const auto& change : changes) {
        while (old != below.end() && old->first < change.slot) slots.push_back(*old++);
        if (old != below.end() && old->first == change.slot) ++old;
        if (!change.value.is_zero()) slots.emplace_back(change.slot, change.value);
    }
    slots.insert(slots.end(), old, below.end());
    return slots;
}

Status parse_slots(const json::Value& storage, std::vector<PreState::Slot>& slots) {
    for (const auto& member : storage.members()) {
        QUERN_TRY(const Uint256 key, parse_number(json::Value(member.key)));
        QUERN_TRY(const Uint256 value, parse_number(member.value));
        if (!value.is_zero()) slots.emplace_back(key.to_be32(), value.to_be32());
    }
    std::sort(slots.begin(), slots.end());
    return {};
}

}  // namespace

Expected<Uint256> parse_number(const json::Value& value) {
    QUERN_TRY(const std::string_view text, value.as_string());
    if (text == "0x") return Uint256();
    const bool is_long = text.starts_with("0x") && text.size() > 2 + 2 * Hash32::kSize;
    if (is_long || text.starts_with("0x:")) return fail(kNumberTooLarge, std::string(text));
    return Uint256::from_hex_quantity(text);
}

Expected<std::uint64_t> parse_u64(const json::Value& value) {
    QUERN_TRY(const Uint256 number, parse_number(value));
    if (!number.fits_u64()) return fail(kNumberTooLarge, number.to_hex_quantity());
    return number.low_u64();
}

Hash32 storage_root(std::span<const PreState::Slot> slots) {
    if (slots.empty()) return state::empty_trie_root();
    Pairs pairs;
    pairs.reserve(slots.size());
    for (const auto& [key, value] : slots) {
        rlp::Writer out;
        out.integer(Uint256::from_be(value));
        pairs.emplace_back(to_bytes(key), std::move(out).finish());
    }
    return state::secure_trie_root(pairs);
}

Expected<PreState> PreState::parse(const json::Value& accounts) {
    PreState state;
    for (const auto& member : accounts.members()) {
        const auto parse_account = [&]() -> Expected<Item> {
            Item item;
            item.account = state::empty_account();
            QUERN_TRY(item.address, fixed_from_hex<types::Address::kSize>(member.key));
            QUERN_TRY(const auto* nonce, member.value.get("nonce"));
            QUERN_TRY(item.account.nonce, parse_u64(*nonce));
            QUERN_TRY(const auto* balance, member.value.get("balance"));
            QUERN_TRY(item.account.balance, parse_number(*balance));
            QUERN_TRY(const std::string_view code, member.value.get_string("code"));
            QUERN_TRY(Bytes bytes, from_hex(code));
            if (!bytes.empty()) item.account.code_hash = crypto::keccak256(bytes);
            item.code = std::make_shared<const Bytes>(std::move(bytes));
            QUERN_TRY(const auto* storage, member.value.get_object("storage"));
            QUERN_CHECK(parse_slots(*storage, item.slots));
            item.account.storage_root = storage_root(item.slots);
            return item;
        };
        auto item = parse_account();
        if (!item) return detailed(item.error(), "account " + member.key + ": " + item.error().to_string());
        state.items_.push_back(std::make_shared<const Item>(std::move(*item)));
    }
    std::sort(state.items_.begin(), state.items_.end(),
              [](const auto& a, const auto& b) { return a->address < b->address; });
    return state;
}

PreState::Items::const_iterator PreState::seek(const types::Address& address) const {
    return std::lower_bound(items_.begin(), items_.end(), address,
                            [](const auto& item, const types::Address& wanted) { return item->address < wanted; });
}

const PreState::Item* PreState::find(const types::Address& address) const {
    const auto found = seek(address);
    return found != items_.end() && (*found)->address == address ? found->get() : nullptr;
}

std::optional<state::Account> PreState::account(const types::Address& address) const {
    const Item* item = find(address);
    return item == nullptr ? std::nullopt : std::optional(item->account);
}

Bytes PreState::code(const Hash32& code_hash) const {
    for (const auto& item : items_)
        if (item->account.code_hash == code_hash) return *item->code;
    return {};
}

Hash32 PreState::storage(const types::Address& address, const Hash32& slot) const {
    const Item* item = find(address);
    if (item == nullptr) return {};
    const auto found = std::lower_bound(item->slots.begin(), item->slots.end(), slot, is_before);
    return found != item->slots.end() && found->first == slot ? found->second : Hash32();
}

void PreState::for_each(const state::Overlay& overlay, const Visitor& visit) const {
    const auto accounts = overlay.changed_accounts();
    const auto changes = overlay.changed_storage();
    auto item = items_.begin();
    auto account = accounts.begin();
    auto change = changes.begin();
    // The three are ordered by address: walk them together, one account at a time.
    while (item != items_.end() || account != accounts.end() || change != changes.end()) {
        std::optional<types::Address> address;
        const auto at = [&](const types::Address& other) {
            if (!address || other < *address) address = other;
        };
        if (item != items_.end()) at((*item)->address);
        if (account != accounts.end()) at(account->first);
        if (change != changes.end()) at(change->address);
        const Item* below = item != items_.end() && (*item)->address == *address ? (item++)->get() : nullptr;
        if (account != accounts.end() && account->first == *address) ++account;
        const auto first = change;
        while (change != changes.end() && change->address == *address) ++change;

        auto now = overlay.account(*address);
        if (!now) continue;
        std::span<const Slot> slots;
        if (below != nullptr && !overlay.is_storage_cleared(*address)) slots = below->slots;
        if (first == change) {
            visit(*address, *now, slots);
            continue;
        }
        const auto merged = merge(slots, {first, change});
        now->storage_root = storage_root(merged);
        visit(*address, *now, merged);
    }
}

Hash32 PreState::root(const state::Overlay& overlay) const {
    Pairs pairs;
    for_each(overlay, [&](const types::Address& address, const state::Account& account, std::span<const Slot>) {
        pairs.emplace_back(to_bytes(address), state::encode(account));
    });
    return state::secure_trie_root(pairs);
}

PreState PreState::after(const state::Overlay& overlay) const {
    PreState state;
    for_each(overlay, [&](const types::Address& address, const state::Account& account, std::span<const Slot> slots) {
        const auto below = seek(address);
        const bool was_there = below != items_.end() && (*below)->address == address;
        if (was_there && (*below)->account == account) {
            state.items_.push_back(*below);
            return;
        }
        Item item{address, account, nullptr, {slots.begin(), slots.end()}};
        item.code = was_there && (*below)->account.code_hash == account.code_hash
                        ? (*below)->code
                        : std::make_shared<const Bytes>(overlay.code(account.code_hash));
        state.items_.push_back(std::make_shared<const Item>(std::move(item)));
    });
    return state;
}

Hash32 PreState::root() const { return root(state::Overlay(*this, state::EmptyAccounts::kept)); }

}  // namespace quern::chain::statetest
