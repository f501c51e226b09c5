// The accounts of a fixture as a state to execute on, the root of what becomes of them, and the state that that is.
// Immutable once made, so that the parts of a test share it; used by one thread all the same.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/json.h"
#include "chain/state/overlay.h"

namespace quern::chain::statetest {

// A number that no field of a transaction can hold; tests with such must be refused.
inline constexpr std::string_view kNumberTooLarge = "statetest.number_too_large";

// "0x" and digits, of which there may be none. Errors: json.wrong_type, uint256.*, statetest.number_too_large (more
// than 256 bits, or 64; "0x:bigint ...").
[[nodiscard]] Expected<Uint256> parse_number(const json::Value& value);
[[nodiscard]] Expected<std::uint64_t> parse_u64(const json::Value& value);
template <std::size_t N>
[[nodiscard]] Expected<FixedBytes<N>> parse_fixed(const json::Value& value) {
    QUERN_TRY(const std::string_view text, value.as_string());
    return fixed_from_hex<N>(text);
}

class PreState final : public state::StateReader {
public:
    using Slot = std::pair<Hash32, Hash32>;  // key, value

    // {address: {nonce, balance, code, storage}}. Errors: json.*, hex.*, bytes.*, uint256.*, statetest.*.
    [[nodiscard]] static Expected<PreState> parse(const json::Value& accounts);

    [[nodiscard]] std::optional<state::Account> account(const types::Address& address) const override;
    [[nodiscard]] Bytes code(const Hash32& code_hash) const override;
    [[nodiscard]] Hash32 storage(const types::Address& address, const Hash32& slot) const override;
    [[nodiscard]] std::optional<Bytes> native(BytesView) const override { return std::nullopt; }
    [[nodiscard]] std::vector<std::pair<Bytes, Bytes>> native_range(BytesView, BytesView, std::size_t) const override {
        return {};
    }

    // Each account as it is under an overlay over this, by address, with its slots that are not zero, by key.
    using Visitor = std::function<void(const types::Address&, const state::Account&, std::span<const Slot>)>;
    void for_each(const state::Overlay& overlay, const Visitor& visit) const;
    [[nodiscard]] Hash32 root(const state::Overlay& overlay) const;
    // The same as a state of its own, which shares with this one the accounts that are as they were.
    [[nodiscard]] PreState after(const state::Overlay& overlay) const;
    [[nodiscard]] Hash32 root() const;

private:
    struct Item {
        types::Address address;
        state::Account account;
        std::shared_ptr<const Bytes> code;
        std::vector<Slot> slots;  // by key
    };
    using Items = std::vector<std::shared_ptr<const Item>>;
    // The place of the account, or of the first one behind where it would be.
    [[nodiscard]] Items::const_iterator seek(const types::Address& address) const;
    [[nodiscard]] const Item* find(const types::Address& address) const;

    Items items_;  // by address
};

// The root of a storage trie with these slots.
[[nodiscard]] Hash32 storage_root(std::span<const PreState::Slot> slots);

}  // namespace quern::chain::statetest
