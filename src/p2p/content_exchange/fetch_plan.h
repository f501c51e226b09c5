// One content on its way from several peers: first its leaf hashes, checked against the id, then 1 MiB chunks, rarest
// first, each leaf checked alone; near the end a chunk is asked of several. A bad leaf costs its source, not the
// transfer, and a source that says nothing costs a few round trips: what it was asked for is asked of another
// meanwhile, it is asked nothing new before it has answered, and after a while it waits, longer each time. Sources are
// chosen at random among those that have failed least, so nobody is asked first by the look of its address. Pure: bytes
// go to the caller, time is an argument in milliseconds; network_content.cpp sends what the calls return. One thread.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "base/rng.h"
#include "content/manifest.h"
#include "p2p/messages/messages.h"

namespace quern::p2p::content_exchange {

inline constexpr std::size_t kMaxRequestsPerSource = 4;  // two at first, one more for each answer
inline constexpr std::size_t kEndgameSources = 3;        // a chunk is asked of so many once no other is left to ask for
inline constexpr std::size_t kHashSources = 2;           // sources that are asked for the leaf hashes at once
inline constexpr std::uint64_t kAnswerMs = 20'000;       // without an answer for so long, a source has failed
// After a few round trips and the time that the bytes should take, another source is asked for the same.
inline constexpr std::uint64_t kPatienceRoundTrips = 4;
inline constexpr std::uint64_t kLeastPatienceMs = 200;
inline constexpr std::uint64_t kAssumedRoundTripMs = 250;  // before it is measured
inline constexpr std::uint64_t kAssumedBytesPerMs = 512;   // 512 KB/s, before a source has shown better or worse
inline constexpr std::uint64_t kFirstPauseMs = 5'000;      // of a source that failed; doubles
inline constexpr std::uint64_t kMaxPauseMs = 320'000;
inline constexpr std::uint64_t kBusyPauseMs = 1'000;          // of a source that refuses for now
inline constexpr std::size_t kMaxRememberedFailures = 1'024;  // sources; the one whose pause ends first is forgotten
inline constexpr std::size_t kMaxSources = 256;

class FetchPlan {
public:
    using Peer = Bytes20;
    struct Ask {
        Peer peer;
        bool hashes = false;  // get_leaf_hashes, else get_leaves
        messages::GetLeaves request;
    };

    // `size` is unknown until the first source tells it. `rng` outlives the plan.
    FetchPlan(const Hash32& id, Rng& rng) : id_(id), rng_(rng) {}

    // A peer says what it has, again or for the first time. Errors: content.wrong_size (another size than the manifest
    // has); content.source_waits (busy: it has failed lately, or lied), content.too_many_sources (busy).
    [[nodiscard]] quern::Status add_source(const Peer& peer, const messages::ContentHolding& holding,
                                           std::uint64_t now_ms);
    void set_round_trip(const Peer& peer, std::uint64_t round_trip_ms);
    // It is gone; no fault.
    void remove_source(const Peer& peer);
    [[nodiscard]] std::size_t sources() const { return sources_.size(); }

    // What to ask now. Cost: sources times the logarithm of chunks.
    [[nodiscard]] std::vector<Ask> next_asks(std::uint64_t now_ms);
    // Errors: content.unasked (busy: the request was given to another meanwhile), content.wrong_length,
    // content.id_mismatch (all hashes are there and do not make the id). The liar is not used again.
    [[nodiscard]] quern::Status received_hashes(const Peer& peer, const messages::Leaves& hashes);
    // The bytes are good when this succeeds; `is_new` is false for a second copy. Errors: content.unasked,
    // content.wrong_length, content.bad_leaf.
    struct Chunk {
        std::uint64_t offset = 0;
        bool is_new = false;
    };
    [[nodiscard]] Expected<Chunk> received_leaves(const Peer& peer, const messages::Leaves& leaves,
                                                  std::uint64_t now_ms);
    // The peer refused this, or the request failed: it waits before it is asked again.
    void failed(const Ask& ask, std::uint64_t now_ms);
    // It has no time for this now: others may be asked, and it again after kBusyPauseMs.
    void refused_for_now(const Ask& ask, std::uint64_t now_ms);
    // Gives what is overdue to others; who has not answered at all for kAnswerMs waits and is returned.
    std::vector<Peer> expired(std::uint64_t now_ms);
    // Marks a chunk that is on disk already and verified (resume).
    void mark_present(std::uint64_t chunk);

