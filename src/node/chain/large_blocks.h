// Large blocks from their beginning until one of their height is final: what became of them is what the budget for
// blocks built here learns from (build_budget.h). Has no clock itself. Belongs to the executor thread.
#pragma once

#include <map>

#include "base/bytes.h"
#include "node/chain/build_budget.h"

namespace quern::node {

class LargeBlocks {
public:
    explicit LargeBlocks(std::uint64_t target_ms) : budget_(target_ms) {}

    [[nodiscard]] const BuildBudget& budget() const { return budget_; }
    struct Block {
        std::uint64_t number = 0;
        std::uint64_t gas = 0;
        std::uint64_t began_ms = 0;  // its building, by the monotonic clock
    };
    // One was built here; what followed after it was filled took so long.
    void built(const Hash32& hash, const Block& block, double sealing_us, bool cut_short);
    // One of another was executed, to be voted for.
    void executed(const Hash32& hash, const Block& block);
    // This block became final. What was built at its height or below and did not is lost, once, however many views
    // each had one.
    void committed(std::uint64_t number, const Hash32& hash, std::uint64_t now_ms);

private:
    struct Waiting {
        Block block;
        bool own = false;
        bool cut_short = false;
    };
    BuildBudget budget_;
    std::map<Hash32, Waiting> waiting_;
};

}  // namespace quern::node
