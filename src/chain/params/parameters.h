// The parameters of a genesis file as a table: name, limits and meaning of each, beside its value in a ChainParams.
// Used to read, check, write and document genesis files. Pure; thread-safe.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/expected.h"
#include "base/json.h"
#include "chain/params/params.h"

namespace quern::chain::params {

struct Parameter {
    std::string_view section;  // of the file: "block", "market", "staking"
    std::string_view name;
    Uint256 standard;  // what it is when the file does not say
    Uint256 least;
    Uint256 most;
    std::string_view doc;
};
// In the order of the file, which the genesis hash depends on.
[[nodiscard]] std::span<const Parameter> parameters();
inline constexpr std::array<std::string_view, 3> kSections = {"block", "market", "staking"};

// Calls visitor(parameter, value) for each; `value` is a std::uint64_t or a Uint256, and can be written when `params`
// can.
template <class Params, class Visitor>
void visit_parameters(Params& params, Visitor&& visitor) {
    auto parameter = parameters().begin();
#define QUERN_VISIT(type, member, name, standard, least, most, doc) visitor(*parameter++, params.member);
    QUERN_BLOCK_PARAMETERS(QUERN_VISIT)
#undef QUERN_VISIT
#define QUERN_VISIT(type, member, name, standard, least, most, doc) visitor(*parameter++, params.market.member);
    QUERN_MARKET_PARAMETERS(QUERN_VISIT)
#undef QUERN_VISIT
#define QUERN_VISIT(type, member, name, standard, least, most, doc) visitor(*parameter++, params.staking.member);
    QUERN_STAKING_PARAMETERS(QUERN_VISIT)
#undef QUERN_VISIT
}

inline constexpr std::string_view kBadParameter = "genesis.bad_parameter";
// Each parameter lies within its limits, and they fit each other. Error kBadParameter, which names it.
[[nodiscard]] Status check_parameters(const ChainParams& params);

// One section as a genesis file and the RPC method quern_params have it: amounts are decimal texts.
[[nodiscard]] json::Value to_json(const ChainParams& params, std::string_view section);
// The section "market" of a genesis file or of what the RPC method quern_params answers; each of its parameters must be
// there. Errors: json.*, uint256.*; they name the parameter.
[[nodiscard]] Expected<MarketParams> market_params_from_json(const json::Value& params);

// doc/parameters.md: parameters and constants as tables.
[[nodiscard]] std::string parameters_page();

}  // namespace quern::chain::params
