#include "sim/market/formulas.h"

#include <algorithm>
#include <cmath>

#include "chain/params/params.h"

namespace quern::sim::market {
namespace {

constexpr auto kWatchers = static_cast<double>(chain::params::kWatchersPerReport);

}  // namespace

double detection(std::uint64_t n, std::uint64_t faked, std::uint64_t samples, std::uint64_t verifiers) {
    if (samples >= n) return faked == 0 ? 0 : 1;
    double missed = 1;  // C(n - f, s) / C(n, s)
    for (std::uint64_t i = 0; i < samples; ++i)
        missed *= n - i <= faked ? 0 : 1 - static_cast<double>(faked) / static_cast<double>(n - i);
    return 1 - std::pow(missed, static_cast<double>(verifiers));
}

std::uint64_t samples_for(std::uint64_t n, std::uint64_t faked, std::uint64_t verifiers, double probability) {
    for (std::uint64_t samples = 1; samples < n; ++samples)
        if (detection(n, faked, samples, verifiers) >= probability) return samples;
    return n;
}

double majority(double share, std::uint64_t verifiers) {
    double sum = 0;
    double ways = 1;  // C(m, strangers)
    for (std::uint64_t strangers = 0; 2 * strangers <= verifiers; ++strangers) {
        sum += ways * std::pow(1 - share, static_cast<double>(strangers)) *
               std::pow(share, static_cast<double>(verifiers - strangers));
        ways = ways * static_cast<double>(verifiers - strangers) / static_cast<double>(strangers + 1);
    }
    return sum;
}

// The sum over n others of 2^-n with Poisson's weights.
double watcher_income(double watching) { return std::exp(-kWatchers * watching / 2); }

double watched(double watching) { return 1 - std::exp(-kWatchers * watching); }

double watching_at_balance(double tax, double cost) {
    if (tax <= cost) return 0;
    return std::min(1.0, 2 * std::log(tax / cost) / kWatchers);
}

}  // namespace quern::sim::market
