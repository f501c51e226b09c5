// The inside of Network, shared by network*.cpp: everything here belongs to the network thread unless it says
// otherwise.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <list>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "base/turns.h"
#include "p2p/answer_account.h"
#include "p2p/content_exchange/check_shares.h"
#include "p2p/content_exchange/fetch_plan.h"
#include "p2p/gossip/compact_block.h"
#include "p2p/gossip/compact_proposal.h"
#include "p2p/gossip/tx_relay.h"
#include "p2p/handshake_limiter.h"
#include "p2p/host_budget.h"
#include "p2p/network.h"
#include "p2p/peer_manager.h"
#include "p2p/peer_session.h"
#include "p2p/transport/connection.h"
#include "p2p/transport/cookie.h"
#include "p2p/transport/uplink.h"

namespace quern::p2p {

namespace asio = boost::asio;
using messages::Type;
using transport::Connection;
using transport::ConnectionKind;
using transport::tcp;
using ConnectionPtr = std::shared_ptr<Connection>;

inline constexpr log::Category kLog = log::Category::p2p;
inline constexpr std::string_view kRefused = "network.refused";
inline constexpr std::uint64_t kTickMs = 50;
inline constexpr std::size_t kMaxUntoldAnnouncements = 1024;  // then the relay is told before the next tick
inline constexpr std::uint64_t kDialLimitMs = 5'000;
inline constexpr std::uint64_t kBulkRedialMs = 1'000;
inline constexpr std::uint64_t kHelloLimitMs = 5'000;  // from the open connection to the peer's hello
inline constexpr std::uint64_t kPeerExchangeMs = 60'000;
inline constexpr std::uint64_t kFindContentMs = 2'000;
inline constexpr std::uint64_t kFetchStallMs = 10 * 60'000;  // without a new byte; then it is given up
inline constexpr std::size_t kContentThreads = 2;            // that hash and write what is fetched
inline constexpr std::size_t kFileThreads = 4;               // that wait for the disk to sync what was fetched
inline constexpr std::size_t kMaxKeptChecks = 4;             // of what an earlier run left
// Leaf hashes of all fetches; beyond, only the first that still needs some asks for more.
inline constexpr std::uint64_t kMaxHashBytes = std::uint64_t{512} << 20;
// This node asks a little less often than others allow, and half as much at once: lines bunch what they carry.
inline transport::TokenBucket asking_pace(Type type) {
    const messages::Rule& rule = messages::rule_of(type);
    return {rule.per_second - rule.per_second / 10, rule.burst / 2};
}
// What peers of one host cost with their questions about contents, beside the number of these. Small contents cost
// little of both, so that a peer may ask about many; what costs more is refused as busy until that is paid for. (The
// other budget is NetworkOptions::hash_read_rate.)
inline constexpr std::uint64_t kFoundBytesPerSecond = 640U << 10;  // of answers that say what is here
inline constexpr std::uint64_t kFoundBytesBurst = 2'560U << 10;
inline constexpr std::size_t kMaxPartBitmaps = 48U << 10;  // bytes of them in one answer
static_assert(kMaxPartBitmaps + messages::kMaxFindContent * 64 < messages::rule_of(Type::content_info).max_bytes);
static_assert(kMaxPartBitmaps * 8 >= messages::kMaxContentBytes / messages::kChunkBytes);
static_assert(content_exchange::kChunksAskedOfPeer * messages::kChunkBytes < kAnswerMemory.per_holder);
inline constexpr std::uint64_t kRequestMs = 10'000;
inline constexpr std::uint64_t kStatusMs = 250;    // at most so often: status messages, snapshots
inline constexpr std::size_t kMaxAssemblies = 16;  // compact blocks waiting for transactions
// Strangers' compact blocks that are put together: each costs a look at all recent transactions, some 2 ms.
inline constexpr std::uint64_t kAssembliesPerSecond = 20;
inline constexpr std::uint64_t kAssemblyBurst = 60;
// Blocks put together whose roots are not reckoned yet: of all peers, of strangers, of one peer.
inline constexpr std::size_t kMaxReckonings = 24;
inline constexpr std::size_t kMaxStrangersReckonings = 8;
inline constexpr std::size_t kMaxReckoningsPerPeer = 4;
// Proposals that wait for transactions: of one member, of all, and what they hold. Beyond, they are asked for whole.
inline constexpr std::size_t kMaxProposalsPerPeer = 2;
inline constexpr std::size_t kMaxProposals = 32;
inline constexpr std::size_t kMaxProposalBytes = 64U << 20;
// How long what is missing is waited for, beside two round trips and the time that its bytes take on a slow line; then
// the whole is asked for.
inline constexpr std::uint64_t kProposalAnswerMs = 300;
inline constexpr std::uint64_t kProposalTransactionsPerMs = 4;
// From a transaction's arrival here until members have it, beside what asking for it takes: a tick, and checking it.
inline constexpr std::uint64_t kSpreadMs = kTickMs + 20;
inline constexpr std::uint64_t kMaxSpreadMs = 500;
static_assert(kMaxProposalsPerPeer < kMaxProposals && kMaxProposalBytes >= 4 * messages::kMaxConsensusMessage);
// Inbound strangers that are asked for addresses when they come: reading an answer costs some 4 ms, and who wants to
// cost that comes again and again.
inline constexpr std::uint64_t kStrangersAskedPerSecond = 1;
inline constexpr std::uint64_t kStrangersAskedBurst = 16;

struct Peer {
    Bytes20 address;
    ConnectionPtr control;
    ConnectionPtr bulk;
    PeerSession session;
    std::shared_ptr<AnswerAccount> answers;
    messages::Hello hello;
    std::uint64_t since_ms = 0;
    std::uint64_t next_bulk_dial_ms = 0;
    bool dialing_bulk = false;
    std::optional<messages::Endpoint> dialled;  // where bulk goes too, when this node dialled
    std::uint64_t messages_in = 0;
    std::uint64_t rtt_samples = 0;
    std::size_t reckonings = 0;  // of its blocks
    std::set<Hash32> proposals;  // of it that wait for transactions
    // Contents: what it is to be asked to have, how often it is asked, chunks that it was asked for.
    std::set<Hash32> finds;
    transport::TokenBucket find_pace = asking_pace(Type::find_content);
    transport::TokenBucket list_pace = asking_pace(Type::get_leaf_hashes);
    transport::TokenBucket shards_pace = asking_pace(Type::get_shards);
    std::size_t chunks_asked = 0;
};

struct Fetch {
    Fetch(const Hash32& id, std::uint64_t serial, Rng& rng, std::uint64_t max_bytes)
        : plan(id, rng, max_bytes), number(serial) {}
    content_exchange::FetchPlan plan;
    const std::uint64_t number;  // tells it from an earlier one of the same content
    std::vector<std::function<void(quern::Status)>> done;
    std::uint64_t next_find_ms = 0;
    std::shared_ptr<content::Store::Part> part;  // once its leaf hashes are known, from an earlier run or from peers
    bool looked = false;                         // for what an earlier run left
    std::uint64_t next_look_ms = 0;
    bool busy = false;               // the part is being opened, or becomes a content
    bool held_back = false;          // it has more to ask for, of peers that were asked for enough
    std::deque<std::uint64_t> kept;  // chunks of an earlier run that have still to be checked
    std::size_t kept_checks = 0;     // and are being checked
    std::uint64_t progress_ms = 0;   // when the last new bytes came, or it began
};

// Peers are asked for a list of shards a few at a time, until one gives it.
struct ShardSearch {
    std::uint64_t number = 0;    // tells it from an earlier one of the same list
    std::vector<Bytes20> left;   // not asked yet
    std::size_t asked = 0;       // and have not answered
    bool unsure = false;         // somebody said neither yes nor no
    std::uint64_t until_us = 0;  // afterwards nobody else is asked
    std::vector<std::function<void(quern::Status)>> done;
};

struct Network::Impl final : transport::ConnectionHost {
    Impl(const NetworkOptions& settings, const crypto::PrivateKey& chain_key);
    ~Impl() override;

