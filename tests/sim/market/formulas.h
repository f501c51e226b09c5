// What the market's rules come to where it can be said exactly: how likely a lie is sampled, what verification costs as
// a part of training, when watching pays, how often a coalition has a draw. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace quern::sim::market {

// That one of m verifiers, each of which replays s of n segments, has one of f that are made up.
[[nodiscard]] double detection(std::uint64_t n, std::uint64_t faked, std::uint64_t samples, std::uint64_t verifiers);
// The least s with which m verifiers find f of n with this probability; n where none is enough.
[[nodiscard]] std::uint64_t samples_for(std::uint64_t n, std::uint64_t faked, std::uint64_t verifiers,
                                        double probability);
// That a coalition with the part x of all bonds has more than half of m seats, or none too few for its strangers to say
// that data is missing (strangers <= m / 2); each of its bonds is small.
[[nodiscard]] double majority(double share, std::uint64_t verifiers);

// Watchers: with the part `watching` of the bonds at work, those that look at a report are Poisson with the mean
// 2 watching. What one of them expects of a report, in parts of T / m.
[[nodiscard]] double watcher_income(double watching);
[[nodiscard]] double watched(double watching);  // that anybody looks at a report
// The part of the bonds with which watching is worth what it costs, 0 to 1; `tax` and `cost` of one report.
[[nodiscard]] double watching_at_balance(double tax, double cost);

}  // namespace quern::sim::market
