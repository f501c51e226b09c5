#include "node/net/range_sync.h"

#include "base/log.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;
namespace messages = p2p::messages;
using p2p::sync::RangePlanner;
using Failure = RangePlanner::Failure;

namespace {
// The planner asks for no more when less than this is left.
constexpr std::size_t kRoomForNothing = p2p::sync::kMaxSliceBlocks * p2p::sync::kSliceBytesPerBlock;
}  // namespace

RangeSync::RangeSync(Parts parts)
    : parts_(std::move(parts)),
      planner_(parts_.tip + 1),
      tip_(parts_.tip),
      tip_hash_(parts_.tip_hash),
      first_(parts_.tip) {}

void RangeSync::start() {
    thread_ = std::thread([this] { run(); });
}

void RangeSync::stop() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void RangeSync::peer_joined(const Bytes20& peer, const messages::Status& status, bool fixed) {
    {
        const MutexLock lock(mutex_);
        const RangePlanner::Source source{status.earliest_block, status.finalized_number, fixed, rng_.u64()};
        sources_[peer] = source;
        planner_.set_peer(peer, source);
        woken_ = true;
    }
    changed_.notify_all();
}

void RangeSync::peer_said(const Bytes20& peer, const messages::Status& status) {
    {
        const MutexLock lock(mutex_);
        const auto known = sources_.find(peer);
        if (known == sources_.end()) return;
        known->second.earliest = status.earliest_block;
        known->second.head = status.finalized_number;
        planner_.set_peer(peer, known->second);
        woken_ = true;
    }
    changed_.notify_all();
}

void RangeSync::peer_left(const Bytes20& peer) {
    const MutexLock lock(mutex_);
    sources_.erase(peer);
    planner_.remove_peer(peer);
}

void RangeSync::ask() {
    {
        const MutexLock lock(mutex_);
        asked_until_ms_ = parts_.clock.monotonic_ms() + kAskedMs;
        woken_ = true;
    }
    changed_.notify_all();
}

void RangeSync::committed(std::uint64_t number, const Hash32& hash) {
    {
        const MutexLock lock(mutex_);
        tip_ = number;
        tip_hash_ = hash;
        moved_ms_ = parts_.clock.monotonic_ms();
        planner_.advance(number + 1);
        while (!judged_.empty() && judged_.front().last <= number) {
            judged_.pop_front();
            handed_ms_.reset();
            unjudged_ = true;
        }
        if (handed_ms_) handed_ms_ = moved_ms_;
        note_progress();
        // Between two ranges consensus needs nobody.
        if (!judged_.empty() && handed_ms_) return;
        woken_ = true;
    }
    changed_.notify_all();
}

RangeSync::Progress RangeSync::progress() const {
    const MutexLock lock(mutex_);
    return {catching_up_, catching_up_ ? first_ : tip_, tip_, std::max(target(), tip_)};
}

std::uint64_t RangeSync::target() const {
    return std::max(judged_until(), planner_.proven_claim(parts_.clock.monotonic_ms()));
}

bool RangeSync::is_active(std::uint64_t now_ms) const {
    const std::uint64_t best = planner_.best_claim(now_ms);
    return best > tip_ && (best - tip_ > kSyncDistance || now_ms < asked_until_ms_);
}

void RangeSync::run() {
    MutexLock lock(mutex_);
    while (!stopping_) {
        const bool open = !judged_.empty() || !planner_.is_idle() || is_active(parts_.clock.monotonic_ms());
        if (!woken_) changed_.wait_for(lock, std::chrono::milliseconds(open ? kSyncTickMs : 10 * kSyncTickMs));
        if (stopping_) return;
        woken_ = false;
        round();
    }
}

void RangeSync::round() {
    judge();
    hand_over();
    ask_peers();
    note_progress();
}

