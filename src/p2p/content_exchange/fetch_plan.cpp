#include "p2p/content_exchange/fetch_plan.h"

#include <algorithm>
#include <limits>

namespace quern::p2p::content_exchange {
namespace {

using crypto::kContentLeafBytes;
using messages::kChunkBytes;
using messages::kLeavesPerChunk;

constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kMaxProbes = 64;  // of the order by rarity, for a source that has a part only

std::uint64_t chunk_count(std::uint64_t size) { return size / kChunkBytes + (size % kChunkBytes != 0 ? 1 : 0); }

}  // namespace

// --- Sources ---------------------------------------------------------------------------------------------------------

quern::Status FetchPlan::add_source(const Peer& peer, const messages::ContentHolding& holding, std::uint64_t now_ms) {
    if (has_manifest_ && holding.size != manifest_.size) return fail("content.wrong_size");
    const auto failure = failures_.find(peer);
    if (failure != failures_.end() && failure->second.until_ms > now_ms) return busy("content.source_waits");
    const auto known = sources_.find(peer);
    if (known == sources_.end() && sources_.size() >= kMaxSources) return busy("content.too_many_sources");
    if (known != sources_.end()) {
        if (known->second.size == holding.size && known->second.chunks == holding.chunks) return {};
        count_copies(known->second, -1);
    }
    Source& source = sources_[peer];
    source.size = holding.size;
    source.chunks = holding.chunks;
    source.cursor = 0;
    if (known == sources_.end() && failure != failures_.end()) source.window = 1;
    count_copies(source, 1);
    return {};
}

void FetchPlan::count_copies(const Source& source, int by) {
    if (source.chunks.empty()) return;
    for (std::uint64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
        if (!source.has(chunk)) continue;
        unlist(chunk);
        chunks_[chunk].copies += static_cast<std::uint32_t>(by);
        list(chunk);
    }
}

void FetchPlan::set_round_trip(const Peer& peer, std::uint64_t round_trip_ms) {
    if (const auto at = sources_.find(peer); at != sources_.end())
        at->second.round_trip_ms = std::min(round_trip_ms, kAnswerMs / kPatienceRoundTrips);
}

void FetchPlan::remove_source(const Peer& peer) {
    const auto at = sources_.find(peer);
    if (at == sources_.end()) return;
    for (const auto& [chunk, asked] : at->second.asked) no_longer_asked(asked, chunk);
    count_copies(at->second, -1);
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
        if (!at->second.silent && at->second.busy_until_ms <= now_ms) order.push_back(at);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.below(i)]);
    if (failures_.empty()) return order;
    const auto count = [&](const Sources::iterator& at) {
        const auto failure = failures_.find(at->first);
        return failure == failures_.end() ? 0U : failure->second.count;
    };
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) { return count(a) < count(b); });
    return order;
}

// --- Leaf hashes -----------------------------------------------------------------------------------------------------

void FetchPlan::ask_hashes(std::vector<Ask>& asks, std::uint64_t now_ms) {
    for (const auto& at : by_reliability(now_ms)) {
        if (hash_runs_.size() >= kHashSources) break;
        const Peer peer = at->first;
        if (std::any_of(hash_runs_.begin(), hash_runs_.end(), [&](const HashRun& run) { return run.peer == peer; }))
            continue;
        if (crypto::content_leaf_count(at->second.size) == 0) {
            if (set_manifest({})) return;
            lied(peer);  // claims an emptiness that this id does not name
            continue;
        }
        hash_runs_.push_back({peer, at->second.size, {}, 0, 0});
    }
    for (HashRun& run : hash_runs_) {
        if (run.asked != 0) continue;
        run.asked =
            std::min<std::uint64_t>(crypto::content_leaf_count(run.size) - run.leaves.size(), messages::kMaxLeafHashes);
        run.asked_ms = now_ms;
        asks.push_back({run.peer, true, {id_, run.leaves.size(), run.asked}});
    }
}

