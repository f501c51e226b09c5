#include "chain/statetest/expected_error.h"

#include <array>
#include <string>
#include <utility>

namespace quern::chain::statetest {
namespace {

// Where fixtures have more names, or coarser ones, than there are reasons here: what we call it, and theirs without the
// prefix. Most are of tests that were made for ethereum/tests and got names of their own.
constexpr std::array<std::pair<std::string_view, std::string_view>, 19> kOtherNames{{
    {"tx.type_1_tx_pre_fork", "TYPE_NOT_SUPPORTED"},
    {"tx.type_2_tx_pre_fork", "TYPE_NOT_SUPPORTED"},
    {"tx.type_3_tx_pre_fork", "TYPE_NOT_SUPPORTED"},
    {"tx.type_4_tx_pre_fork", "TYPE_NOT_SUPPORTED"},
    {"tx.type_not_supported", "TYPE_1_TX_PRE_FORK"},
    {"tx.type_not_supported", "TYPE_2_TX_PRE_FORK"},
    {"tx.type_not_supported", "TYPE_3_TX_PRE_FORK"},
    {"tx.type_not_supported", "TYPE_4_TX_PRE_FORK"},
    {"block.gas_used_overflow", "INVALID_GAS_USED_ABOVE_LIMIT"},
    {"block.unknown_parent", "UNKNOWN_PARENT_ZERO"},
    {"block.incorrect_block_format", "IMPORT_IMPOSSIBLE_LEGACY"},
    {"block.incorrect_block_format", "IMPORT_IMPOSSIBLE_LEGACY_WRONG_PARENT"},
    {"block.incorrect_block_format", "IMPORT_IMPOSSIBLE_LONDON_WRONG_PARENT"},
    {"block.incorrect_block_format", "IMPORT_IMPOSSIBLE_SHANGHAI"},
    {"block.incorrect_block_format", "IMPORT_IMPOSSIBLE_PARIS_OVER_SHANGHAI"},
    {"block.incorrect_block_format", "RLP_WITHDRAWALS_NOT_READ"},
    {"block.import_impossible_paris_wrong_pos", "IMPORT_IMPOSSIBLE_PARIS_WRONG_POW"},
    {"block.import_impossible_difficulty_over_paris", "IMPORT_IMPOSSIBLE_PARIS_WRONG_POW"},
    {"block.import_impossible_difficulty_over_paris", "INVALID_DIFFICULTY"},
}};

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

bool is_other_name(std::string_view name, std::string_view one) {
    // All that is wrong with an encoding is one to them, whichever field it is in.
    if (name.starts_with("rlp.") && (one.starts_with("RLP_") || one == "INCORRECT_BLOCK_FORMAT")) return true;
    for (const auto& [ours, theirs] : kOtherNames)
        if (ours == name && theirs == one) return true;
    return false;
}

}  // namespace

bool is_expected(std::string_view name, std::string_view expected) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kPrefixes{
        {{"TransactionException.", "tx."}, {"BlockException.", "block."}}};
    while (true) {
        const std::size_t end = expected.find('|');
        std::string_view one = expected.substr(0, end);
        std::string ours;
        for (const auto& [theirs, prefix] : kPrefixes) {
            if (!one.starts_with(theirs)) continue;
            one.remove_prefix(theirs.size());
            ours = prefix;
            break;
        }
        if (ours.empty()) return true;
        for (const char letter : one) ours.push_back(lower(letter));
        if (ours == name || is_other_name(name, one)) return true;
        if (end == std::string_view::npos) return false;
        expected.remove_prefix(end + 1);
    }
}

}  // namespace quern::chain::statetest
