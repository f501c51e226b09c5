#include "p2p/content_exchange/fetch_plan.h"

#include <algorithm>

namespace quern::p2p::content_exchange {
namespace {

using crypto::kContentLeafBytes;
using messages::kChunkBytes;
using messages::kLeavesPerChunk;

std::uint64_t chunk_count(std::uint64_t size) { return size / kChunkBytes + (size % kChunkBytes != 0 ? 1 : 0); }

}  // namespace

quern::Status FetchPlan::add_source(const Peer& peer, const messages::ContentHolding& holding) {
    if (has_manifest_ && holding.size != manifest_.size) return fail("content.wrong_size");
    Source& source = sources_[peer];
    source.size = holding.size;
    source.chunks = holding.chunks;
    return {};
}

void FetchPlan::remove_source(const Peer& peer) {
    const auto at = sources_.find(peer);
    if (at == sources_.end()) return;
    for (const auto& [chunk, deadline] : at->second.asked) --in_flight_[chunk];
    sources_.erase(at);
    if (hashes_from_ == peer) hashes_from_.reset();
}

void FetchPlan::failed(const Peer& peer) { remove_source(peer); }

void FetchPlan::start_chunks() {
    has_manifest_ = true;
    hashes_from_.reset();
    present_.assign(chunk_count(manifest_.size), false);
    in_flight_.assign(present_.size(), 0);
    for (auto at = sources_.begin(); at != sources_.end();)
        at = at->second.size != manifest_.size ? sources_.erase(at) : std::next(at);
}

quern::Status FetchPlan::set_manifest(content::Manifest manifest) {
    if (crypto::content_id_of_leaves(manifest.leaves, manifest.size) != id_) return fail("content.id_mismatch");
    manifest_ = std::move(manifest);
    start_chunks();
    return {};
}

void FetchPlan::ask_hashes(std::vector<Ask>& asks, std::uint64_t now_ms) {
    if (hashes_from_ || sources_.empty()) return;
    // All hashes come from sources that agree on the size; the first claims it.
    auto source = sources_.begin();
    if (!manifest_.leaves.empty()) {
        source = std::find_if(sources_.begin(), sources_.end(),
                              [&](const auto& each) { return each.second.size == manifest_.size; });
        if (source == sources_.end()) {
            manifest_ = {};
            hash_senders_.clear();
            source = sources_.begin();
        }
    }
    manifest_.size = source->second.size;
    const std::uint64_t total = crypto::content_leaf_count(manifest_.size);
    if (total == 0) {
        if (set_manifest({})) return;
        sources_.erase(source);  // claims an emptiness that this id does not name
        return;
    }
    hashes_asked_ = std::min<std::uint64_t>(total - manifest_.leaves.size(), messages::kMaxLeafHashes);
    hashes_from_ = source->first;
    hashes_deadline_ms_ = now_ms + kHashesMs;
    asks.push_back({source->first, true, {id_, manifest_.leaves.size(), hashes_asked_}});
}

void FetchPlan::ask_chunks(std::vector<Ask>& asks, std::uint64_t now_ms) {
    const auto copies = [this](std::uint64_t chunk) {
        return std::count_if(sources_.begin(), sources_.end(),
                             [chunk](const auto& source) { return source.second.has(chunk); });
    };
    std::vector<std::pair<std::ptrdiff_t, std::uint64_t>> open;  // (copies, chunk): rarest first, then in order
    for (std::uint64_t chunk = 0; chunk < present_.size(); ++chunk)
        if (!present_[chunk] && in_flight_[chunk] == 0) open.emplace_back(copies(chunk), chunk);
    const bool endgame = open.empty();
    if (endgame)
        for (std::uint64_t chunk = 0; chunk < present_.size(); ++chunk)
            if (!present_[chunk] && in_flight_[chunk] < kEndgameSources) open.emplace_back(in_flight_[chunk], chunk);
    std::sort(open.begin(), open.end());
    for (const auto& [rarity, chunk] : open) {
        auto best = sources_.end();
        for (auto at = sources_.begin(); at != sources_.end(); ++at) {
            if (!at->second.has(chunk) || at->second.asked.size() >= kMaxRequestsPerSource ||
                at->second.asked.count(chunk) != 0)
                continue;
            if (best == sources_.end() || at->second.asked.size() < best->second.asked.size()) best = at;
        }
        if (best == sources_.end()) continue;
        best->second.asked[chunk] = now_ms + kChunkMs;
        ++in_flight_[chunk];
        const std::uint64_t first = chunk * kLeavesPerChunk;
        const std::uint64_t count = std::min<std::uint64_t>(kLeavesPerChunk, manifest_.leaves.size() - first);
        asks.push_back({best->first, false, {id_, first, count}});
    }
}

std::vector<FetchPlan::Ask> FetchPlan::next_asks(std::uint64_t now_ms) {
    std::vector<Ask> asks;
    if (!has_manifest_) ask_hashes(asks, now_ms);
    if (has_manifest_) ask_chunks(asks, now_ms);
    return asks;
}

quern::Status FetchPlan::received_hashes(const Peer& peer, const messages::Leaves& hashes) {
    if (has_manifest_ || hashes_from_ != peer || hashes.id != id_ || hashes.first != manifest_.leaves.size())
        return fail("content.unasked");
    hashes_from_.reset();
    if (hashes.bytes.size() != 32 * hashes_asked_) {
        remove_source(peer);
        return fail("content.wrong_length");
    }
    hash_senders_.insert(peer);
    for (std::size_t at = 0; at < hashes.bytes.size(); at += 32)
        manifest_.leaves.push_back(Hash32::copy_of(BytesView(hashes.bytes).subspan(at, 32)));
    if (manifest_.leaves.size() < crypto::content_leaf_count(manifest_.size)) return {};
    if (crypto::content_id_of_leaves(manifest_.leaves, manifest_.size) == id_) {
        start_chunks();
        return {};
    }
    // One of the senders lied; which one cannot be told, so none of them is used again.
    for (const auto& sender : hash_senders_) remove_source(sender);
    hash_senders_.clear();
    manifest_ = {};
    return fail("content.id_mismatch");
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

Expected<FetchPlan::Chunk> FetchPlan::received_leaves(const Peer& peer, const messages::Leaves& leaves) {
    const auto source = sources_.find(peer);
    const std::uint64_t chunk = leaves.first / kLeavesPerChunk;
    if (!has_manifest_ || source == sources_.end() || leaves.id != id_ || leaves.first % kLeavesPerChunk != 0 ||
        source->second.asked.erase(chunk) == 0)
        return fail("content.unasked");
    --in_flight_[chunk];
    if (leaves.bytes.size() != chunk_bytes(chunk)) {
        remove_source(peer);
        return fail("content.wrong_length");
    }
    if (!verify_chunk(chunk, leaves.bytes)) {
        remove_source(peer);
        return fail("content.bad_leaf", "in chunk " + std::to_string(chunk));
    }
    const bool is_new = !present_[chunk];
    mark_present(chunk);
    return Chunk{chunk * kChunkBytes, is_new};
}

void FetchPlan::mark_present(std::uint64_t chunk) {
    if (present_[chunk]) return;
    present_[chunk] = true;
    ++present_count_;
}

std::vector<FetchPlan::Peer> FetchPlan::expired(std::uint64_t now_ms) {
    std::vector<Peer> late;
    if (hashes_from_ && hashes_deadline_ms_ <= now_ms) late.push_back(*hashes_from_);
    for (const auto& [peer, source] : sources_)
        if (std::any_of(source.asked.begin(), source.asked.end(),
                        [now_ms](const auto& each) { return each.second <= now_ms; }) &&
            std::find(late.begin(), late.end(), peer) == late.end())
            late.push_back(peer);
    for (const auto& peer : late) remove_source(peer);
    return late;
}

}  // namespace quern::p2p::content_exchange
