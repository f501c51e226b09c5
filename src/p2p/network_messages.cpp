// What peers say: limits before parsing, dispatch, requests and their answers.
#include "p2p/network_impl.h"

namespace quern::p2p {

using messages::RefusalCode;
using messages::Rule;

quern::Status Network::Impl::send(Peer& peer, Type type, std::uint32_t stream, std::shared_ptr<const Bytes> body) {
    const Rule& rule = messages::rule_of(type);
    transport::TrafficClass traffic = rule.traffic;
    // A vote must not wait behind a proposal.
    if (type == Type::consensus && body->size() <= transport::max_payload(transport::kMaxControlRecord))
        traffic = transport::TrafficClass::urgent;
    Connection& connection = rule.on_bulk && peer.bulk ? *peer.bulk : *peer.control;
    return connection.send(traffic, static_cast<std::uint8_t>(type), stream, std::move(body));
}

void Network::Impl::send_consensus(const std::shared_ptr<const Bytes>& envelope) {
    if (envelope->size() > messages::rule_of(Type::consensus).max_bytes) return;
    for (auto& [address, peer] : peers) {
        const bool wanted = committee.empty() || committee.count(address) != 0;
        if (wanted && peer.session.has_hello()) (void)send(peer, Type::consensus, peer.session.next_stream(), envelope);
    }
}

void Network::Impl::send_consensus_to(const Bytes20& address, Bytes envelope, Responder::Held held) {
    const auto at = peers.find(address);
    if (at == peers.end() || !at->second.session.has_hello() ||
        envelope.size() > messages::rule_of(Type::consensus).max_bytes)
        return;
    std::shared_ptr<const Bytes> body;
    if (manager.is_fixed(address)) {
        struct Kept {
            Bytes body;
            Responder::Held held;
        };
        const auto kept = std::make_shared<const Kept>(Kept{std::move(envelope), std::move(held)});
        body = {kept, &kept->body};
    } else {
        auto charged = at->second.answers->charge(std::move(envelope), now_ms());
        if (!charged) return;  // it asks and does not read
        body = std::move(*charged);
    }
    (void)send(at->second, Type::consensus, at->second.session.next_stream(), std::move(body));
}

Peer* Network::Impl::peer_of(const Connection& connection) {
    const auto at = peers.find(connection.peer().address);
    if (at == peers.end()) return nullptr;
    Peer& peer = at->second;
    return peer.control.get() == &connection || peer.bulk.get() == &connection ? &peer : nullptr;
}

Expected<transport::Admission> Network::Impl::admit_message(Connection& connection, std::uint8_t type,
                                                            std::uint32_t stream) {
    const Rule* rule = messages::rule_of(type);
    if (rule == nullptr) return fail("connection.unknown_type", std::to_string(type));
    Peer* peer = peer_of(connection);
    if (peer == nullptr) return transport::Admission{rule->max_bytes, true};  // it is being left
    const auto judged = peer->session.judge(*rule, stream, connection.kind(), now_us());
    if (judged.offence) penalize(peer->address, *judged.offence, std::string(judged.why));
    if (judged.refuse_too_fast) refuse(peer->address, stream, RefusalCode::too_fast);
    return judged.admission;
}

void Network::Impl::message(Connection& connection, transport::WholeMessage message) {
    Peer* const peer = peer_of(connection);
    if (peer == nullptr) return;
    const Rule& rule = *messages::rule_of(message.type);
    ++peer->messages_in;
    if (messages::is_answer(rule)) return handle_answer(*peer, rule.type, message.stream, std::move(message.body));
    if (messages::is_request(rule) && !peer->session.may_be_served())
        return refuse(peer->address, message.stream, RefusalCode::busy);
    handle(*peer, rule, message);
}

namespace {

// Calls `use` with the decoded body, or `bad` with the error.
template <class T, class Use, class Bad>
void with(Expected<T> value, Use use, Bad bad) {
    if (value)
        use(std::move(*value));
    else
        bad(value.error());
}

}  // namespace

void Network::Impl::handle(Peer& peer, const Rule& rule, transport::WholeMessage& message) {
    const BytesView body = message.body;
    const std::uint32_t stream = message.stream;
    const auto bad = [&](const Error& error) {
        penalize(peer.address, Offence::malformed, std::string(rule.name) + " " + error.to_string());
        if (messages::is_request(rule)) refuse(peer.address, stream, RefusalCode::malformed);
    };
    switch (rule.type) {
        case Type::hello:
            return handle_hello(peer, body);
        case Type::status:
            return with(
                messages::decode_status(body),
                [&](messages::Status status) {
                    peer.hello.status = status;
                    handler->peer_status(peer.address, status);
                },
                bad);
        case Type::consensus:
            manager.delivered(peer.address);
            return handler->consensus(peer.address, std::move(message.body));
        case Type::proposal:
            return handle_proposal(peer, body);
        case Type::get_proposal_transactions:
            return with(
                messages::decode_get_proposal_transactions(body),
                [&](messages::GetProposalTransactions asked) { serve_proposal_transactions(peer, stream, asked); },
                bad);
        case Type::get_proposal:
            return with(
                messages::decode_get_proposal(body),
                [&](messages::GetProposal asked) { serve_proposal(peer, asked.digest); }, bad);
        case Type::tx_announce:
            return with(
                messages::decode_short_ids(body),
                [&](messages::ShortIds announced) { handle_announcement(peer, announced); }, bad);
        case Type::compact_block:
            return handle_compact(peer, body);
        case Type::get_peers:
            return with(
                messages::decode_get_peers(body),
                [&](messages::GetPeers asked) { serve_peers(peer, stream, asked.limit); }, bad);
        case Type::get_transactions:
            return with(
                messages::decode_short_ids(body),
                [&](messages::ShortIds asked) { serve_transactions(peer, stream, asked); }, bad);
        case Type::get_block:
            return with(
                messages::decode_get_block(body),
                [&](messages::GetBlock asked) {
                    handler->get_block(peer.address, asked, responder(peer, rule.type, stream));
                },
                bad);
        case Type::get_block_transactions:
            return with(
                messages::decode_get_block_transactions(body),
                [&](messages::GetBlockTransactions asked) {
                    handler->get_block_transactions(peer.address, asked, responder(peer, rule.type, stream));
                },
                bad);
        case Type::get_certificate:
            return with(
                messages::decode_get_certificate(body),
                [&](messages::GetCertificate asked) {
                    handler->get_certificate(peer.address, asked, responder(peer, rule.type, stream));
                },
                bad);
        case Type::get_range:
            return with(
                messages::decode_get_range(body),
                [&](messages::GetRange asked) {
                    handler->get_range(peer.address, asked, responder(peer, rule.type, stream));
                },
                bad);
        case Type::find_content:
            return with(
                messages::decode_find_content(body),
                [&](messages::FindContent asked) { serve_find(peer, stream, asked); }, bad);
        case Type::get_leaf_hashes:
        case Type::get_leaves:
            return with(
                messages::decode_get_leaves(
                    body, rule.type == Type::get_leaves ? messages::kLeavesPerChunk : messages::kMaxLeafHashes),
                [&](messages::GetLeaves asked) { serve_leaves(peer, rule.type, stream, asked); }, bad);
        case Type::get_shards:
            return with(
                messages::decode_get_shards(body),
                [&](messages::GetShards asked) { serve_shards(peer, stream, asked); }, bad);
        default:
            return bad({"message.out_of_range", "not for the receiver"});
    }
}

void Network::Impl::handle_hello(Peer& peer, BytesView body) {
    const auto hello = messages::decode_hello(body);
    if (!hello) return penalize(peer.address, Offence::malformed, hello.error().to_string());
    if (hello->version != messages::kProtocolVersion || peer.session.has_hello())
        return penalize(peer.address, Offence::protocol, "hello");
    peer.hello = *hello;
    peer.session.said_hello();
    const Bytes20 address = peer.address;
    relay.add_peer(address, manager.is_fixed(address) || peer.control->is_outbound());
    relay.set_member(address, committee.contains(address));
    // It alone: were all asked again, those that come and go would make this node exceed its rate with the others.
    std::vector<Hash32> wanted;
    for (const auto& [id, fetch] : fetches) wanted.push_back(id);
    for (const auto& id : wanted) ask_for_content(id, address);
    log::info(kLog, "peer joined address={} host={} outbound={} peers={}", to_hex0x(address),
              peer.control->remote_host(), peer.control->is_outbound(), peers.size());
    if (manager.is_fixed(address) || peer.control->is_outbound() || strangers_asked.try_take(1, now_us()))
        ask_peers(address);
    refresh_snapshot();
    handler->peer_connected(info_of(peer));
}

// --- Requests --------------------------------------------------------------------------------------------------------

void Network::Impl::request(const Bytes20& address, Type type, Bytes body, std::uint64_t timeout_ms,
                            std::function<void(Expected<Bytes>)> done) {
    if (stopping) return done(fail("network.stopped"));
    const auto at = peers.find(address);
    if (at == peers.end() || !at->second.session.has_hello())
        return done(fail("network.not_connected", to_hex0x(address)));
    Peer& peer = at->second;
    const auto stream = peer.session.begin_request();
    if (!stream) return done(fail(stream.error()));
    if (auto sent = send(peer, type, *stream, std::make_shared<Bytes>(std::move(body))); !sent)
        return done(fail(std::move(sent).error()));
    peer.session.asked(*stream, type, now_ms() + timeout_ms, std::move(done));
}

void Network::Impl::handle_answer(Peer& peer, Type type, std::uint32_t stream, Bytes body) {
    // Judged at its first record; its time may have run out since.
    const auto done = peer.session.take(stream);
    if (!done) return;
    const Bytes20 address = peer.address;
    if (type != Type::refusal) {
        manager.delivered(address);
        return done(std::move(body));
    }
    const auto refusal = messages::decode_refusal(body);
    if (!refusal) {
        penalize(address, Offence::malformed, refusal.error().to_string());
        return done(fail(kRefused, "malformed"));
    }
    static constexpr std::string_view kCodes[] = {"", "not_found", "busy", "too_fast", "malformed", "unsupported"};
    const std::string words = std::string(kCodes[static_cast<std::size_t>(refusal->code)]) +
                              (refusal->detail.empty() ? "" : ": " + refusal->detail);
    const bool later = refusal->code == RefusalCode::busy || refusal->code == RefusalCode::too_fast;
    done(later ? busy(kRefused, words) : fail(kRefused, words));
}

void Network::Impl::expire_requests() {
    const std::uint64_t now = now_ms();
    std::vector<PeerSession::Done> over;
    for (auto& [address, peer] : peers)
        for (auto& done : peer.session.expire(now)) {
            over.push_back(std::move(done));
            // Those whom consensus needs are not lost to a busy machine.
            if (!manager.is_fixed(address)) penalize(address, Offence::timeout, "request");
        }
    for (const auto& done : over) done(busy("network.timeout"));
}

void Network::Impl::answer(const Bytes20& address, std::uint32_t stream, Type type, Bytes body) {
    const auto at = peers.find(address);
    if (at == peers.end()) return;
    if (body.size() > messages::rule_of(type).max_bytes) {
        type = Type::refusal;
        body = encode(messages::Refusal{RefusalCode::unsupported, "too large"});
    }
    AnswerAccount& account = *at->second.answers;
    // From here on the account knows of it; `held` is let go of, so that who does not read keeps no place of those
    // who make answers.
    auto charged = account.charge(std::move(body), now_ms());
    if (!charged && type != Type::refusal) {
        type = Type::refusal;
        charged = account.charge(encode(messages::Refusal{RefusalCode::busy, {}}), now_ms());
    }
    // A full queue drops the answer: the peer does not read as fast as it asks, and its request runs out of time.
    if (charged) (void)send(at->second, type, stream, std::move(*charged));
}

Responder Network::Impl::responder(Peer& peer, Type request, std::uint32_t stream) {
    peer.session.begin_serving();
    const Type expected = messages::rule_of(request).answer;
    // The control connection tells this peer's session from a later one of the same address.
    return Responder([way = door, address = peer.address, session = peer.control->session_id(), stream, expected](
                         Type type, Bytes body, Responder::Held held) {
        const MutexLock lock(way->mutex);
        if (way->impl == nullptr) return;
        way->impl->post([network = way->impl, address, session, stream, expected, type, body = std::move(body),
                         held = std::move(held)]() mutable {
            const auto at = network->peers.find(address);
            if (at == network->peers.end() || at->second.control->session_id() != session) return;
            at->second.session.end_serving();
            if (type != Type::refusal && type != expected) {
                type = Type::refusal;
                body = encode(messages::Refusal{RefusalCode::unsupported, {}});
            }
            network->answer(address, stream, type, std::move(body));
        });
    });
}

// --- Peer exchange ---------------------------------------------------------------------------------------------------

void Network::Impl::ask_peers(const Bytes20& address) {
    request(address, Type::get_peers, encode(messages::GetPeers{messages::kMaxPeersInAnswer}), kRequestMs,
            [this, address](Expected<Bytes> body) {
                if (!body) return;
                const auto answer = messages::decode_peers(*body);
                if (!answer) return penalize(address, Offence::malformed, answer.error().to_string());
                const auto at = peers.find(address);
                const std::string source = at == peers.end() ? "" : at->second.control->remote_host();
                for (const auto& encoded : answer->records) {
                    const auto record = messages::decode_peer_record(encoded);
                    if (!record) return penalize(address, Offence::malformed, record.error().to_string());
                    if (record->address != identity.address) book.add(*record, source, unix_seconds());
                }
                // A seed has told what it knows; it is left to others.
                if (at != peers.end() && manager.is_seed(address) && book.size() > 1)
                    at->second.control->close({"peer.seed_done", {}});
            });
}

void Network::Impl::serve_peers(Peer& peer, std::uint32_t stream, std::uint64_t limit) {
    messages::Peers out;
    if (!own_record.empty()) out.records.push_back(own_record);
    const std::size_t most = std::min<std::uint64_t>(limit, messages::kMaxPeersInAnswer);
    std::size_t bytes = 0;
    if (most > out.records.size())
        for (auto& record : book.sample(most - out.records.size(), unix_seconds())) {
            bytes += record.size() + 4;
            if (bytes > 60'000) break;
            out.records.push_back(std::move(record));
        }
    answer(peer.address, stream, Type::peers, encode(out));
}

// --- Transactions ----------------------------------------------------------------------------------------------------

void Network::Impl::tell_relay() {
    std::deque<Announcement> told;
    {
        const MutexLock lock(announced_mutex);
        told.swap(announced);
    }
    const std::uint64_t now = told.empty() ? 0 : now_ms();
    for (auto& each : told) relay.have(each.hash, std::move(each.encoded), now);
}

void Network::Impl::handle_announcement(Peer& peer, const messages::ShortIds& announced) {
    auto ids = relay.announced(
        peer.address, announced.ids, [this](const messages::ShortId& id) { return handler->wants_transaction(id); },
        now_ms());
    ask_transactions(peer.address, std::move(ids));
}

void Network::Impl::ask_transactions(const Bytes20& address, std::vector<messages::ShortId> ids) {
    if (ids.empty()) return;
    auto body = encode(messages::ShortIds{ids});
    request(address, Type::get_transactions, std::move(body), gossip::kTxRequestMs,
            [this, address, ids = std::move(ids)](Expected<Bytes> answer) {
                bool delivered = false;
                if (answer) {
                    auto transactions = messages::decode_transactions(*answer);
                    if (!transactions) {
                        penalize(address, Offence::malformed, transactions.error().to_string());
                    } else {
                        delivered = !transactions->encoded.empty();
                        auto taken = relay.received(address, ids, std::move(transactions->encoded));
                        if (!taken)
                            penalize(address, Offence::protocol, taken.error().to_string());
                        else if (!taken->empty())
                            handler->transactions(address, std::move(*taken));
                    }
                }
                if (answer && !delivered) penalize(address, Offence::useless, "announced and not there");
                if (stopping) return;
                for (auto& ask : relay.not_delivered(address, ids, now_ms()))
                    ask_transactions(ask.peer, std::move(ask.ids));
            });
}

void Network::Impl::serve_transactions(Peer& peer, std::uint32_t stream, const messages::ShortIds& asked) {
    messages::Transactions out;
    std::size_t bytes = 0;
    for (const auto& id : asked.ids) {
        std::optional<Bytes> found;
        if (const Bytes* kept = relay.find(id))
            found = *kept;
        else
            found = handler->find_transaction(id);
        if (!found) continue;
        bytes += found->size() + 5;
        if (bytes > gossip::kMaxTransactionsBytes && !out.encoded.empty()) break;
        out.encoded.push_back(std::move(*found));
    }
    answer(peer.address, stream, Type::transactions, encode(out));
}

// --- Blocks ----------------------------------------------------------------------------------------------------------

// The header says whether it is wanted: decoding all of one with 65,536 transactions takes 16 ms.
void Network::Impl::handle_compact(Peer& peer, BytesView body) {
    const auto bad = [&](const Error& error) {
        penalize(peer.address, Offence::malformed, "compact_block " + error.to_string());
    };
    const auto header = messages::decode_compact_header(body);
    if (!header) return bad(header.error());
    const Hash32 hash = chain::types::hash_of(*header);
    if (!handler->wants_block(hash, header->number)) return;
    // What strangers' blocks cost is bounded for all of them together; a node behind catches up by asking.
    if (!manager.is_fixed(peer.address) && !assembly_rate.try_take(1, now_us())) return;
    auto compact = messages::decode_compact_block(body);
    if (!compact) return bad(compact.error());
    tell_relay();
    put_together(peer, hash, std::move(*compact));
}

void Network::Impl::put_together(Peer& peer, const Hash32& hash, messages::CompactBlock compact) {
    const Bytes20 address = peer.address;
    const auto assembly =
        std::make_shared<gossip::BlockAssembly>(std::move(compact), [this](const gossip::BlockAssembly::Take& take) {
            for (const auto& [id, transaction] : relay.recent()) take(transaction.hash, *transaction.encoded);
        });
    const auto missing = assembly->missing();
    if (missing.empty()) return hand_over(address, hash, assembly->finish());
    if (missing.size() > assembly->compact().transaction_count() / 2 || assemblies >= kMaxAssemblies)
        return ask_block(address, hash);
    ++assemblies;
    request(address, Type::get_block_transactions, encode(messages::GetBlockTransactions{hash, missing}), kRequestMs,
            [this, address, hash, assembly](Expected<Bytes> body) {
                --assemblies;
                if (!body) return not_delivered(address, body.error());
                const auto answer = messages::decode_block_transactions(*body);
                if (!answer || answer->block != hash)
                    return penalize(address, Offence::malformed, answer ? "another block" : answer.error().to_string());
                if (!assembly->fill(answer->encoded)) return ask_block(address, hash);
                hand_over(address, hash, assembly->finish());
            });
}

// The roots are reckoned on the disk thread. A body that is not the header's has two transactions with one id in it, or
// a sender that chose its salt for that: the whole block tells. To somebody honest that happens once in 2^64 ids, so
// each time costs a little, and who does it ten times a second is left.
void Network::Impl::hand_over(const Bytes20& address, const Hash32& hash, Expected<messages::BlockAnswer> block) {
    if (!block) return ask_block(address, hash);
    // Whole blocks need no questions, so nothing else bounds how many wait. Strangers' leave room for fixed peers'.
    const bool stranger = !manager.is_fixed(address);
    const auto peer = peers.find(address);
    if (peer == peers.end() || peer->second.reckonings >= kMaxReckoningsPerPeer || reckonings >= kMaxReckonings ||
        (stranger && strangers_reckonings >= kMaxStrangersReckonings))
        return;
    ++reckonings;
    ++peer->second.reckonings;
    strangers_reckonings += stranger ? 1 : 0;
    asio::post(disk, [this, address, session = peer->second.control->session_id(), stranger, hash,
                      block = std::move(*block)]() mutable {
        const bool whole = handler->body_matches(block.block);
        post([this, address, session, stranger, hash, whole, block = std::move(block)]() mutable {
            --reckonings;
            strangers_reckonings -= stranger ? 1 : 0;
            const auto from = peers.find(address);
            const bool same = from != peers.end() && from->second.control->session_id() == session;
            if (same) --from->second.reckonings;
            if (stopping) return;
            if (whole) return handler->block(address, std::move(block));
            if (same) penalize(address, Offence::useless, "a body that is not its header's");
            ask_block(address, hash);
        });
    });
}

// It took a place among the compact blocks of strangers. Silence has its own price.
void Network::Impl::not_delivered(const Bytes20& address, const Error& error) {
    if (!stopping && why_no_answer(error) == NoAnswer::refused)
        penalize(address, Offence::useless, "announced a block that it does not have");
}

void Network::Impl::ask_block(const Bytes20& address, const Hash32& hash) {
    request(address, Type::get_block, encode(messages::GetBlock{hash}), kRequestMs,
            [this, address](Expected<Bytes> body) {
                if (!body) return not_delivered(address, body.error());
                auto block = messages::decode_block_answer(*body);
                if (!block) return penalize(address, Offence::malformed, block.error().to_string());
                handler->block(address, std::move(*block));
            });
}

}  // namespace quern::p2p
