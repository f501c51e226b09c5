// The node's door to other nodes: starts the network thread, keeps connections to peers, carries consensus messages,
// transactions, blocks and contents. Used by the node alone.
//
// Threads. All state belongs to one network thread; files of contents are read for peers by one disk thread, what is
// fetched is checked and written by two content threads. Every public function may be called from any thread and
// returns at once. The handler's functions and all callbacks run on the network thread: they must return quickly (hand
// work to your own queues) and may call back into Network. A Responder may be kept and answered later from any thread.
// Stopping (the destructor) joins all threads; afterwards no callback runs. Callbacks of requests that are still open
// get the error network.stopped.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "content/store.h"
#include "crypto/signature.h"
#include "p2p/messages/messages.h"
#include "p2p/messages/peer_record.h"
#include "p2p/offence.h"

namespace quern::p2p {

struct StaticPeer {
    Bytes20 address;
    messages::Endpoint endpoint;
    bool operator==(const StaticPeer&) const = default;
};
// "0x<40 hex>@host:port", IPv6 hosts in brackets. Error p2p.bad_peer.
[[nodiscard]] Expected<StaticPeer> parse_static_peer(std::string_view text);

// A proposal goes as short ids when its transactions, once for each member that is to have it, are as many bytes: 0.2 s
// of an uplink of 20 Mbit/s. Where members are near each other, whole ones come no later and cost less.
inline constexpr std::size_t kCompactProposalBytes = 512U << 10;

struct NetworkOptions {
    std::uint64_t chain_id = 0;
    Hash32 genesis_hash;
    std::string agent = "quern";
    std::uint32_t roles = 2;     // transport/net_cert.h
    bool local_network = false;  // a network of test nodes: loopback and private addresses are no strangers there
    bool listen = true;
    std::string listen_host = "0.0.0.0";
    std::uint16_t port = 0;                      // 0: any free one, see Network::port()
    std::vector<messages::Endpoint> advertised;  // where others reach this node; with none it is not passed on
    std::vector<StaticPeer> static_peers;
    std::vector<StaticPeer> seed_nodes;  // asked for others when nobody else is known
    std::size_t max_inbound = 64;
    std::size_t max_outbound = 8;
    std::uint64_t bulk_bytes_per_second = 0;  // 0: learned
    std::size_t partial_memory = 256U << 20;  // of messages that are not whole yet, all peers together
    std::uint64_t unfinished_ms = 30'000;     // from a message's first record to its last
    std::uint64_t certificate_seconds = 30 * 86'400;
    std::string peers_file;              // where known peers survive a restart; empty: nowhere
    content::Store* contents = nullptr;  // served and filled; must outlive the network
    // Of fetched chunks that wait to be hashed and written, 1 MiB each: from a third on nothing more is asked for, and
    // what comes beyond all of it is dropped.
    std::size_t check_memory = 96U << 20;
    std::size_t compact_proposal_bytes = kCompactProposalBytes;
    // Bytes of leaf hashes a second that peers of one host may have this node read from its disk and check, which takes
    // longer than sending them; four times as much at once. Those of contents asked for lately are in memory.
    std::uint64_t hash_read_rate = 16U << 20;
};

struct PeerInfo {
    Bytes20 address;
    std::string host;
    std::uint16_t port = 0;
    bool outbound = false;
    bool fixed = false;  // static or of the committee
    bool has_bulk = false;
    std::uint32_t roles = 0;
    std::string agent;
    messages::Status status;
    std::uint64_t connected_ms = 0;
    std::uint64_t rtt_us = 0;
    std::uint64_t least_rtt_us = 0;
    std::uint64_t answers = 0;  // that it gave to questions, refusals not counted
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;
    std::uint64_t queued_bytes = 0;
    std::uint64_t messages_in = 0;
    int score = 0;
};

struct FetchProgress {
    std::size_t sources = 0;        // peers that say they have it
    std::uint64_t progress_ms = 0;  // when the last new bytes came, or it began; the network's monotonic clock
};

// What became of proposals as short ids so far.
struct ProposalCounts {
    std::uint64_t sent = 0;           // as short ids
    std::uint64_t rebuilt = 0;        // here, of others
    std::uint64_t asked = 0;          // for transactions that were missing
    std::uint64_t missing = 0;        // of all of them
    std::uint64_t asked_whole = 0;    // for want of room or of most transactions, or because something was wrong
    std::size_t assembled_bytes = 0;  // held now, until what is missing comes
};

struct NetworkStatus {
    Bytes20 address;
    std::uint16_t port = 0;
    bool listening = false;
    std::vector<PeerInfo> peers;
    std::size_t pending_handshakes = 0;
    std::uint64_t handshakes_done = 0;
    std::uint64_t handshakes_failed = 0;
    std::uint64_t sockets_refused = 0;  // at the limits below, before any work was done for them
    std::uint64_t cookies_sent = 0;
    std::size_t known_addresses = 0;
    std::uint64_t handshakes_refused = 0;  // at a host's or network's rate
    std::size_t answer_bytes = 0;          // answers that wait to be read
    std::size_t partial_bytes = 0;
    std::uint64_t partial_evictions = 0;      // connections left because others needed the room
    std::uint64_t bulk_rate = 0;              // bytes/s
    std::map<Hash32, FetchProgress> fetches;  // contents on their way
    std::size_t waiting_chunks = 0;           // of these, to be hashed and written
    ProposalCounts proposals;
};

// Limits of strangers, by name; more of them in handshake_limiter.h, peer_session.h and answer_account.h.
inline constexpr std::size_t kMaxPendingHandshakes = 256;  // the oldest goes when one more comes
inline constexpr std::size_t kMaxFetches = 32;
inline constexpr std::size_t kMaxShardSearches = 8;

// Answers one request of a peer, at most once; dropped unanswered it refuses with not_found. May outlive the network.
class Responder {
public:
    using Held = std::shared_ptr<const void>;
    using Send = std::function<void(messages::Type, Bytes, Held)>;
    explicit Responder(Send send) : send_(std::make_shared<State>(std::move(send))) {}
    void answer(const messages::BlockAnswer& value) { send_->once(messages::Type::block, encode(value)); }
    void answer(const messages::Range& value) { send_->once(messages::Type::range, encode(value)); }
    void answer(const messages::CertificateAnswer& value) { send_->once(messages::Type::certificate, encode(value)); }
    void answer(const messages::BlockTransactions& value) {
        send_->once(messages::Type::block_transactions, encode(value));
    }
    void answer_leaves(messages::Type type, const messages::Leaves& value) { send_->once(type, encode(value)); }
    void answer(const messages::Shards& value) { send_->once(messages::Type::shards, encode(value)); }
    // Lives until the network has taken the answer into its account of what waits to be read, or dropped it.
    void hold(Held held) { send_->held = std::move(held); }
    void refuse(messages::RefusalCode code, std::string detail = {}) {
        send_->once(messages::Type::refusal, encode(messages::Refusal{code, std::move(detail)}));
    }

private:
    struct State {
        explicit State(Send function) : send(std::move(function)) {}
        ~State();
        void once(messages::Type type, Bytes body);
        Send send;
        Held held;
    };
    std::shared_ptr<State> send_;
};

class NetworkHandler {
public:
    virtual ~NetworkHandler() = default;
    virtual void peer_connected(const PeerInfo& /*peer*/) {}
    virtual void peer_disconnected(const Bytes20& /*peer*/, const Error& /*reason*/) {}
    virtual void peer_status(const Bytes20& /*peer*/, const messages::Status& /*status*/) {}
    // An envelope of the consensus core, not verified.
    virtual void consensus(const Bytes20& from, Bytes envelope) = 0;
    // Whether a transaction is worth fetching: not in the pool, not in a recent block, not just refused.
    virtual bool wants_transaction(const messages::ShortId& id) = 0;
    // Fetched ones. When some enter the pool, call announce_transactions.
    virtual void transactions(const Bytes20& from, std::vector<Bytes> encoded) = 0;
    // From the pool, for peers and for compact blocks.
    virtual std::optional<Bytes> find_transaction(const messages::ShortId& id) = 0;
    // Whether it waits for a block here.
    virtual bool has_transaction(const messages::ShortId& id) { return find_transaction(id).has_value(); }
    // A block was announced; whether to put it together.
    virtual bool wants_block(const Hash32& hash, std::uint64_t number) = 0;
    // Whether a block put together from short ids has the body that its header names. Called on the disk thread.
    virtual bool body_matches(BytesView /*block*/) const { return true; }
    // A whole block, not verified; the certificate may be empty.
    virtual void block(const Bytes20& from, messages::BlockAnswer block) = 0;
    virtual void get_block(const Bytes20& from, const messages::GetBlock& request, Responder responder) = 0;
    virtual void get_block_transactions(const Bytes20& from, const messages::GetBlockTransactions& request,
                                        Responder responder) = 0;
    virtual void get_certificate(const Bytes20& from, const messages::GetCertificate& request, Responder responder) = 0;
    virtual void get_range(const Bytes20& from, const messages::GetRange& request, Responder responder) = 0;
};

// Errors of answers: network.timeout, network.disconnected, network.refused (detail: the peer's code and words; of the
// kind `busy` when that is what it says), network.not_connected, network.too_many_requests, network.stopped, and
// decoding errors.
template <class T>
using Answer = std::function<void(Expected<T>)>;

enum class NoAnswer : std::uint8_t {
    late,     // none in time, or the connection ended
    refused,  // it has not what was asked for, or sent something that is none
    busy,     // it says that it cannot now
};
// Why a request has no answer.
[[nodiscard]] NoAnswer why_no_answer(const Error& error);

class Network {
public:
    // Bound to its port and at rest: what it is told to do waits for run(). Errors: p2p.cannot_listen, p2p.bad_options.
    [[nodiscard]] static Expected<std::unique_ptr<Network>> make(const NetworkOptions& options,
                                                                 const crypto::PrivateKey& chain_key);
    // Once. `handler` outlives it, or stop().
    void run(NetworkHandler& handler);
    // Ends what goes on, whether it ran or not; from then on nothing that it is told happens. Not from the handler.
    void stop();
    // Both at once; errors as make.
    [[nodiscard]] static Expected<std::unique_ptr<Network>> start(const NetworkOptions& options,
                                                                  const crypto::PrivateKey& chain_key,
                                                                  NetworkHandler& handler);
    ~Network();
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    [[nodiscard]] std::uint16_t port() const;  // 0 when not listening
    [[nodiscard]] const Bytes20& address() const;
    [[nodiscard]] NetworkStatus status() const;
    [[nodiscard]] std::size_t peer_count() const;

