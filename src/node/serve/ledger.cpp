#include "node/serve/ledger.h"

#include <algorithm>

#include "node/chain/activity_index.h"
#include "node/chain/market_events.h"
#include "node/serve/bookkeeper.h"

namespace quern::node {
namespace {

namespace types = chain::types;
namespace api = chain::api;

tl::unexpected<Error> cancelled_error() { return busy(api::kLedgerCancelled); }

// The transactions of one block that the index names, with their receipts.
class OpenBlock {
public:
    static Expected<OpenBlock> open(const api::ChainReader& reader, std::uint64_t number) {
        OpenBlock block;
        block.view_ = reader.block({api::BlockSelector::Kind::number, number, {}});
        if (!block.view_) return fault("store.corrupt", "no block " + std::to_string(number));
        block.receipts_ = reader.receipts(number);
        return block;
    }
    [[nodiscard]] Expected<types::RecoveredTransaction> transaction(std::uint32_t place) const {
        const auto& encoded = view_->block.transactions;
        if (place >= encoded.size() || place >= receipts_.size())
            return fault("store.corrupt", "an index names a transaction that is not there");
        return view_->senders != nullptr ? view_->senders->recover(encoded[place]) : types::recover(encoded[place]);
    }
    [[nodiscard]] const types::Receipt& receipt(std::uint32_t place) const { return receipts_[place]; }
    [[nodiscard]] api::Place place_of(const types::RecoveredTransaction& transaction) const {
        const auto& header = view_->block.header;
        api::Place place{header.number, header.timestamp, transaction.hash, transaction.sender, {}};
        if (const auto call = native_call_of(transaction.tx))
            place.kind = types::find_kind(static_cast<std::uint8_t>(call->kind))->name;
        return place;
    }

private:
    std::shared_ptr<const api::BlockView> view_;
    std::vector<types::Receipt> receipts_;
};

// The events of one transaction that are the task's: a transaction is about one task at most, so that those which name
// none (moves in its disputes) are the task's, too.
Status add_events(const OpenBlock& block, std::uint32_t at, std::uint64_t task, std::vector<api::Happening>& found) {
    QUERN_TRY(const auto transaction, block.transaction(at));
    const api::Place place = block.place_of(transaction);
    for (const auto& log : block.receipt(at).logs) {
        const auto event = read_market_event(log);
        if (!event || task_of(*event).value_or(task) != task) continue;
        found.push_back({place, tell(*event)});
        found.back().event.task = task;
    }
    return {};
}

}  // namespace

Expected<std::uint64_t> ChainLedger::since() const {
    const auto at = parts_.board.latest();
    QUERN_TRY(const auto since, activity_since(*at->reader));
    return since.value_or(at->number() + 1);
}

Expected<api::LedgerPage<api::Happening>> ChainLedger::task_history(std::uint64_t task, std::uint64_t from,
                                                                    std::size_t limit,
                                                                    const Cancelled& cancelled) const {
    api::LedgerPage<api::Happening> page;
    const auto at = parts_.board.latest();
    QUERN_TRY(const auto entries, activity_of_task(*at->reader, task, from, at->number(), kLedgerPageBlocks + 1));
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const auto& entry = entries[i];
        if (cancelled && cancelled()) return cancelled_error();
        if (page.items.size() >= limit || i == kLedgerPageBlocks) {
            page.next = entry.block;
            break;
        }
        QUERN_TRY(const auto block, OpenBlock::open(parts_.reader, entry.block));
        for (const std::uint32_t place : entry.places) QUERN_CHECK(add_events(block, place, task, page.items));
    }
    return page;
}

Expected<api::LedgerPage<api::StatementBlock>> ChainLedger::statement(const types::Address& account, std::uint64_t from,
                                                                      std::uint64_t to, std::size_t limit,
                                                                      const Cancelled& cancelled) const {
    api::LedgerPage<api::StatementBlock> page;
    const auto at = parts_.board.latest();
    std::size_t movements = 0;
    QUERN_TRY(const auto entries,
              activity_of_account(*at->reader, account, from, std::min(to, at->number()), kLedgerPageBlocks + 1));
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const auto& entry = entries[i];
        if (cancelled && cancelled()) return cancelled_error();
        if (movements >= limit || i == kLedgerPageBlocks) {
            page.next = entry.block;
            break;
        }
        QUERN_TRY(const auto block, OpenBlock::open(parts_.reader, entry.block));
        Bookkeeper books(account, entry.before);
        for (const std::uint32_t place : entry.places) {
            QUERN_TRY(const auto transaction, block.transaction(place));
            books.add(transaction, block.receipt(place), block.place_of(transaction));
        }
        page.items.push_back({entry.block, entry.before, entry.after, books.take()});
        movements += page.items.back().movements.size();
    }
    return page;
}

}  // namespace quern::node
