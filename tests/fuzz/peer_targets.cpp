// What peers can do to the state that a node keeps about them: the session, the relay of transactions, a fetch, the
// address book with the peer manager, the send queue. Each target reads operations and checks after each that limits
// hold and nothing leaks.
#include <algorithm>

#include "fuzz/samples.h"
#include "fuzz/target.h"
#include "p2p/answer_account.h"
#include "p2p/content_exchange/fetch_plan.h"
#include "p2p/gossip/tx_relay.h"
#include "p2p/handshake_limiter.h"
#include "p2p/peer_manager.h"
#include "p2p/peer_session.h"

namespace quern::fuzz {
namespace {

namespace transport = p2p::transport;
namespace messages = p2p::messages;

class Script {
public:
    explicit Script(BytesView bytes) : bytes_(bytes) {}
    [[nodiscard]] bool ended() const { return at_ >= bytes_.size(); }
    std::uint8_t u8() { return ended() ? std::uint8_t{0} : bytes_[at_++]; }

private:
    BytesView bytes_;
    std::size_t at_ = 0;
};

Bytes20 peer_of(std::uint8_t number) {
    Bytes20 address;
    address.data[19] = number;
    return address;
}

// --- The session -----------------------------------------------------------------------------------------------------
// Input: operations. 0 a record of type index, stream, length, more; 1 this node asks; 2 time passes; 3 the committee
// changes; 4 an answer is queued and kept, or let go. Taken: an answer to a request came whole.
bool run_peer_session(BytesView input) {
    constexpr std::size_t kTotal = 64U << 10;
    transport::MemoryLedger unfinished({kTotal, kTotal / 2, kTotal / 4, kTotal});
    constexpr std::size_t kFixedShare = 1'500;
    transport::MemoryLedger answers({2'000, 1'000, 600, kFixedShare});
    std::size_t answered = 0;
    std::size_t over = 0;
    std::size_t asked = 0;
    {
        p2p::PeerSession session;
        transport::MessageAssembler assembler(unfinished, 5'000);
        const auto account = std::make_shared<p2p::AnswerAccount>(answers, [] {});
        std::vector<std::shared_ptr<const Bytes>> queued;
        std::uint64_t now_ms = 1'000;
        Script script(input);
        bool ended = false;
        while (!script.ended() && !ended) {
            const std::uint8_t op = script.u8() % 5;
            if (op == 0) {
                const auto& rule = messages::kRules[script.u8() % messages::kRules.size()];
                const std::uint32_t stream = script.u8() % 16;
                const Bytes payload(std::size_t{script.u8()} * 16, 1);
                const bool more = script.u8() % 2 == 1;
                const auto kind =
                    script.u8() % 4 == 0 ? transport::ConnectionKind::bulk : transport::ConnectionKind::control;
                const bool had_hello = session.has_hello();
                const std::size_t open = session.open_requests();
                const auto admit = [&](std::uint8_t, std::uint32_t number) -> Expected<transport::Admission> {
                    const auto judged = session.judge(rule, number, kind, now_ms * 1'000);
                    QUERN_PROPERTY(had_hello || rule.type == messages::Type::hello || judged.admission.skip);
                    QUERN_PROPERTY(!messages::is_answer(rule) || judged.admission.skip || open != 0);
                    QUERN_PROPERTY(!judged.offence || judged.admission.skip);
                    return judged.admission;
                };
                const auto whole =
                    assembler.add({static_cast<std::uint8_t>(rule.type), more, stream, payload}, admit, now_ms);
                if (!whole) {
                    ended = true;
                } else if (*whole) {
                    QUERN_PROPERTY((*whole)->body.size() <= rule.max_bytes);
                    if (rule.type == messages::Type::hello) session.said_hello();
                    if (messages::is_answer(rule))
                        if (const auto done = session.take((*whole)->stream)) done(std::move((*whole)->body));
                }
            } else if (op == 1) {
                if (const auto stream = session.begin_request()) {
                    const auto& rule = messages::kRules[script.u8() % messages::kRules.size()];
                    if (!messages::is_request(rule)) continue;
                    ++asked;
                    session.asked(*stream, rule.type, now_ms + 1'000,
                                  [&](const Expected<Bytes>& body) { body ? ++answered : ++over; });
                }
            } else if (op == 2) {
                now_ms += std::uint64_t{script.u8()} * 10;
                for (const auto& done : session.expire(now_ms)) done(busy("network.timeout"));
                ended = !assembler.check_time(now_ms);
            } else if (op == 3) {
                const bool flag = script.u8() % 2 == 1;
                session.set_stranger(flag);
                session.set_member(!flag);
                assembler.set_fixed(!flag);
                account->set_fixed(!flag);
            } else if (queued.size() < 8 && script.u8() % 2 == 0) {
                auto charged = account->charge(Bytes(script.u8()), now_ms);
                if (charged) queued.push_back(std::move(*charged));
            } else if (!queued.empty()) {
                queued.erase(queued.begin());
            }
            QUERN_PROPERTY(unfinished.used() == assembler.held_bytes() && unfinished.used() <= kTotal);
            // Who has left the committee keeps what it was given as a member, and gets no more beside it.
            QUERN_PROPERTY(answers.used() <= 2'000 && answers.used_by_strangers() <= kFixedShare);
            QUERN_PROPERTY(session.open_requests() <= p2p::kMaxRequestsPerPeer);
        }
        for (const auto& done : session.take_all()) done(fail("network.disconnected"));
    }
    // Each request has heard of its end exactly once, and nothing is held for a peer that is gone.
    QUERN_PROPERTY(answered + over == asked);
    QUERN_PROPERTY(unfinished.used() == 0 && answers.used() == 0);
    return answered != 0;
}
std::vector<Seed> seeds_peer_session() {
    std::uint8_t hello = 0;
    std::uint8_t get_block = 0;
    std::uint8_t block = 0;
    std::uint8_t consensus = 0;
    for (std::uint8_t i = 0; i < messages::kRules.size(); ++i) {
        if (messages::kRules[i].type == messages::Type::hello) hello = i;
        if (messages::kRules[i].type == messages::Type::get_block) get_block = i;
        if (messages::kRules[i].type == messages::Type::block) block = i;
        if (messages::kRules[i].type == messages::Type::consensus) consensus = i;
    }
    const Bytes greeting{0, hello, 0, 4, 0, 1};
    const auto after_hello = [&](std::initializer_list<std::uint8_t> rest) {
        Bytes all = greeting;
        all.insert(all.end(), rest.begin(), rest.end());
        return all;
    };
    return {
        {"answer", after_hello({1, get_block, 0, block, 1, 9, 0, 1})},
        {"answer_in_parts", after_hello({1, get_block, 0, block, 1, 200, 1, 1, 0, block, 1, 200, 0, 1})},
        {"too_late", after_hello({1, get_block, 2, 200, 0, block, 1, 9, 0, 1})},
        {"no_hello", Bytes{0, consensus, 1, 200, 1, 1}},
        {"strangers_votes", after_hello({3, 1, 0, consensus, 1, 5, 0, 1, 0, consensus, 2, 200, 1, 1, 2, 255, 2, 255})},
        {"slow_reader", after_hello({1, get_block, 0, block, 1, 9, 0, 1, 4, 0, 255, 4, 0, 255, 4, 0, 255, 4, 1})}};
}

// --- The relay of transactions ---------------------------------------------------------------------------------------
Bytes sample_transaction(std::uint8_t number) { return Bytes{7, number}; }
messages::ShortId sample_id(std::uint8_t number) {
    return messages::short_id(chain::types::transaction_hash(sample_transaction(number)));
}

// Input: operations on up to 16 peers and 256 transactions. Taken: something asked was delivered.
bool run_tx_relay(BytesView input) {
    SeededRng rng(1);
    p2p::gossip::TxRelay relay(rng);
    std::set<Bytes20> peers;
    std::map<Bytes20, std::set<messages::ShortId>> asked;
    std::uint64_t now = 0;
    std::size_t delivered = 0;
    const auto note = [&](const std::vector<p2p::gossip::TxRelay::Ask>& asks) {
        for (const auto& ask : asks) {
            QUERN_PROPERTY(peers.contains(ask.peer) && ask.ids.size() <= messages::kMaxShortIds);
            asked[ask.peer].insert(ask.ids.begin(), ask.ids.end());
        }
    };
    Script script(input);
    while (!script.ended()) {
        const std::uint8_t op = script.u8() % 7;
        const Bytes20 peer = peer_of(script.u8() % 16);
        const std::uint8_t number = script.u8();
        switch (op) {
            case 0:
                if (!peers.insert(peer).second) break;
                relay.add_peer(peer, number % 2 == 1);
                relay.set_member(peer, number % 4 >= 2);
                relay.set_round_trip(peer, number);
                break;
            case 1:
                relay.remove_peer(peer);
                peers.erase(peer);
                asked.erase(peer);
                break;
            case 2: {
                const auto ids = relay.announced(
                    peer, {sample_id(number), sample_id(number ^ 1)},
                    [](const messages::ShortId& id) { return id.data[0] % 8 != 0; }, now);
                if (!ids.empty()) note({{peer, ids}});
                break;
            }
            case 3: {
                const bool was_asked = asked[peer].contains(sample_id(number));
                const std::vector<messages::ShortId> ids(asked[peer].begin(), asked[peer].end());
                QUERN_PROPERTY(relay.received(peer, ids, {sample_transaction(number)}).has_value() == was_asked);
                if (was_asked) {
                    ++delivered;
                    relay.have(chain::types::transaction_hash(sample_transaction(number)),
                               std::make_shared<const Bytes>(sample_transaction(number)), now);
                }
                note(relay.not_delivered(peer, ids, now));
                asked.erase(peer);
                break;
            }
            case 4:
                now += std::uint64_t{number} * 16;
                note(relay.expired(now));
                relay.tell_members([](const messages::ShortId& id) { return id.data[1] % 8 != 0; }, now);
                break;
            case 5:
                for (const auto& id : relay.take_announcements(peer)) QUERN_PROPERTY(relay.find(id) != nullptr);
                break;
            default:
                relay.have(chain::types::transaction_hash(sample_transaction(number)),
                           std::make_shared<const Bytes>(sample_transaction(number)), now);
                break;
        }
        for (const auto& each : peers) {
            QUERN_PROPERTY(relay.in_flight(each) <= relay.announced_by(each));
            QUERN_PROPERTY(relay.announced_by(each) <= p2p::gossip::kMaxAnnouncedTrusted);
        }
    }
    // In the end everything that nobody delivers is forgotten.
    for (int i = 0; i < 200 && relay.wanted() != 0; ++i) note(relay.expired(now += p2p::gossip::kTxRequestMs));
    QUERN_PROPERTY(relay.wanted() == 0);
    for (const auto& each : peers) QUERN_PROPERTY(relay.in_flight(each) == 0 && relay.announced_by(each) == 0);
    return delivered != 0;
}
std::vector<Seed> seeds_tx_relay() {
    return {{"delivered", Bytes{0, 1, 2, 2, 1, 9, 3, 1, 9, 5, 1, 0}},
            {"late_and_another", Bytes{0, 1, 2, 0, 2, 3, 2, 1, 9, 2, 2, 9, 4, 0, 200, 3, 2, 9}},
            {"leaves", Bytes{0, 1, 2, 0, 2, 2, 2, 1, 9, 2, 2, 9, 1, 1, 0, 4, 0, 1, 3, 2, 9}},
            {"members", Bytes{0, 1, 2, 0, 2, 2, 2, 1, 9, 3, 1, 9, 5, 2, 0, 4, 0, 200, 5, 2, 0}},
            {"told", Bytes{6, 0, 5, 0, 3, 1, 5, 3, 0, 2, 3, 40, 3, 3, 40}}};
}

// --- A fetch ---------------------------------------------------------------------------------------------------------
struct SmallContent {
    Bytes bytes = Bytes((1U << 20) + 77, 5);
    content::Manifest manifest;
    Hash32 id;
    SmallContent() {
        for (std::size_t i = 0; i < bytes.size(); i += 4'096) bytes[i] = static_cast<std::uint8_t>(i >> 12);
        crypto::ContentHasher hasher;
        hasher.update(bytes);
        id = hasher.finish();
        manifest = {bytes.size(), hasher.leaves()};
    }
    [[nodiscard]] messages::Leaves answer(const p2p::content_exchange::FetchPlan::Ask& ask) const {
        messages::Leaves out{id, ask.request.first, {}};
        if (ask.hashes) {
            for (std::uint64_t i = 0; i < ask.request.count && ask.request.first + i < manifest.leaves.size(); ++i)
                append(out.bytes, manifest.leaves[ask.request.first + i]);
            return out;
        }
        const std::size_t from = ask.request.first * crypto::kContentLeafBytes;
        if (from >= bytes.size()) return out;
        out.bytes = to_bytes(BytesView(bytes).subspan(
            from, std::min<std::size_t>(ask.request.count * crypto::kContentLeafBytes, bytes.size() - from)));
        return out;
    }
};

// Input: operations of up to 8 sources: tell a holding, answer well or badly, refuse, leave; time passes, a chunk is
// checked. At the end
// one honest source comes. Taken: it was enough.
bool run_fetch_plan(BytesView input) {
    static const SmallContent content;
    SeededRng rng(2);
    p2p::content_exchange::FetchPlan plan(content.id, rng);
    std::vector<p2p::content_exchange::FetchPlan::Ask> open;
    struct Check {
        std::uint64_t number;
        Bytes20 from;
        bool good;
    };
    std::vector<Check> checks;  // under way on other threads
    std::uint64_t now = 1;
    const auto ask = [&] {
        for (auto& each : plan.next_asks(now)) open.push_back(std::move(each));
    };
    const auto take = [&](const p2p::content_exchange::FetchPlan::Ask& what, std::uint8_t lie) {
        auto answer = content.answer(what);
        if (lie == 1 && !answer.bytes.empty()) answer.bytes[answer.bytes.size() / 2] ^= 1;
        if (lie == 2) answer.bytes.push_back(0);
        if (lie == 3) answer.first += 64;
        if (what.hashes) {
            const auto manifest = plan.received_hashes(what.peer, answer);
            if (manifest && *manifest)
                plan.hashes_checked(what.peer, *manifest, content::is_manifest_of(**manifest, content.id));
        } else {
            const auto chunk = plan.received_leaves(what.peer, answer, now);
            QUERN_PROPERTY(!chunk || lie <= 1);  // a wrong length shows at once
            if (!chunk || !chunk->is_new) return;
            QUERN_PROPERTY(chunk->number == what.request.first / messages::kLeavesPerChunk);
            for (const auto& each : checks) QUERN_PROPERTY(each.number != chunk->number);
            checks.push_back(
                {chunk->number, what.peer, content::leaves_match(content.manifest, answer.first, answer.bytes)});
        }
    };
    const auto check = [&](std::size_t which) {
        const Check done = checks[which];
        checks.erase(checks.begin() + static_cast<std::ptrdiff_t>(which));
        plan.checked(done.number, done.from, done.good);
    };
    Script script(input);
    while (!script.ended() && !plan.is_done()) {
        const std::uint8_t op = script.u8() % 7;
        const std::uint8_t value = script.u8();
        const Bytes20 peer = peer_of(value % 8);
        if (op == 6) {
            if (!checks.empty()) check(value % checks.size());
        } else if (op == 0) {
            const std::uint64_t size = value >= 192 ? std::uint64_t{script.u8()} * 70'000 : content.bytes.size();
            (void)plan.add_source(peer, {content.id, size, value % 3 == 0 ? Bytes{script.u8()} : Bytes{}}, now);
            plan.set_round_trip(peer, value);
        } else if (op == 1) {
            plan.remove_source(peer);
        } else if (op == 2) {
            now += std::uint64_t{value} * 100;
            (void)plan.expired(now);
        } else if (open.empty()) {
            continue;
        } else {
            const auto what = open[value % open.size()];
            open.erase(open.begin() + value % static_cast<std::ptrdiff_t>(open.size()));
            if (op == 3) take(what, script.u8() % 4);
            if (op == 4) plan.failed(what, now);
            if (op == 5) plan.refused_for_now(what, now);
        }
        ask();
        QUERN_PROPERTY(plan.sources() <= 8 && plan.chunks_present() <= plan.chunks());
        if (plan.manifest()) QUERN_PROPERTY(plan.manifest()->leaves == content.manifest.leaves);
        if (open.size() > 512) open.erase(open.begin(), open.begin() + 256);
    }
    // Whatever the others did: one honest source is enough, within minutes.
    const Bytes20 honest = peer_of(200);
    while (!checks.empty()) check(0);
    for (int i = 0; i < 2'000 && !plan.is_done(); ++i) {
        now += 200;
        (void)plan.add_source(honest, {content.id, content.bytes.size(), {}}, now);
        (void)plan.expired(now);
        for (const auto& each : plan.next_asks(now))
            if (each.peer == honest) take(each, 0);
        while (!checks.empty()) check(0);
    }
    QUERN_PROPERTY(plan.is_done());
    QUERN_PROPERTY(plan.present() == Bytes{3});
    return true;
}
std::vector<Seed> seeds_fetch_plan() {
    return {{"honest", Bytes{0, 1, 3, 0, 0, 3, 0, 0, 3, 0, 0, 3, 0, 0, 3, 0, 0}},
            {"liars", Bytes{0, 1, 0, 2, 3, 0, 1, 3, 0, 2, 0, 4, 3, 0, 0, 3, 0, 1}},
            {"silent", Bytes{0, 1, 0, 2, 2, 200, 2, 200, 0, 4, 2, 50, 3, 0, 0}},
            {"wrong_size", Bytes{0, 193, 9, 0, 194, 0, 3, 0, 0, 4, 0, 5, 0}},
            {"parts", Bytes{0, 3, 5, 0, 6, 2, 3, 0, 0, 3, 0, 0, 3, 0, 0, 1, 3, 3, 0, 0}},
            {"checked_late", Bytes{0, 1, 0, 2, 3, 0, 0, 3, 0, 0, 3, 0, 0, 3, 0, 1, 2, 1, 6, 1, 3, 0, 0, 6, 0, 6, 0}}};
}

// --- The address book and the peer manager ---------------------------------------------------------------------------
// Input: operations: a record comes, dials are due, one succeeds or fails, a peer comes in or leaves, an offence, a
// restart. Taken: somebody was dialled and connected.
bool run_peer_manager(BytesView input) {
    SeededRng rng(3);
    p2p::AddressBook book(7878, rng);
    p2p::PeerManager manager(peer_of(255), {4, 3}, book, rng);
    manager.add_static(peer_of(1), {"1.1.1.1", 1});
    manager.add_seed(peer_of(2), {"seed.example", 2});
    std::vector<p2p::DialTarget> dialled;
    std::uint64_t now_ms = 1;
    std::uint64_t seconds = 1'000;
    std::size_t connected = 0;
    Script script(input);
    while (!script.ended()) {
        const std::uint8_t op = script.u8() % 8;
        const std::uint8_t a = script.u8();
        const std::uint8_t b = script.u8();
        const std::string host = std::to_string(a) + "." + std::to_string(b % 4) + ".1.1";
        if (op == 0) {
            messages::PeerRecord record;
            record.chain_id = b == 99 ? 1 : 7878;
            record.address = peer_of(static_cast<std::uint8_t>(a % 64 + 3));
            record.sequence = b;
            record.expiry = seconds + b * 100U;
            record.endpoints = {{host, 7}};
            if (b % 8 == 0) record.endpoints.push_back({"127.0.0.1", 8});
            book.add(record, std::to_string(b) + ".9.9.9", seconds);
        } else if (op == 1) {
            now_ms += a * 200U;
            seconds += b * 60U;
            for (auto& target : manager.due_dials(now_ms, seconds)) {
                const bool chosen = target.address == peer_of(1) || target.address == peer_of(2);
                QUERN_PROPERTY(chosen || transport::is_routable(target.endpoint.host));
                dialled.push_back(std::move(target));
            }
            QUERN_PROPERTY(dialled.size() <= p2p::kMaxDialing);
        } else if (op == 2 || op == 3) {
            if (dialled.empty()) continue;
            const auto target = dialled[a % dialled.size()];
            dialled.erase(dialled.begin() + a % static_cast<std::ptrdiff_t>(dialled.size()));
            if (op == 3) {
                manager.dial_failed(target.address, now_ms, seconds);
            } else if (!manager.feeler_arrived(target.address, seconds)) {
                if (manager.admit(target.address, target.endpoint.host, true, now_ms)) {
                    manager.connected(target.address, target.endpoint.host, true, now_ms, seconds, target.endpoint);
                    ++connected;
                } else {
                    manager.dial_failed(target.address, now_ms, seconds);
                }
            }
        } else if (op == 4) {
            const Bytes20 address = peer_of(a);
            if (manager.peers().contains(address) || address == peer_of(255)) continue;
            auto admitted = manager.admit(address, host, false, now_ms);
            if (!admitted && admitted.error().name == std::string_view("peer.slots_full"))
                if (const auto victim = manager.evict()) {
                    QUERN_PROPERTY(!manager.is_fixed(*victim) && !manager.peers().at(*victim).outbound);
                    manager.disconnected(*victim, now_ms);
                    admitted = {};
                }
            if (admitted) {
                manager.connected(address, host, false, now_ms, seconds);
                std::erase_if(dialled, [&](const auto& each) { return each.address == address; });
            }
        } else if (op == 5) {
            manager.disconnected(peer_of(a), now_ms);
            std::erase_if(dialled, [&](const auto& each) { return each.address == peer_of(a); });
        } else if (op == 6) {
            if (manager.penalize(peer_of(a), static_cast<p2p::Offence>(b % p2p::kOffences.size()), now_ms)) {
                QUERN_PROPERTY(manager.is_banned(peer_of(a), now_ms));
                manager.disconnected(peer_of(a), now_ms);
                std::erase_if(dialled, [&](const auto& each) { return each.address == peer_of(a); });
            }
        } else {
            (void)manager.anchors();
            SeededRng other(4);
            p2p::AddressBook again(7878, other);
            (void)again.load(book.save(manager.anchors()), seconds);
            QUERN_PROPERTY(again.size() <= book.size());
        }
        std::size_t inbound = 0;
        for (const auto& [address, peer] : manager.peers()) inbound += !peer.outbound && !peer.fixed;
        QUERN_PROPERTY(inbound <= 4);
        QUERN_PROPERTY(book.collisions() <= p2p::kMaxCollisions && book.tried() <= book.size());
    }
    return connected != 0;
}
std::vector<Seed> seeds_peer_manager() {
    return {{"static", Bytes{1, 1, 1, 2, 0, 0}},
            {"from_the_book", Bytes{0, 50, 200, 0, 60, 201, 1, 1, 1, 2, 0, 0, 2, 0, 0, 1, 255, 9, 5, 53, 0, 7, 0, 0}},
            {"fails", Bytes{0, 50, 200, 1, 1, 1, 3, 0, 0, 3, 0, 0, 1, 200, 1, 2, 0, 0}},
            {"inbound", Bytes{4, 9, 1, 4, 10, 1, 4, 11, 1, 4, 12, 1, 4, 13, 1, 6, 9, 1, 1, 1, 1, 2, 0, 0}},
            {"moves", Bytes{0, 50, 20, 1, 1, 1, 2, 1, 0, 2, 0, 0, 0, 50, 21, 0, 50, 200, 1, 255, 1, 2, 0, 0}}};
}

// --- The send queue --------------------------------------------------------------------------------------------------
// Input: operations: push a message of a class and size, take a record, time passes. Taken: a message went out whole.
bool run_send_queue(BytesView input) {
    transport::SendQueue queue;
    std::map<std::uint32_t, std::size_t> begun;  // stream -> bytes that went out
    std::map<std::uint32_t, std::size_t> sizes;
    std::uint64_t now = 0;
    std::uint32_t stream = 0;
    std::size_t whole = 0;
    Script script(input);
    while (!script.ended()) {
        const std::uint8_t op = script.u8() % 4;
        const std::uint8_t a = script.u8();
        if (op == 0) {
            const auto traffic = static_cast<transport::TrafficClass>(a % transport::kTrafficClasses);
            const std::size_t size = std::size_t{script.u8()} << (a % 3 * 6);
            const auto pushed = queue.push({traffic, 9, ++stream, std::make_shared<Bytes>(size)}, now);
            if (pushed) sizes[stream] = size;
            QUERN_PROPERTY(pushed || pushed.error().is_busy());
        } else if (op == 3) {
            now += std::uint64_t{a} * 500;
            const auto status = queue.expire(now);
            QUERN_PROPERTY(status || status.error().is_busy());
            if (!status) return whole != 0;
        } else {
            const auto record = queue.next(a == 0 ? 1 : std::size_t{a} * 16, op == 1);
            if (!record) continue;
            QUERN_PROPERTY(record->traffic != transport::TrafficClass::bulk || op == 1);
            QUERN_PROPERTY(sizes.contains(record->stream));
            // What is begun goes on in order until its end.
            begun[record->stream] += record->payload.size();
            QUERN_PROPERTY(record->more == (begun[record->stream] != sizes[record->stream]));
            if (record->more) continue;
            ++whole;
            begun.erase(record->stream);
            sizes.erase(record->stream);
        }
        for (std::size_t i = 0; i < transport::kTrafficClasses; ++i)
            QUERN_PROPERTY(queue.queued_bytes(static_cast<transport::TrafficClass>(i)) <=
                           transport::kMaxQueuedBytes[i]);
    }
    queue.clear_shared();
    return whole != 0;
}
std::vector<Seed> seeds_send_queue() {
    return {{"one", Bytes{0, 0, 9, 1, 255}},
            {"all_classes", Bytes{0, 0, 9, 0, 1, 9, 0, 2, 9, 0, 3, 9, 0, 4, 9, 1, 255, 1, 255, 2, 255, 1, 255, 1, 255}},
            {"cut", Bytes{0, 4, 200, 1, 9, 1, 9, 0, 0, 5, 2, 9, 1, 255, 1, 255}},
            {"old", Bytes{0, 3, 200, 1, 5, 0, 3, 9, 3, 100, 1, 255, 3, 200, 1, 255}}};
}

}  // namespace

std::span<const Target> peer_targets() {
    static constexpr Target kTargets[] = {
        {"peer_session", run_peer_session, seeds_peer_session, 400},
        {"tx_relay", run_tx_relay, seeds_tx_relay, 300},
        {"fetch_plan", run_fetch_plan, seeds_fetch_plan, 60},
        {"peer_manager", run_peer_manager, seeds_peer_manager, 400},
        {"send_queue", run_send_queue, seeds_send_queue, 400},
    };
    return kTargets;
}

}  // namespace quern::fuzz
