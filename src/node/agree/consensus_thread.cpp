#include "node/agree/consensus_thread.h"

#include "base/log.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;

namespace {

void log_refusal(std::string_view reason) {
    if (reason == "sdbft.no_journal") {
        log::error(
            log::Category::consensus,
            "THIS VALIDATOR SIGNS NOTHING: its journal (consensus/sdbft.journal) is missing or an old copy, and the "
            "chain, or the key, is not new; the node follows. If no other copy of this key signs or has signed more, "
            "start once with "
            "-acceptmissingjournal");
    } else if (reason == "sdbft.other_signer") {
        log::error(log::Category::consensus,
                   "THIS VALIDATOR SIGNS NOTHING ANY MORE: another process signs with its key, or an old disk was put "
                   "back. Find the other one and stop it before this node is started again; two signers are slashed");
    }
}

}  // namespace

ConsensusThread::ConsensusThread(Parts parts)
    : epoch_(parts.setup.epoch),
      signer_(parts.signer),
      journal_(std::move(parts.journal)),
      ports_(parts.ports),
      clock_(parts.clock) {}

Expected<std::unique_ptr<ConsensusThread>> ConsensusThread::make(Parts parts) {
    auto setup = std::move(parts.setup);
    const auto* signer = parts.signer;
    const auto& scheme = parts.scheme;
    parts.setup.epoch = setup.epoch;
    std::unique_ptr<ConsensusThread> made(new ConsensusThread(std::move(parts)));
    QUERN_TRY(made->core_, sdbft::Core::make(std::move(setup), signer, scheme));
    made->publish();
    return made;
}

void ConsensusThread::start() {
    thread_ = std::thread([this] { run(); });
}

void ConsensusThread::stop() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

bool ConsensusThread::receive(sdbft::PeerId peer, Bytes message, bool stranger) {
    {
        const MutexLock lock(mutex_);
        if (stopping_) return true;
        if (!messages_.push(peer, std::move(message), stranger)) {
            ++state_.dropped_messages;
            return false;
        }
    }
    changed_.notify_one();
    return true;
}

void ConsensusThread::forget(sdbft::PeerId peer) {
    const MutexLock lock(mutex_);
    messages_.forget(peer);
}

void ConsensusThread::post(sdbft::Event event) {
    bool fits = true;
    {
        const MutexLock lock(mutex_);
        fits = events_.size() < kMaxWaitingEvents;
        if (fits) events_.push_back(std::move(event));
    }
    if (!fits) return ports_.failed(fault("consensus.too_many_events", std::to_string(kMaxWaitingEvents)).value());
    changed_.notify_one();
}

bool ConsensusThread::post_range(sdbft::event::Ranged range) {
    {
        const MutexLock lock(mutex_);
        if (waiting_ranges_ >= kMaxWaitingRanges || events_.size() >= kMaxWaitingEvents) return false;
        ++waiting_ranges_;
        events_.emplace_back(std::move(range));
    }
    changed_.notify_one();
    return true;
}

void ConsensusThread::transactions_changed() {
    // Who is told false below is told before the pool is asked, and then finds what was admitted before this call.
    if (knows_of_transactions_) return;
    {
        const MutexLock lock(mutex_);
        transactions_changed_ = true;
    }
    changed_.notify_one();
}

ConsensusThread::State ConsensusThread::state() const {
    const MutexLock lock(mutex_);
    State state = state_;
    state.queued_bytes = messages_.bytes();
    return state;
}

void ConsensusThread::run() {
    if (const auto done = loop(); !done) ports_.failed(done.error());
}

std::uint64_t ConsensusThread::wait_ms() const {
    constexpr std::uint64_t kIdleMs = 1000;
    const std::uint64_t now = clock_.monotonic_ms();
    if (!wake_at_) return kIdleMs;
    return *wake_at_ <= now ? 0 : std::min(*wake_at_ - now, kIdleMs);
}

Status ConsensusThread::loop() {
    QUERN_CHECK(step(sdbft::event::Started{}));
    for (;;) {
        std::optional<sdbft::Event> next;
        bool check_pool = false;
        {
            MutexLock lock(mutex_);
            if (!unsynced_sequence_ && !stopping_ && !transactions_changed_ && events_.empty() && messages_.empty())
                changed_.wait_for(lock, std::chrono::milliseconds(wait_ms()));
            if (stopping_) break;
            check_pool = std::exchange(transactions_changed_, false);
            if (!events_.empty()) {
                next.emplace(std::move(events_.front()));
                events_.pop_front();
                if (std::holds_alternative<sdbft::event::Ranged>(*next)) --waiting_ranges_;
            } else if (auto received = messages_.pop()) {
                next.emplace(std::move(*received));
            }
        }
        if (wake_at_ && clock_.monotonic_ms() >= *wake_at_) {
            wake_at_.reset();
            QUERN_CHECK(step(sdbft::event::TimePassed{}));
        }
        if (next) QUERN_CHECK(step(*next));
        if (check_pool) QUERN_CHECK(check_transactions());
        if (unsynced_sequence_ && (!next || ++events_unsynced_ >= kEventsPerSync)) QUERN_CHECK(sync());
    }
    return unsynced_sequence_ ? sync() : Status{};
}

