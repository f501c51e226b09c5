#include "sim/market/settings.h"

#include "chain/params/parameters.h"

namespace quern::sim::market {

Settings::Settings() { chain.market.retention_s = 60; }

const std::vector<SettingName>& setting_names() {
    static const std::vector<SettingName> names = {
#define QUERN_SETTING(member, standard, doc) {#member, doc, standard},
        QUERN_MARKET_SETTINGS(QUERN_SETTING)
#undef QUERN_SETTING
    };
    return names;
}

Status set(Settings& settings, std::string_view name, std::uint64_t value, bool beyond_limits) {
#define QUERN_SETTING(member, standard, doc) \
    if (name == #member) {                   \
        settings.member = value;             \
        return {};                           \
    }
    QUERN_MARKET_SETTINGS(QUERN_SETTING)
#undef QUERN_SETTING
    bool found = false;
    chain::params::visit_parameters(settings.chain, [&](const chain::params::Parameter& parameter, auto& member) {
        if (parameter.section != "market" || parameter.name != name) return;
        member = value;
        found = true;
    });
    if (!found) return fail("sim.unknown_parameter", std::string(name));
    if (beyond_limits) return {};
    return chain::params::check_parameters(settings.chain);
}

}  // namespace quern::sim::market
