#include "chain/statetest/test_chain.h"

#include "chain/ethereum/header_rules.h"
#include "chain/statetest/trace.h"

namespace quern::chain::statetest {
namespace {

// Traces each transaction of a block, with the root of the state behind it.
class TracingWatcher final : public ethereum::TransactionWatcher {
public:
    TracingWatcher(RunContext& context, const PreState& parent, std::string_view fork)
        : context_(context), parent_(parent), fork_(fork), trace_(*context.trace) {}
    ~TracingWatcher() override { context_.machine.set_tracer(nullptr); }
    void begin() override { context_.machine.set_tracer(&trace_.tracer()); }
    void end(const vm::evm::TransactionResult& result, const state::Overlay& overlay) override {
        context_.machine.set_tracer(nullptr);
        trace_.sum_up({parent_.root(overlay), result.output, result.gas_used, result.succeeded, fork_});
    }

private:
    RunContext& context_;
    const PreState& parent_;
    const std::string_view fork_;
    Trace trace_;
};

}  // namespace

TestChain::TestChain(RunContext& context, const ethereum::Network& network, std::uint64_t chain_id, PreState state,
                     const ethereum::Header& genesis)
    : context_(context), network_(network), chain_id_(chain_id) {
    Stored& stored = blocks_[genesis.hash];
    stored.ancestor.header = genesis;
    stored.ancestor.total_difficulty = genesis.difficulty;
    stored.state = std::make_shared<const PreState>(std::move(state));
    head_ = &stored;
}

Expected<Hash32> TestChain::add(BytesView bytes) {
    QUERN_TRY(ethereum::Block block, ethereum::decode_block(bytes));
    const ethereum::Header& header = block.header;
    if (blocks_.contains(header.hash)) return header.hash;
    const auto found = blocks_.find(header.parent_hash);
    if (found == blocks_.end()) return fail("block.unknown_parent", to_hex0x(header.parent_hash));
    const Stored& parent = found->second;
    QUERN_CHECK(ethereum::check_header(network_, header, parent.ancestor));

    const ethereum::Fork& fork = network_.fork_of(header.number, header.timestamp, parent.ancestor.total_difficulty);
    state::Overlay overlay(*parent.state, fork.revision >= vm::evm::Revision::spurious_dragon
                                              ? state::EmptyAccounts::removed
                                              : state::EmptyAccounts::kept);
    std::optional<TracingWatcher> watcher;
    if (context_.trace != nullptr) watcher.emplace(context_, *parent.state, fork.name);
    const auto root_of = [&parent](const state::Overlay& over) { return parent.state->root(over); };
    QUERN_CHECK(ethereum::execute_block(
        {network_, chain_id_, context_.machine, context_.codes, root_of, watcher ? &*watcher : nullptr}, block,
        parent.ancestor, overlay));

    const Hash32 hash = header.hash;
    Stored& stored = blocks_[hash];
    stored.state = std::make_shared<const PreState>(parent.state->after(overlay));
    ethereum::Ancestor& ancestor = stored.ancestor;
    for (const ethereum::Header& ommer : block.ommers) ancestor.ommers.push_back(ommer.hash);
    ancestor.total_difficulty = parent.ancestor.total_difficulty + header.difficulty;
    ancestor.parent = &parent.ancestor;
    ancestor.header = std::move(block.header);
    const bool has_stake = fork.revision >= vm::evm::Revision::paris;
    if (has_stake || ancestor.total_difficulty > head_->ancestor.total_difficulty) head_ = &stored;
    return hash;
}

}  // namespace quern::chain::statetest