Status ConsensusThread::check_transactions() {
    knows_of_transactions_ = false;
    const bool waiting = ports_.transactions_wait();
    knows_of_transactions_ = waiting;
    if (waiting == transactions_wait_) return {};
    transactions_wait_ = waiting;
    return step(sdbft::event::TransactionsWait{waiting});
}

Status ConsensusThread::step(const sdbft::Event& event) {
    auto actions = core_->step(event, {clock_.now_ms(), clock_.monotonic_ms()});
    for (auto& action : actions) QUERN_CHECK(perform(action));
    if (const auto* committed = std::get_if<sdbft::event::Committed>(&event)) {
        if (committed->next_epoch) epoch_ = *committed->next_epoch;
        ports_.committed(*committed);
        QUERN_CHECK(check_transactions());
    }
    publish();
    return {};
}

Status ConsensusThread::perform(sdbft::Action& action) {
    namespace act = sdbft::action;
    if (auto* send = std::get_if<act::Send>(&action)) {
        ports_.send(std::move(*send), member_);
    } else if (const auto* ask_range = std::get_if<act::AskRange>(&action)) {
        ports_.ask_range(ask_range->first_height, ask_range->peer);
    } else if (const auto* ask_block = std::get_if<act::AskBlock>(&action)) {
        ports_.ask_block(ask_block->hash, ask_block->peer);
    } else if (auto* persist = std::get_if<act::Persist>(&action)) {
        if (persist->replace && journal_) {
            // What waits is older than the replacement: it goes first.
            if (!unsynced_.empty()) QUERN_CHECK(journal_->append(unsynced_));
            unsynced_.clear();
            QUERN_CHECK(journal_->replace(persist->records));
        } else if (journal_) {
            std::move(persist->records.begin(), persist->records.end(), std::back_inserter(unsynced_));
        }
        unsynced_sequence_ = persist->sequence;
    } else if (const auto* wake = std::get_if<act::WakeAt>(&action)) {
        wake_at_ = wake->monotonic_ms;
    } else if (auto* build = std::get_if<act::Build>(&action)) {
        ports_.build(std::move(build->request));
    } else if (auto* validate = std::get_if<act::Validate>(&action)) {
        ports_.validate(std::move(*validate));
    } else if (auto* commit = std::get_if<act::Commit>(&action)) {
        ports_.commit(std::move(*commit));
    } else if (auto* keep = std::get_if<act::Keep>(&action)) {
        if (keep->certificate.type == chain::consensus::VoteType::nullify) {
            const MutexLock lock(mutex_);
            ++state_.views_nullified;
        }
        ports_.keep(std::move(keep->certificate));
    } else if (auto* convict = std::get_if<act::Convict>(&action)) {
        ports_.convict(std::move(convict->evidence));
    } else if (const auto* misbehaved = std::get_if<act::Misbehaved>(&action)) {
        ports_.misbehaved(*misbehaved);
    } else if (const auto* block = std::get_if<act::ServeBlock>(&action)) {
        ports_.serve_block(block->peer, block->hash, block->block);
    } else if (const auto* range = std::get_if<act::ServeRange>(&action)) {
        ports_.serve_range(range->peer, range->first_height);
    } else if (const auto* halt = std::get_if<act::Halt>(&action)) {
        return fail(halt->error);
    }
    return {};
}

Status ConsensusThread::sync() {
    if (journal_ && !unsynced_.empty()) {
        QUERN_CHECK(journal_->append(unsynced_));
        const MutexLock lock(mutex_);
        ++state_.journal_syncs;
    }
    unsynced_.clear();
    events_unsynced_ = 0;
    const std::uint64_t sequence = *unsynced_sequence_;
    unsynced_sequence_.reset();
    return step(sdbft::event::Persisted{sequence});
}

void ConsensusThread::publish() {
    const auto view = core_->status();
    {
        const MutexLock lock(mutex_);
        if (state_.committee.members().empty() || view.epoch != state_.core.epoch) state_.committee = epoch_.committee;
        state_.core = view;
        state_.member = member_ =
            signer_ != nullptr && state_.committee.index_of(signer_->public_key()) < state_.committee.members().size();
    }
    if (view.refuses_because == refused_) return;
    refused_ = view.refuses_because;
    log_refusal(refused_);
    if (refused_ == "sdbft.no_journal" && journal_) {
        // At the next start it would pass for the one that is missing.
        if (const auto erased = journal_->erase(); !erased)
            log::error(log::Category::consensus, "journal not erased reason={}", erased.error().to_string());
        journal_.reset();
    }
}

}  // namespace quern::node