    [[nodiscard]] const content::Manifest* manifest() const { return has_manifest_ ? &manifest_ : nullptr; }
    // Takes a manifest from disk; error content.id_mismatch.
    [[nodiscard]] quern::Status set_manifest(content::Manifest manifest);
    [[nodiscard]] bool is_done() const { return has_manifest_ && present_count_ == chunks_.size(); }
    [[nodiscard]] std::uint64_t chunks() const { return chunks_.size(); }
    [[nodiscard]] std::uint64_t chunks_present() const { return present_count_; }
    [[nodiscard]] bool is_present(std::uint64_t chunk) const { return chunks_[chunk].present; }
    // Whether these are the leaves of a chunk.
    [[nodiscard]] bool verify_chunk(std::uint64_t chunk, BytesView bytes) const;
    [[nodiscard]] std::uint64_t chunk_bytes(std::uint64_t chunk) const;

private:
    struct Asked {
        std::uint64_t at_ms = 0;
        bool overdue = false;  // another may be asked, too
    };
    struct Source {
        std::uint64_t size = 0;
        Bytes chunks;                          // as in ContentHolding
        std::map<std::uint64_t, Asked> asked;  // by chunk
        std::size_t window = 2;
        bool silent = false;  // something is overdue and nothing has come since
        std::uint64_t round_trip_ms = kAssumedRoundTripMs;
        std::uint64_t bytes_per_ms = kAssumedBytesPerMs;
        std::uint64_t busy_until_ms = 0;
        std::uint64_t cursor = 0;  // of the search through a partial holding
        [[nodiscard]] bool has(std::uint64_t chunk) const {
            return chunks.empty() || (chunk / 8 < chunks.size() && (chunks[chunk / 8] >> (chunk % 8) & 1) != 0);
        }
    };
    struct ChunkState {
        std::uint32_t copies = 0;  // partial sources that have it; whole ones have all
        std::uint8_t in_flight = 0;
        std::uint8_t overdue = 0;  // of these
        bool present = false;
    };
    // One source's leaf hashes on their way: all from one, so that a lie has a name.
    struct HashRun {
        Peer peer;
        std::uint64_t size = 0;
        std::vector<Hash32> leaves;
        std::uint64_t asked = 0;  // 0: the next request is due
        std::uint64_t asked_ms = 0;
    };
    struct Failure {
        std::uint32_t count = 0;
        std::uint64_t until_ms = 0;
    };
    using Sources = std::map<Peer, Source>;

    void start_chunks();
    void ask_hashes(std::vector<Ask>& asks, std::uint64_t now_ms);
    void ask_chunks(std::vector<Ask>& asks, std::uint64_t now_ms);
    void ask_chunk(const Peer& peer, Source& source, std::uint64_t chunk, std::vector<Ask>& asks, std::uint64_t now_ms);
    [[nodiscard]] std::optional<std::uint64_t> choose(Source& source);
    [[nodiscard]] std::vector<Sources::iterator> by_reliability(std::uint64_t now_ms);
    [[nodiscard]] std::uint64_t patience_ms(const Peer& peer, const Source& source, std::uint64_t bytes) const;
    void give_pause(const Peer& peer, std::uint64_t now_ms);
    void lied(const Peer& peer);
    void count_copies(const Source& source, int by);
    void no_longer_asked(const Asked& asked, std::uint64_t chunk);
    // Puts a chunk where the choice finds it; before and after each change of its state.
    void unlist(std::uint64_t chunk);
    void list(std::uint64_t chunk);

    Hash32 id_;
    Rng& rng_;
    Sources sources_;
    std::map<Peer, Failure> failures_;
    content::Manifest manifest_;
    bool has_manifest_ = false;
    std::vector<HashRun> hash_runs_;
    std::vector<ChunkState> chunks_;
    std::set<std::pair<std::uint32_t, std::uint64_t>> open_;  // (copies, chunk) that nobody is fetching in time
    std::set<std::pair<std::uint8_t, std::uint64_t>> busy_;   // (in flight, chunk) under way: for the endgame
    std::uint64_t present_count_ = 0;
};

}  // namespace quern::p2p::content_exchange
