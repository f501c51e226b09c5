#include "p2p/content_exchange/fetch_plan.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace quern::p2p::content_exchange {
namespace {

using messages::kChunkBytes;
using messages::kLeavesPerChunk;

constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kMaxProbes = 64;  // of the order by rarity, for a source that has a part only

std::uint64_t chunk_count(std::uint64_t size) { return size / kChunkBytes + (size % kChunkBytes != 0 ? 1 : 0); }

// A holding's bitmap in words; as many as the content has chunks, whatever was sent.
std::vector<std::uint64_t> words_of(const messages::ContentHolding& holding) {
    std::vector<std::uint64_t> words;
    if (holding.chunks.empty()) return words;
    const std::uint64_t chunks = chunk_count(holding.size);
    words.resize(chunks / 64 + 1);
    for (std::size_t i = 0; i < std::min<std::uint64_t>(holding.chunks.size(), (chunks + 7) / 8); ++i)
        words[i / 8] |= std::uint64_t{holding.chunks[i]} << (i % 8 * 8);
    words.back() &= (std::uint64_t{1} << chunks % 64) - 1;
    return words;
}

}  // namespace

// --- Sources ---------------------------------------------------------------------------------------------------------

quern::Status FetchPlan::add_source(const Peer& peer, const messages::ContentHolding& holding, std::uint64_t now_ms) {
    if (holding.size > max_bytes_) return fail("content.too_large");
    if (manifest_ && holding.size != manifest_->size) return fail("content.wrong_size");
    auto part = words_of(holding);
    if (!part.empty() && std::all_of(part.begin(), part.end(), [](std::uint64_t word) { return word == 0; })) {
        remove_source(peer);
        return busy("content.nothing_there");
    }
    const auto failure = failures_.find(peer);
    if (failure != failures_.end() && failure->second.until_ms > now_ms) return busy("content.source_waits");
    const auto known = sources_.find(peer);
    if (known == sources_.end() && sources_.size() >= kMaxSources) return busy("content.too_many_sources");
    Source& source = sources_[peer];
    source.size = holding.size;
    if (known == sources_.end() && failure != failures_.end()) source.window = 1;
    take_part(source, std::move(part));
    return {};
}

void FetchPlan::take_part(Source& source, std::vector<std::uint64_t> part) {
    if (part == source.part) return;
    const auto word = [](const std::vector<std::uint64_t>& words, std::size_t i) {
        return i < words.size() ? words[i] : 0;
    };
    for (std::size_t i = 0; i * 64 < chunks_.size(); ++i)
        for (std::uint64_t other = word(part, i) ^ word(source.part, i); other != 0; other &= other - 1) {
            const std::uint64_t chunk = i * 64 + static_cast<std::uint64_t>(std::countr_zero(other));
            const bool gained = (word(part, i) & (other & -other)) != 0;
            chunks_[chunk].copies = static_cast<std::uint16_t>(chunks_[chunk].copies + (gained ? 1 : -1));
            list(chunk);
        }
    source.part = std::move(part);
    source.cursor = 0;
    source.in_vain_since = 0;
}

void FetchPlan::set_round_trip(const Peer& peer, std::uint64_t round_trip_ms) {
    if (const auto at = sources_.find(peer); at != sources_.end())
        at->second.round_trip_ms = std::min(round_trip_ms, kAnswerMs / kPatienceRoundTrips);
}

void FetchPlan::remove_source(const Peer& peer) {
    const auto at = sources_.find(peer);
    if (at == sources_.end()) return;
    for (const auto& [chunk, asked] : at->second.asked) no_longer_asked(asked, chunk);
    take_part(at->second, {});
    sources_.erase(at);
    std::erase_if(hash_runs_, [&](const HashRun& run) { return run.peer == peer; });
}

void FetchPlan::give_pause(const Peer& peer, std::uint64_t now_ms) {
    remove_source(peer);
    Failure& failure = failures_[peer];
    const std::uint64_t pause = std::min(kFirstPauseMs << std::min<std::uint32_t>(failure.count, 10), kMaxPauseMs);
    ++failure.count;
    if (failure.until_ms != kForEver) failure.until_ms = now_ms + pause;
    if (failures_.size() > kMaxRememberedFailures)
        failures_.erase(std::min_element(failures_.begin(), failures_.end(), [](const auto& a, const auto& b) {
            return a.second.until_ms < b.second.until_ms;
        }));
}

