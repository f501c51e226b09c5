// One content on its way from several peers: first its leaf hashes, checked against the id, then 1 MiB chunks, rarest
// first; near the end a chunk is asked of several. A bad leaf costs its source, not the transfer, and a source that
// says nothing costs a few round trips: what it was asked for is asked of another meanwhile, it is asked nothing new
// before it has answered, and after a while it waits, longer each time. Sources are chosen at random among those that
// have failed least, so nobody is asked first by the look of its address. Among chunks that equally few have, the order
// begins at a random place, so that nodes which fetch at the same time have different parts to give to each other.
//
// What comes is hashed and written elsewhere, by other threads: the caller takes what the calls return there and says
// what came of it (hashes_checked, checked); meanwhile such a chunk is asked of nobody. network_content.cpp does that.
// Pure: time is an argument in milliseconds. One thread.
//
// Cost. Chunks that may be asked for are in linked lists by the number of sources that have them: whatever happens to
// one costs the same in a content of any size, and the next one is at the head of the first list. A source that has a
// part only looks at kMaxProbes of them, then through its own part, 64 chunks at a time, from where it stopped; when
// that is in vain, not again before another chunk is to be asked for or it has more. What a source says to have costs
// its difference from before. Memory: 16 bytes a chunk, a bit a chunk and partial source, 32 bytes a leaf; of
// kMaxHashRuns as many more while the leaves come, as they come; nothing for sizes above the largest that is taken.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/rng.h"
#include "content/manifest.h"
#include "p2p/messages/messages.h"

namespace quern::p2p::content_exchange {

inline constexpr std::size_t kMaxRequestsPerSource = 4;  // two at first, one more for each answer
// By all fetches together, so that its answers find room in a share of those that wait to be read (answer_account.h).
inline constexpr std::size_t kChunksAskedOfPeer = 8;
inline constexpr std::size_t kEndgameSources = 3;  // a chunk is asked of so many once no other is left to ask for
inline constexpr std::size_t kHashSources = 2;     // sources that are asked for the leaf hashes at once ...
// ... but for those that are at it for so long: whoever claims a large size and sends its invented hashes slowly keeps
// nobody else from being asked. Of so many at once the one that has taken longest gives way.
inline constexpr std::uint64_t kHashRunMs = 10'000;
inline constexpr std::size_t kMaxHashRuns = 8;
inline constexpr std::uint64_t kAnswerMs = 20'000;  // without an answer for so long, a source has failed
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

    // A size is a stranger's word until its leaf hashes make the id: none above `max_bytes` is taken. `rng` gives the
    // seed of what is chosen by chance; no source gains by guessing that.
    FetchPlan(const Hash32& id, Rng& rng, std::uint64_t max_bytes = messages::kMaxContentBytes)
        : id_(id), rng_(rng.u64()), max_bytes_(max_bytes) {}
    // Somebody else takes up to so many.
    void allow(std::uint64_t max_bytes) { max_bytes_ = std::max(max_bytes_, max_bytes); }

    // A peer says what it has, again or for the first time. Errors: content.too_large; content.wrong_size (another size
    // than the manifest has); content.nothing_there (busy: it has none of the chunks yet, and is no source);
    // content.source_waits (busy: it has failed lately, or lied), content.too_many_sources (busy).
    [[nodiscard]] quern::Status add_source(const Peer& peer, const messages::ContentHolding& holding,
                                           std::uint64_t now_ms);
    void set_round_trip(const Peer& peer, std::uint64_t round_trip_ms);
    // It is gone; no fault.
    void remove_source(const Peer& peer);
    [[nodiscard]] std::size_t sources() const { return sources_.size(); }

    // Whether one more question, for leaf hashes or for a chunk, may go to a peer now.
    using MayAsk = std::function<bool(const Peer&, bool hashes)>;
    // What to ask now; what `may_ask` was asked about and allowed is asked. Cost: the number of sources, and what is
    // asked.
    [[nodiscard]] std::vector<Ask> next_asks(std::uint64_t now_ms, const MayAsk& may_ask);
    [[nodiscard]] std::vector<Ask> next_asks(std::uint64_t now_ms) {
        return next_asks(now_ms, [](const Peer&, bool) { return true; });
    }
    // When these are a source's last ones, the manifest that they make: the caller checks whether it is that of the id,
    // and tells hashes_checked. Errors: content.unasked (busy: the request was given to another meanwhile),
    // content.wrong_length. The liar is not used again.
    [[nodiscard]] Expected<std::shared_ptr<const content::Manifest>> received_hashes(const Peer& peer,
                                                                                     const messages::Leaves& hashes);
    void hashes_checked(const Peer& peer, std::shared_ptr<const content::Manifest> manifest, bool good);
    // A new chunk is for the caller to check, who tells checked(); of a second copy nothing is wanted. Errors:
    // content.unasked (busy), content.wrong_length.
    struct Chunk {
        std::uint64_t number = 0;
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
    // The caller checks what is on disk already (resume): a chunk that nobody has been asked for.
    void begin_check(std::uint64_t chunk);
    // What came of it: it is there for good, or it must come again. `from` sent it; who sent a bad one is not used
    // again.
    void checked(std::uint64_t chunk, const std::optional<Peer>& from, bool good);
    // One that was here was found bad on disk since: it must come again.
    void lost(std::uint64_t chunk);
    // It could not be judged: it must come again, and nobody is to blame.
    void not_checked(std::uint64_t chunk);