    // --- network.cpp: life, clockwork, the public functions' insides
    [[nodiscard]] quern::Status listen();
    void run();
    void stop();  // on the thread
    void end();   // from outside: stops the threads and waits for them
    void tick();
    void sign_identity();
    void refresh_snapshot();
    void update_uplink();
    void save_book();
    template <class Function>
    void post(Function function) {
        asio::post(io, std::move(function));
    }
    [[nodiscard]] std::uint64_t now_ms() const { return clock.monotonic_ms(); }
    [[nodiscard]] std::uint64_t now_us() const;
    // For what outlives a run: certificates, records, the address book.
    [[nodiscard]] std::uint64_t unix_seconds() const { return clock.now_ms() / 1000; }
    // The newest, as the relay and the fetches reckon with; a guess before the first.
    [[nodiscard]] static std::uint64_t round_trip_ms(const Peer& peer) {
        const std::uint64_t us = peer.control->rtt_us();
        return us == 0 ? content_exchange::kAssumedRoundTripMs : us / 1000 + 1;
    }

    // --- network_peers.cpp: sockets and peers
    void accept();
    void accepted(tcp::socket socket);
    void dial(const Bytes20& address, const messages::Endpoint& endpoint, ConnectionKind kind);
    void dial_bulk(Peer& peer);
    void dial_over(const Bytes20& address, ConnectionKind kind, const std::string& why);
    [[nodiscard]] Expected<transport::Admission> admit_message(Connection& connection, std::uint8_t type,
                                                               std::uint32_t stream) override;
    [[nodiscard]] Challenge challenge(const std::string& host, BytesView message) override;
    [[nodiscard]] bool cookie_fits(const std::string& host, BytesView message, BytesView cookie) override;
    [[nodiscard]] quern::Status opened(Connection& connection) override;
    [[nodiscard]] quern::Status opened_control(Connection& connection);
    void closed(Connection& connection, const Error& reason, transport::Blame blame) override;
    void drop_peer(const Bytes20& address, const Error& reason);
    void penalize(const Bytes20& address, Offence offence, const std::string& detail);
    // The hosts that fixed peers are at or are dialled at, for the limiter.
    void tell_known_hosts();
    // Tells a peer's connections whether it is fixed.
    void set_fixed(Peer& peer);
    [[nodiscard]] PeerInfo info_of(const Peer& peer) const;