quern::Status FetchPlan::received_hashes(const Peer& peer, const messages::Leaves& hashes) {
    const auto run =
        std::find_if(hash_runs_.begin(), hash_runs_.end(), [&](const HashRun& each) { return each.peer == peer; });
    if (has_manifest_ || run == hash_runs_.end() || run->asked == 0 || hashes.id != id_ ||
        hashes.first != run->leaves.size())
        return busy("content.unasked");
    if (hashes.bytes.size() != 32 * run->asked) {
        lied(peer);
        return fail("content.wrong_length");
    }
    run->asked = 0;
    for (std::size_t at = 0; at < hashes.bytes.size(); at += 32)
        run->leaves.push_back(Hash32::copy_of(BytesView(hashes.bytes).subspan(at, 32)));
    if (run->leaves.size() < crypto::content_leaf_count(run->size)) return {};
    content::Manifest manifest;
    manifest.size = run->size;
    manifest.leaves = std::move(run->leaves);
    if (set_manifest(std::move(manifest))) return {};
    lied(peer);
    return fail("content.id_mismatch");
}

quern::Status FetchPlan::set_manifest(content::Manifest manifest) {
    if (crypto::content_id_of_leaves(manifest.leaves, manifest.size) != id_) return fail("content.id_mismatch");
    manifest_ = std::move(manifest);
    start_chunks();
    return {};
}

void FetchPlan::start_chunks() {
    has_manifest_ = true;
    hash_runs_.clear();
    std::erase_if(sources_, [&](const auto& source) { return source.second.size != manifest_.size; });
    chunks_.assign(chunk_count(manifest_.size), {});
    for (auto& [peer, source] : sources_) {
        source.silent = false;
        if (source.chunks.empty()) continue;
        for (std::uint64_t chunk = 0; chunk < chunks_.size(); ++chunk) chunks_[chunk].copies += source.has(chunk);
    }
    for (std::uint64_t chunk = 0; chunk < chunks_.size(); ++chunk) list(chunk);
}

// --- Chunks ----------------------------------------------------------------------------------------------------------

void FetchPlan::unlist(std::uint64_t chunk) {
    const ChunkState& state = chunks_[chunk];
    open_.erase({state.copies, chunk});
    busy_.erase({state.in_flight, chunk});
}

void FetchPlan::list(std::uint64_t chunk) {
    const ChunkState& state = chunks_[chunk];
    if (state.present) return;
    if (state.in_flight == state.overdue && state.in_flight < kEndgameSources)
        open_.insert({state.copies, chunk});
    else if (state.in_flight < kEndgameSources)
        busy_.insert({state.in_flight, chunk});
}

void FetchPlan::no_longer_asked(const Asked& asked, std::uint64_t chunk) {
    unlist(chunk);
    --chunks_[chunk].in_flight;
    if (asked.overdue) --chunks_[chunk].overdue;
    list(chunk);
}

std::optional<std::uint64_t> FetchPlan::choose(Source& source) {
    const auto fits = [&](std::uint64_t chunk) { return source.has(chunk) && !source.asked.contains(chunk); };
    std::size_t probes = 0;
    for (const auto& [copies, chunk] : open_) {
        if (fits(chunk)) return chunk;
        if (++probes >= kMaxProbes) break;
    }
    if (open_.empty()) {
        for (const auto& [in_flight, chunk] : busy_) {
            if (fits(chunk)) return chunk;
            if (++probes >= kMaxProbes) break;
        }
        return std::nullopt;
    }
    if (probes < kMaxProbes || source.chunks.empty()) return std::nullopt;
    // What it has is not among the rarest: on from where the last search ended, once around at most.
    for (std::uint64_t steps = 0; steps < chunks_.size(); ++steps) {
        const std::uint64_t chunk = source.cursor;
        source.cursor = chunk + 1 == chunks_.size() ? 0 : chunk + 1;
        if (fits(chunk) && open_.contains({chunks_[chunk].copies, chunk})) return chunk;
    }
    return std::nullopt;
}