void FetchPlan::lied(const Peer& peer) {
    give_pause(peer, 0);
    failures_[peer].until_ms = kForEver;
}

void FetchPlan::failed(const Ask& ask, std::uint64_t now_ms) {
    const auto at = sources_.find(ask.peer);
    if (at == sources_.end()) return;
    // The answer to a request that was given up before says nothing new.
    const bool open = ask.hashes ? std::any_of(hash_runs_.begin(), hash_runs_.end(),
                                               [&](const HashRun& run) { return run.peer == ask.peer; })
                                 : at->second.asked.contains(ask.request.first / kLeavesPerChunk);
    if (open) give_pause(ask.peer, now_ms);
}

void FetchPlan::refused_for_now(const Ask& ask, std::uint64_t now_ms) {
    const auto at = sources_.find(ask.peer);
    if (at == sources_.end()) return;
    Source& source = at->second;
    // A request that ran out of time is no polite refusal.
    const auto waited = [now_ms](std::uint64_t since_ms) { return now_ms - std::min(since_ms, now_ms); };
    for (const HashRun& run : hash_runs_)
        if (ask.hashes && run.peer == ask.peer && waited(run.asked_ms) >= kAnswerMs) return failed(ask, now_ms);
    source.busy_until_ms = now_ms + kBusyPauseMs;
    source.window = 1;
    if (ask.hashes) {
        std::erase_if(hash_runs_, [&](const HashRun& run) { return run.peer == ask.peer; });
        return;
    }
    const std::uint64_t chunk = ask.request.first / kLeavesPerChunk;
    const auto asked = source.asked.find(chunk);
    if (asked == source.asked.end()) return;
    if (waited(asked->second.at_ms) >= kAnswerMs) return failed(ask, now_ms);
    no_longer_asked(asked->second, chunk);
    source.asked.erase(asked);
    source.in_vain_since = 0;  // this one it may be asked for again
}

// Four round trips and the time for the bytes; doubled for each failure, so that slow lines get through in the end.
std::uint64_t FetchPlan::patience_ms(const Peer& peer, const Source& source, std::uint64_t bytes) const {
    const auto failure = failures_.find(peer);
    const std::uint32_t doublings = failure == failures_.end() ? 0 : std::min<std::uint32_t>(failure->second.count, 6);
    const std::uint64_t patience = std::max(kPatienceRoundTrips * source.round_trip_ms, kLeastPatienceMs) +
                                   bytes / std::max<std::uint64_t>(source.bytes_per_ms, 1);
    return std::min(patience << doublings, kAnswerMs);
}

std::vector<FetchPlan::Sources::iterator> FetchPlan::by_reliability(std::uint64_t now_ms) {
    std::vector<Sources::iterator> order;
    for (auto at = sources_.begin(); at != sources_.end(); ++at)
        if (!at->second.silent && at->second.busy_until_ms <= now_ms && at->second.asked.size() < at->second.window)
            order.push_back(at);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.below(i)]);
    if (failures_.empty()) return order;
    // Most have never failed, and need no sorting.
    const auto failed =
        std::partition(order.begin(), order.end(), [&](const auto& at) { return !failures_.contains(at->first); });
    const auto count = [&](const Sources::iterator& at) { return failures_.at(at->first).count; };
    std::stable_sort(failed, order.end(), [&](const auto& a, const auto& b) { return count(a) < count(b); });
    return order;
}

// --- Leaf hashes -----------------------------------------------------------------------------------------------------

// The one that has taken longest, where all places are taken and somebody else could be asked.
void FetchPlan::end_slow_hash_run(std::uint64_t now_ms) {
    if (hash_runs_.size() < kMaxHashRuns || sources_.size() <= hash_runs_.size()) return;
    const auto slowest = std::min_element(hash_runs_.begin(), hash_runs_.end(), [](const HashRun& a, const HashRun& b) {
        return std::pair(a.checking, a.began_ms) < std::pair(b.checking, b.began_ms);
    });
    if (slowest->checking || now_ms < slowest->began_ms + kHashRunMs) return;
    const Peer peer = slowest->peer;
    give_pause(peer, now_ms);
}