    // --- network_messages.cpp: what peers say
    [[nodiscard]] Peer* peer_of(const Connection& connection);
    // Whether its words about consensus are a stranger's.
    [[nodiscard]] bool is_stranger(const Bytes20& address) const {
        return !committee.empty() && committee.count(address) == 0;
    }
    void message(Connection& connection, transport::WholeMessage message) override;
    void handle(Peer& peer, const messages::Rule& rule, transport::WholeMessage& message);
    void handle_hello(Peer& peer, BytesView body);
    void handle_answer(Peer& peer, Type type, std::uint32_t stream, Bytes body);
    void handle_announcement(Peer& peer, const messages::ShortIds& announced);
    void tell_relay();
    void handle_compact(Peer& peer, BytesView body);
    void put_together(Peer& peer, const Hash32& hash, messages::CompactBlock compact);
    void hand_over(const Bytes20& address, const Hash32& hash, Expected<messages::BlockAnswer> block);
    void serve_transactions(Peer& peer, std::uint32_t stream, const messages::ShortIds& asked);
    void serve_peers(Peer& peer, std::uint32_t stream, std::uint64_t limit);
    [[nodiscard]] Responder responder(Peer& peer, Type request, std::uint32_t stream);
    void answer(const Bytes20& address, std::uint32_t stream, Type type, Bytes body);
    void refuse(const Bytes20& address, std::uint32_t stream, messages::RefusalCode code) {
        answer(address, stream, Type::refusal, encode(messages::Refusal{code, {}}));
    }
    quern::Status send(Peer& peer, Type type, std::uint32_t stream, std::shared_ptr<const Bytes> body);
    quern::Status send(Peer& peer, Type type, Bytes body) {
        return send(peer, type, peer.session.next_stream(), std::make_shared<Bytes>(std::move(body)));
    }
    void request(const Bytes20& address, Type type, Bytes body, std::uint64_t timeout_ms,
                 std::function<void(Expected<Bytes>)> done);
    void ask_transactions(const Bytes20& address, std::vector<messages::ShortId> ids);
    void ask_block(const Bytes20& address, const Hash32& hash);
    void not_delivered(const Bytes20& address, const Error& error);
    void ask_peers(const Bytes20& address);
    void expire_requests();
    void send_consensus(const std::shared_ptr<const Bytes>& envelope);
    // To one, mostly because it asked: what a stranger does not read counts among its answers, and `held` is let go of.
    void send_consensus_to(const Bytes20& address, Bytes envelope, Responder::Held held);