void FetchPlan::ask_chunk(const Peer& peer, Source& source, std::uint64_t chunk, std::vector<Ask>& asks,
                          std::uint64_t now_ms) {
    source.asked[chunk] = {now_ms, false};
    unlist(chunk);
    ++chunks_[chunk].in_flight;
    list(chunk);
    const std::uint64_t first = chunk * kLeavesPerChunk;
    const std::uint64_t count = std::min<std::uint64_t>(kLeavesPerChunk, manifest_.leaves.size() - first);
    asks.push_back({peer, false, {id_, first, count}});
}

void FetchPlan::ask_chunks(std::vector<Ask>& asks, std::uint64_t now_ms) {
    auto order = by_reliability(now_ms);
    // One each in turn, so that a few chunks are spread over many sources.
    while (!order.empty())
        std::erase_if(order, [&](const Sources::iterator& at) {
            Source& source = at->second;
            if (source.asked.size() >= source.window) return true;
            const auto chunk = choose(source);
            if (chunk) ask_chunk(at->first, source, *chunk, asks, now_ms);
            return !chunk;
        });
}

std::vector<FetchPlan::Ask> FetchPlan::next_asks(std::uint64_t now_ms) {
    std::vector<Ask> asks;
    if (!has_manifest_) ask_hashes(asks, now_ms);
    if (has_manifest_) ask_chunks(asks, now_ms);
    return asks;
}

std::uint64_t FetchPlan::chunk_bytes(std::uint64_t chunk) const {
    return std::min<std::uint64_t>(kChunkBytes, manifest_.size - chunk * kChunkBytes);
}

bool FetchPlan::verify_chunk(std::uint64_t chunk, BytesView bytes) const {
    if (bytes.size() != chunk_bytes(chunk)) return false;
    for (std::size_t leaf = chunk * kLeavesPerChunk; !bytes.empty(); ++leaf) {
        const BytesView part = bytes.first(std::min(bytes.size(), kContentLeafBytes));
        if (crypto::merkle_leaf(part) != manifest_.leaves[leaf]) return false;
        bytes = bytes.subspan(part.size());
    }
    return true;
}

Expected<FetchPlan::Chunk> FetchPlan::received_leaves(const Peer& peer, const messages::Leaves& leaves,
                                                      std::uint64_t now_ms) {
    const auto at = sources_.find(peer);
    const std::uint64_t chunk = leaves.first / kLeavesPerChunk;
    if (!has_manifest_ || at == sources_.end() || leaves.id != id_ || leaves.first % kLeavesPerChunk != 0 ||
        !at->second.asked.contains(chunk))
        return busy("content.unasked");
    Source& source = at->second;
    const Asked asked = source.asked.at(chunk);
    source.asked.erase(chunk);
    no_longer_asked(asked, chunk);
    if (leaves.bytes.size() != chunk_bytes(chunk)) {
        lied(peer);
        return fail("content.wrong_length");
    }
    if (!verify_chunk(chunk, leaves.bytes)) {
        lied(peer);
        return fail("content.bad_leaf", "in chunk " + std::to_string(chunk));
    }
    // Requests queue up at the source: this one's time is that of all before it, too.
    const std::uint64_t took = std::max<std::uint64_t>(now_ms - std::min(asked.at_ms, now_ms), 1);
    source.bytes_per_ms = std::max<std::uint64_t>((3 * source.bytes_per_ms + leaves.bytes.size() / took) / 4, 1);
    source.silent = false;
    source.window = std::min(source.window + 1, kMaxRequestsPerSource);
    if (const auto failure = failures_.find(peer); failure != failures_.end()) failures_.erase(failure);
    const bool is_new = !chunks_[chunk].present;
    mark_present(chunk);
    return Chunk{chunk * kChunkBytes, is_new};
}

void FetchPlan::mark_present(std::uint64_t chunk) {
    if (chunks_[chunk].present) return;
    unlist(chunk);
    chunks_[chunk].present = true;
    ++present_count_;
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
            unlist(chunk);
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