void FetchPlan::ask_hashes(std::vector<Ask>& asks, std::uint64_t now_ms, const MayAsk& may_ask) {
    end_slow_hash_run(now_ms);
    auto in_time = std::count_if(hash_runs_.begin(), hash_runs_.end(), [now_ms](const HashRun& run) {
        return run.checking || now_ms < run.began_ms + kHashRunMs;
    });
    for (const auto& at : by_reliability(now_ms)) {
        if (static_cast<std::size_t>(in_time) >= kHashSources || hash_runs_.size() >= kMaxHashRuns) break;
        const Peer peer = at->first;
        if (std::any_of(hash_runs_.begin(), hash_runs_.end(), [&](const HashRun& run) { return run.peer == peer; }))
            continue;
        if (crypto::content_leaf_count(at->second.size) == 0) {
            const auto empty = std::make_shared<const content::Manifest>();
            if (content::is_manifest_of(*empty, id_)) return set_manifest(empty);
            lied(peer);  // claims an emptiness that this id does not name
            continue;
        }
        hash_runs_.push_back({peer, at->second.size, now_ms, {}, 0, 0, false});
        ++in_time;
    }
    for (HashRun& run : hash_runs_) {
        if (run.asked != 0 || run.checking || !may_ask(run.peer, true)) continue;
        run.asked =
            std::min<std::uint64_t>(crypto::content_leaf_count(run.size) - run.leaves.size(), messages::kMaxLeafHashes);
        run.asked_ms = now_ms;
        asks.push_back({run.peer, true, {id_, run.leaves.size(), run.asked}});
    }
}

Expected<std::shared_ptr<const content::Manifest>> FetchPlan::received_hashes(const Peer& peer,
                                                                              const messages::Leaves& hashes) {
    const auto run =
        std::find_if(hash_runs_.begin(), hash_runs_.end(), [&](const HashRun& each) { return each.peer == peer; });
    if (manifest_ || run == hash_runs_.end() || run->asked == 0 || hashes.id != id_ ||
        hashes.first != run->leaves.size())
        return busy("content.unasked");
    if (hashes.bytes.size() != 32 * run->asked) {
        lied(peer);
        return fail("content.wrong_length");
    }
    run->asked = 0;
    for (std::size_t at = 0; at < hashes.bytes.size(); at += 32)
        run->leaves.push_back(Hash32::copy_of(BytesView(hashes.bytes).subspan(at, 32)));
    if (run->leaves.size() < crypto::content_leaf_count(run->size)) return nullptr;
    run->checking = true;
    return std::make_shared<const content::Manifest>(content::Manifest{run->size, std::move(run->leaves)});
}

void FetchPlan::hashes_checked(const Peer& peer, std::shared_ptr<const content::Manifest> manifest, bool good) {
    if (!good) return lied(peer);
    if (!manifest_) set_manifest(std::move(manifest));
}

void FetchPlan::set_manifest(std::shared_ptr<const content::Manifest> manifest) {
    manifest_ = std::move(manifest);
    hash_runs_.clear();
    std::erase_if(sources_, [&](const auto& source) { return source.second.size != manifest_->size; });
    chunks_.assign(chunk_count(manifest_->size), {});
    open_.assign(chunks_.size() / 64 + 1, 0);
    present_.assign((chunks_.size() + 7) / 8, 0);
    const std::uint64_t first = rng_.below(chunks_.size());
    for (std::uint64_t i = 0; i < chunks_.size(); ++i) list((first + i) % chunks_.size());
    for (auto& [peer, source] : sources_) {
        source.silent = false;
        take_part(source, std::exchange(source.part, {}));
    }
}

// --- Chunks ----------------------------------------------------------------------------------------------------------

void FetchPlan::list(std::uint64_t chunk) {
    ChunkState& state = chunks_[chunk];
    List wanted = kNoList;
    if (state.is == State::missing && state.in_flight < kEndgameSources)
        wanted = state.in_flight == state.overdue ? state.copies : static_cast<List>(kBusy + state.in_flight);
    if (wanted == state.list) return;
    const std::uint64_t bit = std::uint64_t{1} << chunk % 64;
    if (state.list != kNoList) {
        Ends& ends = lists_[state.list];
        (state.before == kNone ? ends.first : chunks_[state.before].next) = state.next;
        (state.next == kNone ? ends.last : chunks_[state.next].before) = state.before;
        if (ends.first == kNone) filled_[state.list / 64] &= ~(std::uint64_t{1} << state.list % 64);
    }
    const bool was_open = state.list < kBusy;
    const bool is_open = wanted < kBusy;
    if (was_open && !is_open) {
        open_[chunk / 64] &= ~bit;
        --open_count_;
    } else if (is_open && !was_open) {
        open_[chunk / 64] |= bit;
        ++open_count_;
        ++opened_;
    }
    state.list = wanted;
    if (wanted == kNoList) return;
    Ends& ends = lists_[wanted];
    state.before = ends.last;
    state.next = kNone;
    const auto number = static_cast<Number>(chunk);
    (ends.last == kNone ? ends.first : chunks_[ends.last].next) = number;
    ends.last = number;
    filled_[wanted / 64] |= std::uint64_t{1} << wanted % 64;
}