    // --- network_proposals.cpp: proposals as short ids
    void send_proposal(const std::shared_ptr<const Bytes>& envelope, std::size_t begin, std::size_t end);
    void handle_proposal(Peer& peer, BytesView body);
    void ask_proposal_transactions(Peer& peer, const std::shared_ptr<gossip::ProposalAssembly>& assembly,
                                   std::vector<std::uint64_t> missing);
    void filled(const Bytes20& address, gossip::ProposalAssembly& assembly, const Expected<Bytes>& answer);
    void hand_over(const Bytes20& address, const gossip::ProposalAssembly& assembly);
    void ask_proposal(const Bytes20& address, const Hash32& digest);
    void serve_proposal_transactions(Peer& peer, std::uint32_t stream, const messages::GetProposalTransactions& asked);
    void serve_proposal(Peer& peer, const Hash32& digest);

    // --- network_content.cpp: contents
    void tick_fetches();
    void go_on(const Hash32& id);
    // Those that were held back, in turns, until one is again.
    void go_on_with_held_back();
    [[nodiscard]] std::vector<content_exchange::FetchPlan::Ask> next_asks(const Hash32& id, Fetch& fetch);
    // On a content thread, fetches taking turns; what `work` returns is told to `then`, on the network thread, if the
    // fetch goes on.
    template <class Work, class Then>
    void on_content_thread(const Hash32& id, const Fetch& fetch, Work work, Then then);
    void work_next();
    // The same on a thread that waits for the disk; each fetch has one such work at most.
    template <class Work, class Then>
    void on_file_thread(const Hash32& id, Fetch& fetch, Work work, Then then);
    [[nodiscard]] std::shared_ptr<content::Store::Part> closed_elsewhere(std::unique_ptr<content::Store::Part> part);
    void look_for_part(const Hash32& id, Fetch& fetch);
    void begin_part(const Hash32& id, Fetch& fetch);
    void check_kept(const Hash32& id, Fetch& fetch);
    void find_sources(const Hash32& id, Fetch& fetch);
    void ask_for_content(const Hash32& id, const Bytes20& address);
    void ask_for_contents();
    void ask_for_contents(Peer& peer);
    void take_holdings(const Bytes20& address, const std::vector<Hash32>& asked, BytesView body);
    void ask_leaves(const Hash32& id, const Fetch& fetch, const content_exchange::FetchPlan::Ask& ask);
    void take_answer(const Hash32& id, Fetch& fetch, const content_exchange::FetchPlan::Ask& ask,
                     const Expected<Bytes>& body);
    void take_hashes(const Hash32& id, Fetch& fetch, const Bytes20& from, const messages::Leaves& hashes);
    void take_chunk(const Hash32& id, Fetch& fetch, const content_exchange::FetchPlan::Ask& ask,
                    messages::Leaves leaves);
    void store_content(const Hash32& id, Fetch& fetch);
    void end_fetch(const Hash32& id, quern::Status status);
    void serve_find(Peer& peer, std::uint32_t stream, const messages::FindContent& asked);
    void serve_leaves(Peer& peer, Type type, std::uint32_t stream, const messages::GetLeaves& asked);
    // Who takes turns in having contents read from the disk.
    void read_next();
    void read_leaves(const messages::GetLeaves& asked, Type type, const std::shared_ptr<content::Store::Part>& part,
                     Responder& reply);
    // Whose costs a peer's questions are: its host's; those that this node chose are each their own.
    [[nodiscard]] std::string payer(const Peer& peer) const;

    // --- network_shards.cpp: lists of shards
    void search_shards(const Hash32& id);
    void take_shards(const Hash32& id, std::uint64_t number, const Bytes20& from, const Expected<Bytes>& answer);
    void end_search(const Hash32& id, const quern::Status& status);
    void serve_shards(Peer& peer, std::uint32_t stream, const messages::GetShards& asked);

    NetworkOptions options;
    NetworkHandler* handler = nullptr;  // set before the thread starts
    crypto::PrivateKey key;
    SystemClock clock;
    OsRng rng;
    transport::Identity identity;
    std::uint64_t certificate_expiry = 0;  // seconds
    Bytes own_record;
    transport::NetCertCache certificates;
    transport::MemoryLedger unfinished;  // outlives the connections, as the next
    transport::MemoryLedger answers{kAnswerMemory};
    transport::UplinkRate uplink;
    transport::TokenBucket bulk_pace;
    std::uint64_t bulk_sent = 0;
    std::uint64_t bulk_sent_seen = 0;
    transport::CookieJar cookies;
    HandshakeLimiter limiter;