    void add_static_peer(const StaticPeer& peer);
    // The present committee: dialled, never evicted, addressed by send_consensus.
    void set_committee(const std::set<Bytes20>& members);
    // What hello and status messages say.
    void set_status(const messages::Status& status);
    // The node judged something that this peer sent.
    void report(const Bytes20& peer, Offence offence);

    // To all members of the committee that are connected, or to all peers when no committee is set.
    void send_consensus(Bytes envelope);
    // The same for a proposal whose bytes [begin, end) are the RLP items of its block's transactions: members get short
    // ids of those where that saves much, and rebuild the envelope byte for byte.
    void send_proposal(Bytes envelope, std::size_t begin, std::size_t end);
    // `held` lives until it has left, or will not; to a stranger, until the account of its answers has it.
    void send_consensus_to(const Bytes20& peer, Bytes envelope, std::shared_ptr<const void> held = {});
    void announce_transaction(const Hash32& hash, Bytes encoded);
    // Many at the cost of one.
    struct Announcement {
        Hash32 hash;
        std::shared_ptr<const Bytes> encoded;
    };
    void announce_transactions(std::vector<Announcement> transactions);
    // Sends compact blocks to all peers but `except`; to those outside the committee only, when `outsiders_only`.
    void announce_block(std::shared_ptr<const chain::types::Block> block, Bytes certificate,
                        bool outsiders_only = false, const Bytes20& except = {});

