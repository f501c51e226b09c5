#include "chain/statetest/state_differences.h"

#include <algorithm>

#include "crypto/hash.h"

namespace quern::chain::statetest {
namespace {

using Slots = std::vector<PreState::Slot>;

Uint256 number_of(const json::Value* value) {
    return value != nullptr ? parse_number(*value).value_or(Uint256()) : Uint256();
}

std::string quantity(const Hash32& word) { return Uint256::from_be(word).to_hex_quantity(); }

Slots slots_of(const json::Value& account) {
    Slots slots;
    if (const json::Value* storage = account.find("storage"))
        for (const auto& member : storage->members()) {
            const json::Value key(member.key);
            if (const Uint256 value = number_of(&member.value); !value.is_zero())
                slots.emplace_back(number_of(&key).to_be32(), value.to_be32());
        }
    std::sort(slots.begin(), slots.end());
    return slots;
}

class Report {
public:
    void note(const std::string& address, const std::string& what, const std::string& expected,
              const std::string& came) {
        text_ += "\n    " + address + " " + what + ": expected " + expected + ", got " + came;
    }
    void compare(const std::string& address, const std::string& what, const Uint256& expected, const Uint256& came) {
        if (expected != came) note(address, what, expected.to_hex_quantity(), came.to_hex_quantity());
    }
    // Both by key.
    void compare_slots(const std::string& address, const Slots& expected, std::span<const PreState::Slot> came) {
        auto left = expected.begin();
        const auto missing = [&] {
            note(address, "slot " + quantity(left->first), quantity(left->second), "0x0");
            ++left;
        };
        for (const auto& [key, value] : came) {
            while (left != expected.end() && left->first < key) missing();
            const bool is_expected = left != expected.end() && left->first == key;
            if (!is_expected || left->second != value)
                note(address, "slot " + quantity(key), is_expected ? quantity(left->second) : "0x0", quantity(value));
            if (is_expected) ++left;
        }
        while (left != expected.end()) missing();
    }
    [[nodiscard]] std::string take() { return std::move(text_); }

private:
    std::string text_;
};

}  // namespace

std::string differences(const json::Value& expected, const PreState& state, const state::Overlay& overlay) {
    Report report;
    std::vector<std::string> seen;  // ascending
    state.for_each(overlay, [&](const types::Address& address, const state::Account& account,
                                std::span<const PreState::Slot> slots) {
        const std::string name = to_hex0x(address);
        seen.push_back(name);
        const json::Value* wanted = expected.find(name);
        if (wanted == nullptr) return report.note(name, "account", "none", "one");
        report.compare(name, "nonce", number_of(wanted->find("nonce")), account.nonce);
        report.compare(name, "balance", number_of(wanted->find("balance")), account.balance);
        const auto code = from_hex(wanted->get_string("code").value_or(""));
        if (code && crypto::keccak256(*code) != account.code_hash)
            report.note(name, "code", to_hex0x(*code), to_hex0x(overlay.code(account.code_hash)));
        report.compare_slots(name, slots_of(*wanted), slots);
    });
    for (const auto& member : expected.members())
        if (!std::binary_search(seen.begin(), seen.end(), member.key))
            report.note(member.key, "account", "one", "none");
    return report.take();
}

}  // namespace quern::chain::statetest