    asio::io_context io{1};
    tcp::acceptor acceptor{io};
    asio::steady_timer accept_pause{io};
    asio::steady_timer ticker{io};
    asio::steady_timer stop_timer{io};
    asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
    tcp::resolver resolver{io};
    transport::ConnectionShared shared;

    AddressBook book;
    PeerManager manager;
    gossip::TxRelay relay;
    // For the relay, which is told of them before it is asked anything: peers hear of them at ticks, so that nobody is
    // woken for one.
    Mutex announced_mutex;
    std::deque<Announcement> announced QUERN_GUARDED_BY(announced_mutex);
    std::map<Bytes20, Peer> peers;
    std::set<Bytes20> committee;
    messages::Status own_status;
    bool status_changed = false;
    std::set<ConnectionPtr> connections;  // all that live
    std::list<ConnectionPtr> pending;     // accepted, in handshake; oldest first
    std::size_t assemblies = 0;
    gossip::SentProposals sent_proposals;
    // As much as receivers take.
    transport::TokenBucket proposal_rate{messages::rule_of(Type::proposal).per_second,
                                         messages::rule_of(Type::proposal).burst};
    std::size_t proposals_waiting = 0;
    ProposalCounts proposals;
    // Blocks whose roots the disk thread has still to reckon; strangers' alone.
    std::size_t reckonings = 0;
    std::size_t strangers_reckonings = 0;
    transport::TokenBucket assembly_rate{kAssembliesPerSecond, kAssemblyBurst};
    transport::TokenBucket strangers_asked{kStrangersAskedPerSecond, kStrangersAskedBurst};
    bool stopping = false;
    std::uint64_t next_exchange_ms = 0;
    std::uint64_t next_known_ms = 0;
    std::uint64_t next_save_ms = 0;
    std::uint64_t next_snapshot_ms = 0;
    std::uint64_t next_status_ms = 0;

    std::map<Hash32, Fetch> fetches;
    std::map<Hash32, ShardSearch> shard_searches;
    std::deque<Hash32> held_back;  // of them
    bool finds_wait = false;       // to be sent when what is at hand is done
    HostBudget found_budget{kFoundBytesPerSecond, kFoundBytesBurst};
    HostBudget list_budget{options.hash_read_rate, 4 * options.hash_read_rate};
    std::uint64_t fetches_begun = 0;
    // Chunks that the content threads have before them.
    content_exchange::CheckShares checks{options.check_memory / messages::kChunkBytes};
    Turns<std::function<void()>> works;  // for the content threads, by fetch
    std::size_t working = 0;             // of them, given to these threads
    Turns<std::function<void()>> reads;  // for peers; what this node needs itself goes straight to the disk thread
    std::size_t reading = 0;             // of them, given to the disk thread

    std::uint64_t handshakes_done = 0;
    std::uint64_t handshakes_failed = 0;
    std::uint64_t sockets_refused = 0;
    std::uint64_t cookies_sent = 0;
    std::uint64_t handshakes_refused = 0;
    std::uint16_t bound_port = 0;
    std::atomic<std::size_t> live_peers{0};
    // The way in for answers, which may outlive the network: closed when it ends.
    struct Door {
        explicit Door(Impl& network) : impl(&network) {}
        Mutex mutex;
        Impl* impl QUERN_GUARDED_BY(mutex);
    };
    const std::shared_ptr<Door> door = std::make_shared<Door>(*this);

    mutable Mutex snapshot_mutex;
    NetworkStatus snapshot QUERN_GUARDED_BY(snapshot_mutex);

    // Their tasks touch files only, and post what follows.
    asio::thread_pool disk{1};  // what peers ask for, and the roots of their blocks
    // What is fetched. Shared with the parts, which are closed there.
    std::shared_ptr<asio::thread_pool> content_threads = std::make_shared<asio::thread_pool>(kContentThreads);
    asio::thread_pool file_threads{kFileThreads};
    std::thread thread;
};

}  // namespace quern::p2p