    void request_block(const Bytes20& peer, const messages::GetBlock& request, std::uint64_t timeout_ms,
                       Answer<messages::BlockAnswer> answer);
    void request_certificate(const Bytes20& peer, const messages::GetCertificate& request, std::uint64_t timeout_ms,
                             Answer<messages::CertificateAnswer> answer);
    void request_range(const Bytes20& peer, const messages::GetRange& request, std::uint64_t timeout_ms,
                       Answer<messages::Range> answer);

    // Takes the list of a content's shards from a peer into the store. `done`: success (also when it is there already),
    // content.not_found when every peer has said so, network.too_many_fetches and network.shards_not_given (busy: some
    // peer did not answer, or no good list), network.no_store, network.stopped, content.* (no room for it, for
    // example).
    void fetch_shards(const Hash32& id, std::function<void(quern::Status)> done);
    // Fetches a content into the store. `done`: success (also when it is there already), network.too_many_fetches
    // (busy), network.no_store, network.fetch_stalled (busy: no new byte for 10 minutes), content.* (no room for it,
    // for instance). It goes on looking for sources until it is done or cancelled. What has come stays in the store,
    // also over a restart, and the next fetch goes on with it. None larger than `max_bytes` is taken, of what several
    // ask for at once the largest.
    void fetch_content(const Hash32& id, std::function<void(quern::Status)> done,
                       std::uint64_t max_bytes = messages::kMaxContentBytes);
    void cancel_fetch(const Hash32& id);  // done gets network.cancelled

private:
    struct Impl;
    explicit Network(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::p2p