    [[nodiscard]] const std::shared_ptr<const content::Manifest>& manifest() const { return manifest_; }
    // Takes the manifest of the id, which the caller has checked; once.
    void set_manifest(std::shared_ptr<const content::Manifest> manifest);
    [[nodiscard]] bool is_done() const { return manifest_ != nullptr && present_count_ == chunks_.size(); }
    [[nodiscard]] std::uint64_t chunks() const { return chunks_.size(); }
    [[nodiscard]] std::uint64_t chunks_present() const { return present_count_; }
    [[nodiscard]] bool is_present(std::uint64_t chunk) const { return chunks_[chunk].is == State::present; }
    // As in ContentHolding.
    [[nodiscard]] const Bytes& present() const { return present_; }
    [[nodiscard]] std::uint64_t chunk_bytes(std::uint64_t chunk) const;
    // Memory that leaf hashes take: those that are there, and those on their way.
    [[nodiscard]] std::uint64_t hash_bytes() const;

private:
    struct Asked {
        std::uint64_t at_ms = 0;
        bool overdue = false;  // another may be asked, too
    };
    struct Source {
        std::uint64_t size = 0;
        std::vector<std::uint64_t> part;       // bits of the chunks that it has; empty: all
        std::map<std::uint64_t, Asked> asked;  // by chunk
        std::size_t window = 2;
        bool silent = false;  // something is overdue and nothing has come since
        std::uint64_t round_trip_ms = kAssumedRoundTripMs;
        std::uint64_t bytes_per_ms = kAssumedBytesPerMs;
        std::uint64_t busy_until_ms = 0;
        std::size_t cursor = 0;           // of the search through its part
        std::uint64_t in_vain_since = 0;  // opened_ when it had none of the open ones
        [[nodiscard]] bool has(std::uint64_t chunk) const {
            return part.empty() || (part[chunk / 64] >> (chunk % 64) & 1) != 0;
        }
    };
    enum class State : std::uint8_t { missing, checking, present };
    // Lists: chunks that nobody is fetching in time, by the number of partial sources that have them (whole ones have
    // all), then those under way, by the number of sources asked, for the endgame.
    using List = std::uint16_t;
    static constexpr List kBusy = kMaxSources + 1;
    static constexpr List kLists = kBusy + kEndgameSources;
    static constexpr List kNoList = kLists;
    using Number = std::uint32_t;
    static constexpr Number kNone = ~Number{0};
    struct ChunkState {
        Number next = kNone;
        Number before = kNone;
        std::uint16_t copies = 0;
        List list = kNoList;
        std::uint8_t in_flight = 0;
        std::uint8_t overdue = 0;  // of these
        State is = State::missing;
    };
    static_assert(sizeof(ChunkState) == 16);
    struct Ends {
        Number first = kNone;
        Number last = kNone;
    };
    // One source's leaf hashes on their way: all from one, so that a lie has a name.
    struct HashRun {
        Peer peer;
        std::uint64_t size = 0;
        std::uint64_t began_ms = 0;
        std::vector<Hash32> leaves;
        std::uint64_t asked = 0;  // 0: the next request is due
        std::uint64_t asked_ms = 0;
        bool checking = false;  // all are here
    };
    struct Failure {
        std::uint32_t count = 0;
        std::uint64_t until_ms = 0;
    };
    using Sources = std::map<Peer, Source>;

    void end_slow_hash_run(std::uint64_t now_ms);
    void ask_hashes(std::vector<Ask>& asks, std::uint64_t now_ms, const MayAsk& may_ask);
    void ask_chunks(std::vector<Ask>& asks, std::uint64_t now_ms, const MayAsk& may_ask);
    void ask_chunk(const Peer& peer, Source& source, std::uint64_t chunk, std::vector<Ask>& asks, std::uint64_t now_ms);
    [[nodiscard]] std::optional<std::uint64_t> choose(Source& source);
    [[nodiscard]] std::optional<std::uint64_t> choose_from(const Source& source, List begin, List end) const;
    [[nodiscard]] std::optional<std::uint64_t> search_part(Source& source);
    [[nodiscard]] std::vector<Sources::iterator> by_reliability(std::uint64_t now_ms);
    [[nodiscard]] std::uint64_t patience_ms(const Peer& peer, const Source& source, std::uint64_t bytes) const;
    void give_pause(const Peer& peer, std::uint64_t now_ms);
    void lied(const Peer& peer);
    // What a source has from now on, for the number of copies.
    void take_part(Source& source, std::vector<std::uint64_t> part);
    void no_longer_asked(const Asked& asked, std::uint64_t chunk);
    // Puts a chunk where the choice finds it, after each change of its state.
    void list(std::uint64_t chunk);
    void set_state(std::uint64_t chunk, State state);

    Hash32 id_;
    SeededRng rng_;
    std::uint64_t max_bytes_;
    Sources sources_;
    std::map<Peer, Failure> failures_;
    std::shared_ptr<const content::Manifest> manifest_;
    std::vector<HashRun> hash_runs_;
    std::vector<ChunkState> chunks_;
    std::array<Ends, kLists> lists_;
    std::array<std::uint64_t, kLists / 64 + 1> filled_{};  // bits of the lists that are not empty
    std::vector<std::uint64_t> open_;                      // bits of the chunks in lists below kBusy
    std::uint64_t open_count_ = 0;
    std::uint64_t opened_ = 1;  // times that a chunk became one of these
    Bytes present_;
    std::uint64_t present_count_ = 0;
};

}  // namespace quern::p2p::content_exchange
