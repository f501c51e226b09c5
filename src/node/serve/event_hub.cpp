#include "node/serve/event_hub.h"

#include <algorithm>
#include <bit>

#include "base/ensure.h"
#include "base/log.h"
#include "chain/consensus/certificate.h"
#include "chain/exec/system/epoch_reader.h"
#include "node/serve/market_changes.h"

namespace quern::node {

namespace api = chain::api;
namespace consensus = chain::consensus;

EventHub::EventHub(const Parts& parts) : parts_(parts) {
    newest_ = told_ = parts_.board.latest()->number();
    parts_.board.watch([this](const Snapshot& snapshot) { published(snapshot); });
    thread_ = std::thread([this] { run(); });
}

EventHub::~EventHub() {
    parts_.board.watch({});
    stop();
}

void EventHub::stop() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void EventHub::add(api::EventListener& listener) {
    const MutexLock calling(calling_);
    listeners_.push_back(&listener);
    const MutexLock lock(mutex_);
    asked_ = listeners_;
}

void EventHub::remove(api::EventListener& listener) {
    const MutexLock calling(calling_);
    std::erase(listeners_, &listener);
    const MutexLock lock(mutex_);
    asked_ = listeners_;
    if (!asked_.empty()) return;
    transactions_.clear();
    queued_bytes_ = 0;
}

bool EventHub::is_listened_to() const {
    return std::any_of(asked_.begin(), asked_.end(), [](const auto* listener) { return listener->listens(); });
}

void EventHub::published(const Snapshot& snapshot) {
    {
        const MutexLock lock(mutex_);
        newest_ = snapshot.number();
        times_.emplace_back(newest_, parts_.clock.now_ms());
        if (times_.size() > kKeptTimes) times_.pop_front();
    }
    changed_.notify_all();
}

void EventHub::transaction(const chain::types::RecoveredTransaction& transaction) {
    {
        const MutexLock lock(mutex_);
        if (!is_listened_to()) return;
        transactions_.push_back(transaction);
        queued_bytes_ += transaction.encoded.size();
        while (transactions_.size() > kMaxQueuedTransactions || queued_bytes_ > kMaxQueuedBytes) {
            deduct(queued_bytes_, transactions_.front().encoded.size());
            transactions_.pop_front();
            ++left_out_;
        }
    }
    changed_.notify_all();
}

std::uint64_t EventHub::left_out() const {
    const MutexLock lock(mutex_);
    return left_out_;
}

void EventHub::run() {
    for (;;) {
        std::uint64_t next = 0;
        {
            MutexLock lock(mutex_);
            while (!stopping_ && newest_ <= told_ && transactions_.empty()) changed_.wait(lock);
            if (stopping_) return;
            if (newest_ > told_) next = ++told_;
        }
        // When both wait: a transaction before the block that holds it.
        tell_transactions();
        if (next != 0) tell_block(next);
    }
}

// One at a time: each may be for thousands of subscriptions, and a stop or a listener's end waits for one alone.
void EventHub::tell_transactions() {
    const std::uint64_t until = parts_.clock.monotonic_ms() + kTransactionsSliceMs;
    do {
        std::optional<chain::types::RecoveredTransaction> first;
        {
            const MutexLock lock(mutex_);
            if (stopping_ || transactions_.empty()) return;
            first = std::move(transactions_.front());
            transactions_.pop_front();
            deduct(queued_bytes_, first->encoded.size());
        }
        const MutexLock calling(calling_);
        for (auto* listener : listeners_)
            if (listener->listens()) listener->on_transaction(*first);
    } while (parts_.clock.monotonic_ms() < until);
}

void EventHub::tell_block(std::uint64_t number) {
    std::optional<std::uint64_t> final_at;
    {
        const MutexLock lock(mutex_);
        while (!times_.empty() && times_.front().first < number) times_.pop_front();
        if (!times_.empty() && times_.front().first == number) final_at = times_.front().second;
    }
    const MutexLock calling(calling_);
    if (std::none_of(listeners_.begin(), listeners_.end(), [](const auto* each) { return each->listens(); })) return;
    api::BlockEvent event;
    event.view = parts_.reader.block({api::BlockSelector::Kind::number, number, {}});
    if (!event.view) {  // the store's fault, which it has logged and which stops the node
        log::error(log::Category::node, "cannot tell subscribers of a block number={}", number);
        return;
    }
    event.receipts = parts_.reader.receipts(number);
    const auto after = parts_.reader.state({api::BlockSelector::Kind::number, number, {}});
    event.changes = market_changes(event.view->block, event.receipts, after ? after->get() : nullptr);
    event.finality = finality_of(*event.view, final_at);
    for (auto* listener : listeners_)
        if (listener->listens()) listener->on_block(event);
}

api::Finality EventHub::finality_of(const api::BlockView& view, std::optional<std::uint64_t> final_at) {
    api::Finality finality;
    const auto& fields = view.block.header.consensus;
    if (final_at) finality.milliseconds = *final_at > fields.timestamp_ms ? *final_at - fields.timestamp_ms : 0;
    const auto certificate = consensus::decode_certificate(view.finalization);
    if (!certificate) return finality;  // finalized by a descendant
    for (const std::uint8_t byte : certificate->bitmap)
        finality.signers += static_cast<std::size_t>(std::popcount(byte));
    auto snapshot = parts_.board.at(view.block.header.number);
    if (!snapshot) return finality;
    const auto committee = chain::exec::system::committee_of_epoch(snapshot->state, fields.epoch);
    if (!committee || committee->hash() != fields.committee_hash) return finality;
    Uint256 weight;
    const auto& members = committee->members();
    for (std::size_t i = 0; i < members.size() && i / 8 < certificate->bitmap.size(); ++i)
        if ((certificate->bitmap[i / 8] >> (i % 8) & 1) != 0) weight = weight + members[i].weight;
    finality.weight = weight;
    finality.total_weight = committee->total_weight();
    return finality;
}

}  // namespace quern::node
