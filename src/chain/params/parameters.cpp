#include "chain/params/parameters.h"

#include <string>

namespace quern::chain::params {
namespace {

constexpr std::uint64_t kAny = ~std::uint64_t{0};
constexpr Uint256 bits(unsigned count) { return (Uint256(1) << count) - Uint256(1); }
constexpr std::uint64_t bits64(unsigned count) { return (std::uint64_t{1} << count) - 1; }

constexpr Parameter kParameters[] = {
#define QUERN_ROW(type, member, name, standard, least, most, doc) {"block", name, standard, least, most, doc},
    QUERN_BLOCK_PARAMETERS(QUERN_ROW)
#undef QUERN_ROW
#define QUERN_ROW(type, member, name, standard, least, most, doc) {"market", name, standard, least, most, doc},
        QUERN_MARKET_PARAMETERS(QUERN_ROW)
#undef QUERN_ROW
#define QUERN_ROW(type, member, name, standard, least, most, doc) {"staking", name, standard, least, most, doc},
            QUERN_STAKING_PARAMETERS(QUERN_ROW)
#undef QUERN_ROW
};

constexpr bool defaults_fit() {
    for (const auto& each : kParameters)
        if (each.standard < each.least || each.standard > each.most) return false;
    return true;
}
static_assert(defaults_fit());

// Relations between constants. Those with limits of other folders stand there: compute/core/claims.h.
static_assert(kBeaconDelay < kBeaconWindow, "a draw's beacon must still be in state when it comes");
static_assert(kDrawReach == kBeaconWindow + kBeaconDelay);
static_assert(kCapacityBlocks > kBeaconDelay, "or a capacity could be declared twice while a draw waits");
static_assert(kShortestWindowIdles == kShortestWindowBlocks * kMaxBlockIdles);
static_assert(kShortestWindowBlocks > kBeaconDelay + 2,
              "a draw's beacon, an act that waits for it and one in the block after fit into each window");
static_assert(MarketParams{}.burn_percent + MarketParams{}.submitter_percent < 100);
static_assert(MarketParams{}.burn_percent + StakingParams{}.reporter_percent <= 100);
static_assert(kMaxForgottenConvictions >= types::kMaxCommittee, "or convictions come faster than they are forgotten");

struct Constant {
    std::string_view name;
    std::uint64_t value;
    std::string_view doc;
};
constexpr Constant kConstants[] = {
#define QUERN_ROW(type, name, value, doc) {#name, value, doc},
    QUERN_CONSTANTS(QUERN_ROW)
#undef QUERN_ROW
};

std::string range_of(const Parameter& parameter) {
    return parameter.least.to_decimal() + " to " +
           (parameter.most == Uint256(kAny) ? std::string("any") : parameter.most.to_decimal());
}

// What a table of limits cannot say: how the parameters must fit each other.
Status check_relations(const ChainParams& params) {
    const auto bad = [](const char* what) { return fail(kBadParameter, what); };
    const auto& market = params.market;
    const auto& staking = params.staking;
    if (params.chain_id == 0) return bad("chain_id must not be 0");
    if (params.initial_base_fee < params.min_base_fee) return bad("block.base_fee must be min_base_fee at least");
    if (params.max_idle_ms < params.min_block_ms) return bad("block.max_idle_ms must be min_block_ms at least");
    if (market.min_window_s * 1000 < kShortestWindowIdles * params.max_idle_ms)
        return bad("market.min_window_s must be sixty times block.max_idle_ms at least");
    if (market.submitter_percent >= 100 - market.burn_percent)
        return bad("market.submitter_percent and burn_percent must leave something of a slash");
    if (market.min_verifiers > market.max_verifiers) return bad("market.max_verifiers must be min_verifiers at least");
    if (market.custodians != 0 && market.custodians < kLeastCustodians)
        return bad("market.custodians must be three at least, or 0");
    if (params.chain_id != kDevnetChainId && market.min_verifiers < kLeastVerifiers)
        return bad("market.min_verifiers must be three at least but on a devnet (chain_id 7878)");
    // A bond that leaves is still there when what its tables may decide is drawn.
    if (market.unbonding_blocks < params.epoch_length + kDrawReach)
        return bad("market.unbonding_blocks must be an epoch and 520 blocks at least");
    if (market.max_window_s < market.min_window_s) return bad("market.max_window_s must be min_window_s at least");
    if (staking.unbonding_blocks < kMinUnbondingEpochs * params.epoch_length)
        return bad("staking.unbonding_blocks must be three epochs at least");
    if (staking.reporter_percent > 100 - market.burn_percent)
        return bad("staking.reporter_percent and market.burn_percent exceed 100");
    return {};
}

Status read(const json::Value& section, std::string_view name, Uint256& target) {
    QUERN_TRY(const std::string_view text, section.get_string(name));
    const auto number = Uint256::from_decimal(text);
    if (!number) return detailed(number.error(), std::string(name) + " is " + std::string(text));
    target = *number;
    return {};
}
Status read(const json::Value& section, std::string_view name, std::uint64_t& target) {
    QUERN_TRY(target, section.get_u64(name));
    return {};
}

}  // namespace

std::span<const Parameter> parameters() { return kParameters; }

Status check_parameters(const ChainParams& params) {
    Status status;
    visit_parameters(params, [&](const Parameter& parameter, const Uint256& value) {
        if (status && (value < parameter.least || value > parameter.most))
            status = fail(kBadParameter, std::string(parameter.section) + "." + std::string(parameter.name) + " is " +
                                             value.to_decimal() + ", allowed: " + range_of(parameter));
    });
    QUERN_CHECK(status);
    return check_relations(params);
}

json::Value to_json(const ChainParams& params, std::string_view section) {
    auto values = json::Value::object();
    visit_parameters(params, [&](const Parameter& parameter, const auto& number) {
        if (parameter.section != section) return;
        if constexpr (std::is_same_v<std::decay_t<decltype(number)>, Uint256>)
            values.set(parameter.name, number.to_decimal());
        else
            values.set(parameter.name, number);
    });
    return values;
}

Expected<MarketParams> market_params_from_json(const json::Value& params) {
    QUERN_TRY(const json::Value* const market, params.get_object("market"));
    ChainParams read_params;
    Status status;
    visit_parameters(read_params, [&](const Parameter& parameter, auto& target) {
        if (status && parameter.section == "market") status = read(*market, parameter.name, target);
    });
    QUERN_CHECK(status);
    return read_params.market;
}

std::string parameters_page() {
    std::string page =
        "# Parameters\n\n"
        "Written by `quern-genesis parameters` from `src/chain/params/tables.h`; a test compares. Amounts are grains\n"
        "(10^-18 QRN). What they mean: [market.md](market.md), [staking.md](staking.md), "
        "[consensus.md](consensus.md).\n\n"
        "## What a genesis file may set\n";
    for (const auto section : kSections) {
        page +=
            "\n### `" + std::string(section) + "`\n\n| name | default | allowed | what it is |\n|---|---|---|---|\n";
        for (const auto& each : parameters())
            if (each.section == section)
                page += "| `" + std::string(each.name) + "` | " + each.standard.to_decimal() + " | " + range_of(each) +
                        " | " + std::string(each.doc) + " |\n";
    }
    page +=
        "\nThey must fit each other as well: `base_fee` is `min_base_fee` at least, `max_idle_ms` `min_block_ms`,\n"
        "`max_window_s` `min_window_s`, and `min_window_s` sixty times `max_idle_ms`; `burn_percent` with\n"
        "`submitter_percent` is below 100, with `reporter_percent` 100 at most; the staking's `unbonding_blocks` are\n"
        "three epochs at least, the market's one epoch and 520 blocks; `max_verifiers` is `min_verifiers` at least, "
        "and\n"
        "that is 3 at least where `chain_id` is not 7878; `custodians` are 3 at least, or 0.\n"
        "\n## What is the same on every chain\n\n| constant | value | what it is |\n|---|---|---|\n";
    for (const auto& each : kConstants)
        page += "| `" + std::string(each.name) + "` | " + std::to_string(each.value) + " | " + std::string(each.doc) +
                " |\n";
    return page;
}

}  // namespace quern::chain::params