void RangeSync::judge() {
    while (unjudged_ && judged_.size() < kMaxJudgedRanges && !stopping_) {
        const std::uint64_t first = judged_until() + 1;
        const Hash32 parent = judged_.empty() ? tip_hash_ : judged_.back().hash;
        // All that is here: a finalization may be far away, and so may be what the checkpoint says.
        const auto blocks = planner_.run(first, p2p::sync::kMaxAheadBlocks);
        if (blocks.empty() || waits_for_checkpoint(first + blocks.size())) {
            unjudged_ = false;
            return;
        }
        mutex_.unlock();
        RangeVerdict verdict;
        const auto committee = parts_.committee(parts_.rules.heights.epoch_of(first));
        if (committee) {
            std::vector<const messages::BlockAnswer*> answers;
            for (const auto& block : blocks) answers.push_back(block.answer.get());
            verdict = judge_here(answers, first, parent, *committee);
            if (verdict.blame) parts_.report(blocks[verdict.blame->index].from, verdict.blame->offence);
            if (verdict.forks) parts_.forked(blocks[verdict.count - 1].from, first);
        }
        mutex_.lock();
        if (!committee) {  // the chain is not there yet
            unjudged_ = false;
            return;
        }
        // Blocks came another way meanwhile: look at what is left.
        if (judged_until() + 1 != first) continue;
        take(verdict, first, blocks);
    }
}

// As soon as the checkpoint's block can be here, nothing is taken that does not lead to it.
bool RangeSync::waits_for_checkpoint(std::uint64_t until) const {
    const auto& checkpoint = parts_.rules.checkpoint;
    return checkpoint && checkpoint->number >= until &&
           checkpoint->number - planner_.next() < p2p::sync::kMaxAheadBlocks &&
           planner_.waiting_bytes() + kRoomForNothing < p2p::sync::kMaxAheadBytes;
}

RangeVerdict RangeSync::judge_here(const std::vector<const messages::BlockAnswer*>& blocks, std::uint64_t first,
                                   const Hash32& parent, const chain::consensus::Committee& committee) const {
    if (parts_.rules.checkpoint) {
        if (const auto wrong = outside_history(blocks, first, *parts_.rules.checkpoint)) {
            log::warning(log::Category::node, "a peer's blocks are not in the checkpoint's history number={}",
                         first + *wrong);
            RangeVerdict verdict;
            verdict.blame = RangeVerdict::Blame{
                *wrong, true, p2p::Offence::useless, {"range.other_history", std::to_string(first + *wrong)}};
            return verdict;
        }
    }
    auto verdict = judge_range(blocks, first, parent, committee, parts_.rules);
    if (verdict.count == 0 && !verdict.blame)
        verdict = judge_range(blocks, first, parent, committee, parts_.rules,
                              {p2p::sync::kMaxAheadBlocks, p2p::sync::kMaxAheadBytes});
    return verdict;
}

void RangeSync::take(const RangeVerdict& verdict, std::uint64_t first, const std::vector<RangePlanner::Block>& blocks) {
    const std::uint64_t now = parts_.clock.monotonic_ms();
    if (verdict.blame) {
        const std::size_t index = verdict.blame->index;
        log::debug(log::Category::node, "wrong block in a range number={} peer={} reason={}", first + index,
                   to_hex0x(blocks[index].from), verdict.blame->error.to_string());
        return planner_.discard(blocks[index].from, verdict.blame->all ? first : first + index, Failure::wrong, now);
    }
    if (verdict.forks) {
        // Both sides are final: halting or not is for consensus and people. Here nothing of it is taken.
        for (std::size_t i = 0; i < verdict.count; ++i) planner_.discard(blocks[i].from, first, Failure::wrong, now);
        return;
    }
    if (verdict.count == 0) {
        // An epoch's last block has a finalization of its own. One in all that finds room here has one too, or the
        // chain has a stretch that nobody can catch up with.
        const std::uint64_t last = parts_.rules.heights.last(parts_.rules.heights.epoch_of(first));
        const bool whole = blocks.size() >= p2p::sync::kMaxAheadBlocks || blocks.size() > last - first ||
                           planner_.waiting_bytes() + kRoomForNothing >= p2p::sync::kMaxAheadBytes;
        const bool can_grow = !whole && (!planner_.is_idle() || planner_.best_claim(now) >= first + blocks.size());
        unjudged_ = false;
        if (can_grow) return;
        const std::size_t at = std::min<std::uint64_t>(blocks.size() - 1, last - first);
        log::debug(log::Category::node, "no finalization in a range first={} peer={}", first,
                   to_hex0x(blocks[at].from));
        planner_.discard(blocks[at].from, first, whole ? Failure::refused : Failure::busy, now);
        return;
    }
    Judged judged{first, first + verdict.count - 1, verdict.hash, blocks[verdict.count - 1].from, {}};
    judged.answer.tip_height = judged.last;  // nobody else is to be asked for more
    judged.answer.certificate = verdict.certificate;
    for (std::size_t i = 0; i < verdict.count; ++i) {
        judged.answer.blocks.push_back(blocks[i].answer->block);
        planner_.verified(blocks[i].from);
    }
    judged_.push_back(std::move(judged));
    moved_ms_ = now;
}

