// How large the blocks built here may be. A block must be executed, sent, executed by the others and committed within
// a time that finality can afford, and only experience tells how much work fits in it: the budget is a share of that
// time, cut when a large block took longer to become final (or never did) and raised slowly while blocks that were cut
// short became final well in time. So the machine's speed, the others' and the network between them are all in it.
// Blocks of others that are as large and become final well in time raise it too, for a node of many builds few of the
// blocks; they never lower it, or whoever is slow could make everybody's blocks small. Fed with measured times; has no
// clock itself. Belongs to the executor thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::node {

// Of the time to finality: the part that building may take; sending, the others' execution, votes and commit follow.
inline constexpr double kBuildPart = 0.5;
// Below this a block's fixed costs (votes, synced writes) outweigh its transactions: where those alone take longer than
// the target, as on an overloaded machine, smaller blocks would be no sooner final, only fewer transactions.
inline constexpr double kLeastBuildShare = 1.0 / 4;
// A validator alone, or with fast others, needs less of the time for what follows.
inline constexpr double kMostBuildShare = 1.6;
// Of a block that was final well in time, more the sooner it was: a node of many builds few of the blocks, and should
// not need a dozen of them to find its way back after a time of overload.
inline constexpr double kBuildShareGrowth = 1.25;
inline constexpr double kMostBuildShareGrowth = 2;
// Up to this a block is never cut short for want of time: five hundred transfers.
inline constexpr std::uint64_t kLeastBuiltGas = 10'500'000;
inline constexpr double kBuildShareLoss = 0.5;    // after a large block that did not become final
inline constexpr double kWellInTime = 0.8;        // of the time to finality
inline constexpr double kLargeBlock = 0.5;        // of the budget: what smaller ones took says nothing about size
inline constexpr double kNewestSealWeight = 0.2;  // of the newest block in the average

class BuildBudget {
public:
    // `target_ms`: from the beginning of a block to its commit; `max_bytes`: of transactions, whatever the time.
    BuildBudget(std::uint64_t target_ms, std::size_t max_bytes);

    [[nodiscard]] std::size_t bytes() const;
    // Whether a block is large enough when filling it took so long so far: what remains is to compute its roots.
    [[nodiscard]] bool is_reached(double filling_us, std::uint64_t gas) const;
    // A block was built: what followed after it was filled took so long. Whether it was a large one.
    [[nodiscard]] bool built(double filling_us, double sealing_us, std::uint64_t gas, bool cut_short);
    // A large block of this node became final, so long after its beginning.
    void became_final(double took_ms, bool cut_short);
    // Another one became final in its place.
    void lost();
    // Whether a block of another that took so long to execute is as large as one that is built here may be.
    [[nodiscard]] bool is_as_large(double executed_us) const { return executed_us >= work_us(); }
    // Such a one became final, so long after its building can have begun.
    void other_became_final(double took_ms);
    // Of kBuildPart of the time, kLeastBuildShare to kMostBuildShare.
    [[nodiscard]] double share() const { return share_; }

private:
    [[nodiscard]] double work_us() const;
    void grow(double took_ms);
    double target_ms_;
    std::size_t max_bytes_;
    double share_ = 1;
    double sealing_us_per_gas_ = 0;
};

}  // namespace quern::node