void FetchPlan::no_longer_asked(const Asked& asked, std::uint64_t chunk) {
    --chunks_[chunk].in_flight;
    if (asked.overdue) --chunks_[chunk].overdue;
    list(chunk);
}

// The first of lists `begin` to `end` that the source has and was not asked for, among kMaxProbes.
std::optional<std::uint64_t> FetchPlan::choose_from(const Source& source, List begin, List end) const {
    std::size_t probes = 0;
    for (std::size_t word = begin / 64; word < filled_.size(); ++word)
        for (std::uint64_t rest = filled_[word]; rest != 0; rest &= rest - 1) {
            const std::size_t number = word * 64 + static_cast<std::size_t>(std::countr_zero(rest));
            if (number < begin) continue;
            if (number >= end) return std::nullopt;
            for (Number chunk = lists_[number].first; chunk != kNone; chunk = chunks_[chunk].next) {
                if (source.has(chunk) && !source.asked.contains(chunk)) return chunk;
                if (++probes >= kMaxProbes) return std::nullopt;
            }
        }
    return std::nullopt;
}

// What it has is not among the rarest: on from where the last search ended, once around at most.
std::optional<std::uint64_t> FetchPlan::search_part(Source& source) {
    for (std::size_t steps = 0; steps <= open_.size(); ++steps) {
        const std::size_t word = source.cursor;
        for (std::uint64_t rest = source.part[word] & open_[word]; rest != 0; rest &= rest - 1) {
            const std::uint64_t chunk = word * 64 + static_cast<std::uint64_t>(std::countr_zero(rest));
            if (!source.asked.contains(chunk)) return chunk;
        }
        source.cursor = word + 1 == open_.size() ? 0 : word + 1;
    }
    return std::nullopt;
}

std::optional<std::uint64_t> FetchPlan::choose(Source& source) {
    if (open_count_ == 0) return choose_from(source, kBusy, kLists);
    if (source.in_vain_since == opened_) return std::nullopt;
    auto chunk = choose_from(source, 0, kBusy);
    if (!chunk && !source.part.empty()) chunk = search_part(source);
    if (!chunk) source.in_vain_since = opened_;
    return chunk;
}

void FetchPlan::ask_chunk(const Peer& peer, Source& source, std::uint64_t chunk, std::vector<Ask>& asks,
                          std::uint64_t now_ms) {
    source.asked[chunk] = {now_ms, false};
    ++chunks_[chunk].in_flight;
    list(chunk);
    const std::uint64_t first = chunk * kLeavesPerChunk;
    const std::uint64_t count = std::min<std::uint64_t>(kLeavesPerChunk, manifest_->leaves.size() - first);
    asks.push_back({peer, false, {id_, first, count}});
}

void FetchPlan::ask_chunks(std::vector<Ask>& asks, std::uint64_t now_ms, const MayAsk& may_ask) {
    // Most arrivals leave nothing to ask for: all is on its way.
    if (std::all_of(filled_.begin(), filled_.end(), [](std::uint64_t word) { return word == 0; })) return;
    auto order = by_reliability(now_ms);
    // One each in turn, so that a few chunks are spread over many sources.
    while (!order.empty())
        std::erase_if(order, [&](const Sources::iterator& at) {
            Source& source = at->second;
            if (source.asked.size() >= source.window) return true;
            const auto chunk = choose(source);
            if (!chunk || !may_ask(at->first, false)) return true;
            ask_chunk(at->first, source, *chunk, asks, now_ms);
            return false;
        });
}

std::vector<FetchPlan::Ask> FetchPlan::next_asks(std::uint64_t now_ms, const MayAsk& may_ask) {
    std::vector<Ask> asks;
    if (!manifest_) ask_hashes(asks, now_ms, may_ask);
    if (manifest_) ask_chunks(asks, now_ms, may_ask);
    return asks;
}

std::uint64_t FetchPlan::hash_bytes() const {
    std::uint64_t leaves = manifest_ ? manifest_->leaves.size() : 0;
    for (const HashRun& run : hash_runs_) leaves += run.leaves.size();
    return leaves * Hash32::kSize;
}

