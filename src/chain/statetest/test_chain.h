// A chain of Ethereum blocks for official blockchain tests: takes blocks in any order that has parents first, keeps the
// state behind each, and knows the head: the block with most work, or the newest one from Paris on. One thread.
#pragma once

#include <map>
#include <memory>

#include "chain/ethereum/block_execution.h"
#include "chain/statetest/cases.h"
#include "chain/statetest/pre_state.h"

namespace quern::chain::statetest {

class TestChain {
public:
    // All outlive this. `genesis` is the header of a block without a body.
    TestChain(RunContext& context, const ethereum::Network& network, std::uint64_t chain_id, PreState state,
              const ethereum::Header& genesis);

    // Its hash. Errors: rlp.*, block.*, tx.*; then nothing has changed.
    [[nodiscard]] Expected<Hash32> add(BytesView block);

    [[nodiscard]] const ethereum::Header& head() const { return head_->ancestor.header; }
    [[nodiscard]] const PreState& head_state() const { return *head_->state; }

private:
    struct Stored {
        ethereum::Ancestor ancestor;
        std::shared_ptr<const PreState> state;
    };

    RunContext& context_;
    const ethereum::Network& network_;
    const std::uint64_t chain_id_;
    std::map<Hash32, Stored> blocks_;
    const Stored* head_;
};

}  // namespace quern::chain::statetest
