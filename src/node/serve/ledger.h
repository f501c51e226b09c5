// What happened to tasks and what moved accounts' money, out of the blocks that the index of activity names: their
// events and their transactions. Thread-safe.
#pragma once

#include "chain/api/chain_reader.h"
#include "chain/api/ledger.h"
#include "node/chain/chain_database.h"
#include "node/chain/snapshot.h"

namespace quern::node {

// Blocks that are opened for one page, whatever its limit: what an answering thread does in time.
inline constexpr std::size_t kLedgerPageBlocks = 256;

class ChainLedger final : public chain::api::Ledger {
public:
    struct Parts {  // all outlive the ledger
        const SnapshotBoard& board;
        const chain::api::ChainReader& reader;
    };
    explicit ChainLedger(const Parts& parts) : parts_(parts) {}

    [[nodiscard]] Expected<std::uint64_t> since() const override;
    [[nodiscard]] Expected<chain::api::LedgerPage<chain::api::Happening>> task_history(
        std::uint64_t task, std::uint64_t from, std::size_t limit, const Cancelled& cancelled) const override;
    [[nodiscard]] Expected<chain::api::LedgerPage<chain::api::StatementBlock>> statement(
        const chain::types::Address& account, std::uint64_t from, std::uint64_t to, std::size_t limit,
        const Cancelled& cancelled) const override;

private:
    const Parts parts_;
};

}  // namespace quern::node