std::uint64_t FetchPlan::chunk_bytes(std::uint64_t chunk) const {
    return std::min<std::uint64_t>(kChunkBytes, manifest_->size - chunk * kChunkBytes);
}

Expected<FetchPlan::Chunk> FetchPlan::received_leaves(const Peer& peer, const messages::Leaves& leaves,
                                                      std::uint64_t now_ms) {
    const auto at = sources_.find(peer);
    const std::uint64_t chunk = leaves.first / kLeavesPerChunk;
    if (!manifest_ || at == sources_.end() || leaves.id != id_ || leaves.first % kLeavesPerChunk != 0 ||
        !at->second.asked.contains(chunk))
        return busy("content.unasked");
    Source& source = at->second;
    const Asked asked = source.asked.at(chunk);
    source.asked.erase(chunk);
    if (leaves.bytes.size() != chunk_bytes(chunk)) {
        no_longer_asked(asked, chunk);
        lied(peer);
        return fail("content.wrong_length");
    }
    // First of all, so that it is not to be asked for again in between.
    const bool is_new = chunks_[chunk].is == State::missing;
    if (is_new) chunks_[chunk].is = State::checking;
    no_longer_asked(asked, chunk);
    // Requests queue up at the source: this one's time is that of all before it, too.
    const std::uint64_t took = std::max<std::uint64_t>(now_ms - std::min(asked.at_ms, now_ms), 1);
    source.bytes_per_ms = std::max<std::uint64_t>((3 * source.bytes_per_ms + leaves.bytes.size() / took) / 4, 1);
    source.silent = false;
    return Chunk{chunk, is_new};
}

void FetchPlan::set_state(std::uint64_t chunk, State state) {
    chunks_[chunk].is = state;
    if (state == State::present) {
        present_[chunk / 8] = static_cast<std::uint8_t>(present_[chunk / 8] | 1U << (chunk % 8));
        ++present_count_;
    }
    list(chunk);
}

void FetchPlan::lost(std::uint64_t chunk) {
    if (chunk >= chunks_.size() || !is_present(chunk)) return;
    present_[chunk / 8] = static_cast<std::uint8_t>(present_[chunk / 8] & ~(1U << (chunk % 8)));
    --present_count_;
    set_state(chunk, State::missing);
}

void FetchPlan::begin_check(std::uint64_t chunk) { set_state(chunk, State::checking); }
void FetchPlan::not_checked(std::uint64_t chunk) { set_state(chunk, State::missing); }

void FetchPlan::checked(std::uint64_t chunk, const std::optional<Peer>& from, bool good) {
    set_state(chunk, good ? State::present : State::missing);
    if (!from) return;
    if (!good) return lied(*from);
    // Another chunk of its may have been a lie meanwhile.
    const auto failure = failures_.find(*from);
    if (failure != failures_.end() && failure->second.until_ms != kForEver) failures_.erase(failure);
    if (const auto source = sources_.find(*from); source != sources_.end())
        source->second.window = std::min(source->second.window + 1, kMaxRequestsPerSource);
}

std::vector<FetchPlan::Peer> FetchPlan::expired(std::uint64_t now_ms) {
    std::vector<Peer> late;
    for (auto& [peer, source] : sources_)
        for (auto& [chunk, asked] : source.asked) {
            const std::uint64_t waited = now_ms - std::min(asked.at_ms, now_ms);
            if (waited >= kAnswerMs) {
                late.push_back(peer);
                break;
            }
            if (asked.overdue || waited < patience_ms(peer, source, source.asked.size() * kChunkBytes)) continue;
            asked.overdue = true;
            ++chunks_[chunk].overdue;
            list(chunk);
            source.silent = true;
        }
    // Leaf hashes: who is overdue makes way when another could be asked; one that is alone goes on.
    std::size_t others = sources_.size() - std::min(hash_runs_.size(), sources_.size());
    for (const HashRun& run : hash_runs_) {
        if (run.asked == 0) continue;
        const std::uint64_t waited = now_ms - std::min(run.asked_ms, now_ms);
        const bool over = waited >= patience_ms(run.peer, sources_.at(run.peer), 32 * run.asked);
        if (waited < kAnswerMs && !(over && others != 0)) continue;
        late.push_back(run.peer);
        if (others != 0) --others;
    }
    for (const auto& peer : late) give_pause(peer, now_ms);
    return late;
}

}  // namespace quern::p2p::content_exchange