void RangeSync::hand_over() {
    if (judged_.empty()) return;
    const std::uint64_t now = parts_.clock.monotonic_ms();
    if (handed_ms_ && now < *handed_ms_ + kHandAgainMs) return;
    handed_ms_ = now;
    // What came another way meanwhile is not needed again.
    Judged& front = judged_.front();
    if (front.first <= tip_) {
        const auto known = static_cast<std::ptrdiff_t>(tip_ - front.first + 1);
        front.answer.blocks.erase(front.answer.blocks.begin(), front.answer.blocks.begin() + known);
        front.first = tip_ + 1;
    }
    auto answer = front.answer;
    const Bytes20 from = front.from;
    mutex_.unlock();
    parts_.deliver(std::move(answer), from);
    mutex_.lock();
}

void RangeSync::ask_peers() {
    const std::uint64_t now = parts_.clock.monotonic_ms();
    if (!is_active(now)) return;
    const auto asks = planner_.next_asks(now);
    if (asks.empty()) return;
    mutex_.unlock();
    for (const auto& ask : asks)
        parts_.request(ask.peer, ask.request, ask.timeout_ms,
                       [this, peer = ask.peer, first = ask.request.first](Expected<messages::Range> range) {
                           answered(peer, first, std::move(range));
                       });
    mutex_.lock();
}

void RangeSync::answered(const Bytes20& peer, std::uint64_t first, Expected<messages::Range> range) {
    bool useless = false;
    {
        const MutexLock lock(mutex_);
        const std::uint64_t now = parts_.clock.monotonic_ms();
        if (range) {
            const auto taken = planner_.received(peer, first, std::move(range->blocks), now);
            useless = !taken && taken.error().name != "range.unasked";
            if (taken) unjudged_ = true;
        } else {
            const Error& error = range.error();
            log::debug(log::Category::node, "no range first={} peer={} reason={}", first, to_hex0x(peer),
                       error.to_string());
            const p2p::NoAnswer why = p2p::why_no_answer(error);
            useless = why == p2p::NoAnswer::refused;
            planner_.failed(peer, first,
                            useless                      ? Failure::refused
                            : why == p2p::NoAnswer::busy ? Failure::busy
                                                         : Failure::late,
                            now);
        }
        woken_ = true;
    }
    changed_.notify_all();
    if (useless) parts_.report(peer, p2p::Offence::useless);
}

void RangeSync::note_progress() {
    const std::uint64_t now = parts_.clock.monotonic_ms();
    const std::uint64_t until = target();
    const auto rate = [now, tip = tip_](std::uint64_t from, std::uint64_t since) {
        return static_cast<double>(tip - from) * 1000.0 / static_cast<double>(std::max<std::uint64_t>(1, now - since));
    };
    const bool behind = until > tip_ + kSyncDistance && now < moved_ms_ + kSyncQuietMs;
    if (!catching_up_) {
        // Only what a committee finalized shows that this node is behind.
        if (judged_until() <= tip_ + kSyncDistance) return;
        catching_up_ = true;
        first_ = reported_number_ = tip_;
        began_ms_ = reported_ms_ = now;
        log::info(log::Category::node, "catching up height={} target={}", tip_, until);
    } else if (!behind) {
        catching_up_ = false;
        log::info(log::Category::node, "caught up height={} blocks={} seconds={:.1f} blocks_per_s={:.0f}", tip_,
                  tip_ - first_, static_cast<double>(now - began_ms_) / 1000.0, rate(first_, began_ms_));
    } else if (now >= reported_ms_ + kSyncReportMs) {
        log::info(log::Category::node, "catching up height={} target={} blocks_per_s={:.0f}", tip_, until,
                  rate(reported_number_, reported_ms_));
        reported_ms_ = now;
        reported_number_ = tip_;
    }
}

}  // namespace quern::node
