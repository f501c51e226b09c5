// How large the blocks built here may be. A block must be executed, sent, executed by the others and committed within
// a time that finality can afford, and only experience tells how much work fits in it. Work is counted in gas, since
// times measured while a block is filled say little where others compete for the processor: the budget begins with what
// any machine can do, grows by up to a factor of two with each block that was cut short and became final well in time,
// and is cut in proportion when a large block took longer (or never became final). So the machine's speed, the others'
// and the network between them are all in it.
// Blocks of others that are as large and become final well in time raise it too, for a node of many builds few of the
// blocks; they never lower it, or whoever is slow could make everybody's blocks small. Fed with measured times; has no
// clock itself. Belongs to the executor thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::node {

// Up to this a block is cut short only when filling it alone took the whole time: five hundred transfers. Below it a
// block's fixed costs (votes, synced writes) outweigh its transactions: where those alone take longer than the target,
// as on an overloaded machine, smaller blocks would be no sooner final, only fewer transactions.
inline constexpr std::uint64_t kLeastBuiltGas = 10'500'000;
inline constexpr std::uint64_t kFirstBuiltGas = 2 * kLeastBuiltGas;
inline constexpr std::uint64_t kMostBuiltGas = std::uint64_t{1} << 40;  // no limit: headers have one
// Of the time to finality: what building may take whatever its gas. Sending, the others' execution, votes and commit
// follow, but a validator alone, or with fast others, needs little time for them.
inline constexpr double kBuildPart = 0.8;
// Of a block that was final well in time, more the sooner it was: a node of many builds few of the blocks, and should
// not need a dozen of them to find its way back after a time of overload.
inline constexpr double kBuildGrowth = 1.25;
inline constexpr double kMostBuildGrowth = 2;
inline constexpr double kBuildLoss = 0.5;         // at most, by one large block that was late or did not become final
inline constexpr double kWellInTime = 0.8;        // of the time to finality
inline constexpr double kLargeBlock = 0.5;        // of the budget: what smaller ones took says nothing about size
inline constexpr double kNewestSealWeight = 0.2;  // of the newest block in the average

class BuildBudget {
public:
    // `target_ms`: from the beginning of a block to its commit.
    explicit BuildBudget(std::uint64_t target_ms) : target_ms_(static_cast<double>(target_ms)) {}

    // Whether a block of so much gas is large enough, filling it having taken so long: what remains is to compute its
    // roots.
    [[nodiscard]] bool is_reached(double filling_us, std::uint64_t gas) const;
    // A block was built: what followed after it was filled took so long. Whether it was a large one.
    [[nodiscard]] bool built(double sealing_us, std::uint64_t gas, bool cut_short);
    // A large block of this node became final, so long after its beginning.
    void became_final(double took_ms, std::uint64_t gas, bool cut_short);
    // Another one became final in its place.
    void lost();
    // Whether a block of another is as large as one that is built here may be.
    [[nodiscard]] bool is_as_large(std::uint64_t gas) const { return gas >= gas_; }
    // Such a one became final, so long after its building can have begun. It raises the budget to little more than it
    // held itself: else whoever makes blocks whose gas is quickly executed could make everybody's too large.
    void other_became_final(double took_ms, std::uint64_t gas);
    [[nodiscard]] std::uint64_t gas() const { return gas_; }

private:
    void grow(double took_ms, std::uint64_t most);
    void scale(std::uint64_t gas, double factor);
    double target_ms_;
    std::uint64_t gas_ = kFirstBuiltGas;
    double sealing_us_per_gas_ = 0;
};

}  // namespace quern::node
