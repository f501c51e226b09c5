// One content on its way from several peers: first its leaf hashes, checked against the id, then 1 MiB chunks, rarest
// first, each leaf checked alone; near the end a chunk is asked of several. A bad leaf costs its source, not the
// transfer. Pure: bytes go to the caller; network_content.cpp sends what the calls return. One thread.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "content/manifest.h"
#include "p2p/messages/messages.h"

namespace quern::p2p::content_exchange {

inline constexpr std::size_t kMaxRequestsPerSource = 4;
inline constexpr std::size_t kEndgameSources = 3;  // a chunk is asked of so many once no other is left to ask for
inline constexpr std::uint64_t kChunkMs = 20'000;
inline constexpr std::uint64_t kHashesMs = 20'000;

class FetchPlan {
public:
    using Peer = Bytes20;
    struct Ask {
        Peer peer;
        bool hashes = false;  // get_leaf_hashes, else get_leaves
        messages::GetLeaves request;
    };

    // `size` is unknown until the first source tells it.
    explicit FetchPlan(const Hash32& id) : id_(id) {}

    // Errors: content.wrong_size (another size than the manifest has).
    [[nodiscard]] quern::Status add_source(const Peer& peer, const messages::ContentHolding& holding);
    void remove_source(const Peer& peer);
    [[nodiscard]] std::size_t sources() const { return sources_.size(); }

    [[nodiscard]] std::vector<Ask> next_asks(std::uint64_t now_ms);
    // Errors: content.unasked, content.wrong_length, content.id_mismatch (all hashes are there and do not make the id:
    // whoever sent them is dropped).
    [[nodiscard]] quern::Status received_hashes(const Peer& peer, const messages::Leaves& hashes);
    // The bytes are good when this succeeds; `is_new` is false for an endgame's second copy. Errors: content.unasked,
    // content.wrong_length, content.bad_leaf.
    struct Chunk {
        std::uint64_t offset = 0;
        bool is_new = false;
    };
    [[nodiscard]] Expected<Chunk> received_leaves(const Peer& peer, const messages::Leaves& leaves);
    // The peer refused or failed to answer: it is asked no more.
    void failed(const Peer& peer);
    [[nodiscard]] std::vector<Peer> expired(std::uint64_t now_ms);
    // Marks a chunk that is on disk already and verified (resume).
    void mark_present(std::uint64_t chunk);

    [[nodiscard]] const content::Manifest* manifest() const { return has_manifest_ ? &manifest_ : nullptr; }
    // Takes a manifest from disk; error content.id_mismatch.
    [[nodiscard]] quern::Status set_manifest(content::Manifest manifest);
    [[nodiscard]] bool is_done() const { return has_manifest_ && present_count_ == present_.size(); }
    [[nodiscard]] std::uint64_t chunks() const { return present_.size(); }
    [[nodiscard]] std::uint64_t chunks_present() const { return present_count_; }
    [[nodiscard]] bool is_present(std::uint64_t chunk) const { return present_[chunk]; }
    // Whether these are the leaves of a chunk.
    [[nodiscard]] bool verify_chunk(std::uint64_t chunk, BytesView bytes) const;
    [[nodiscard]] std::uint64_t chunk_bytes(std::uint64_t chunk) const;

private:
    struct Source {
        std::uint64_t size = 0;
        Bytes chunks;                                  // as in ContentHolding
        std::map<std::uint64_t, std::uint64_t> asked;  // chunk -> deadline
        [[nodiscard]] bool has(std::uint64_t chunk) const {
            return chunks.empty() || (chunk / 8 < chunks.size() && (chunks[chunk / 8] >> (chunk % 8) & 1) != 0);
        }
    };
    void start_chunks();
    void ask_hashes(std::vector<Ask>& asks, std::uint64_t now_ms);
    void ask_chunks(std::vector<Ask>& asks, std::uint64_t now_ms);

    Hash32 id_;
    std::map<Peer, Source> sources_;
    content::Manifest manifest_;
    bool has_manifest_ = false;
    std::set<Peer> hash_senders_;
    std::optional<Peer> hashes_from_;
    std::uint64_t hashes_deadline_ms_ = 0;
    std::uint64_t hashes_asked_ = 0;
    std::vector<bool> present_;
    std::vector<std::uint8_t> in_flight_;
    std::uint64_t present_count_ = 0;
};

}  // namespace quern::p2p::content_exchange
