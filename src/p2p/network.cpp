#include "p2p/network.h"

#include <boost/asio/ip/address.hpp>
#include <chrono>

#include "base/fs.h"
#include "p2p/network_impl.h"

namespace quern::p2p {
namespace {

constexpr std::size_t kMaxPeersFile = 8U << 20;
constexpr std::uint64_t kSaveBookMs = 60'000;
constexpr std::uint64_t kKnownHostsMs = 1'000;
constexpr std::uint64_t kStopLimitMs = 1'500;

Bytes prologue_of(const NetworkOptions& options) {
    Bytes prologue = to_bytes(options.genesis_hash);
    prologue.push_back(static_cast<std::uint8_t>(messages::kProtocolVersion >> 8));
    prologue.push_back(static_cast<std::uint8_t>(messages::kProtocolVersion));
    return prologue;
}

}  // namespace

Expected<StaticPeer> parse_static_peer(std::string_view text) {
    const auto bad = [&] { return fail("p2p.bad_peer", std::string(text) + " is not address@host:port"); };
    const std::size_t at = text.find('@');
    const std::size_t colon = text.rfind(':');
    if (at == std::string_view::npos || colon == std::string_view::npos || colon < at) return bad();
    const auto address = fixed_from_hex<20>(text.substr(0, at));
    std::string_view host = text.substr(at + 1, colon - at - 1);
    if (host.starts_with('[') && host.ends_with(']'))
        host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string_view::npos)
        return bad();
    std::uint32_t port = 0;
    const std::string_view digits = text.substr(colon + 1);
    if (digits.empty() || digits.size() > 5) return bad();
    for (const char c : digits) {
        if (c < '0' || c > '9') return bad();
        port = port * 10 + static_cast<std::uint32_t>(c - '0');
    }
    if (!address || !messages::is_host(host) || port == 0 || port > 0xffff) return bad();
    return StaticPeer{*address, {std::string(host), static_cast<std::uint16_t>(port)}};
}

Responder::State::~State() { once(Type::refusal, encode(messages::Refusal{messages::RefusalCode::not_found, {}})); }

void Responder::State::once(Type type, Bytes body) {
    if (!send) return;
    Send function = std::move(send);
    send = nullptr;
    function(type, std::move(body), std::move(held));
}

Network::Impl::Impl(const NetworkOptions& settings, const crypto::PrivateKey& chain_key)
    : options(settings),
      key(chain_key.clone()),
      identity{transport::KeyPair::generate(rng),
               {},
               crypto::address20(chain_key),
               settings.chain_id,
               prologue_of(settings)},
      unfinished(transport::unfinished_limits(settings.partial_memory)),
      uplink(settings.bulk_bytes_per_second),
      bulk_pace(uplink.bytes_per_second(), uplink.burst()),
      cookies(rng),
      limiter(rng, settings.local_network),
      shared{*this, identity, clock, rng, certificates, unfinished, bulk_pace, bulk_sent, settings.unfinished_ms},
      book(settings.chain_id, rng, settings.local_network),
      manager(identity.address, {settings.max_inbound, settings.max_outbound}, book, rng),
      relay(rng) {
    sign_identity();
    for (const auto& peer : options.static_peers) manager.add_static(peer.address, peer.endpoint);
    if (!options.peers_file.empty())
        if (const auto bytes = fs::read_file(options.peers_file, kMaxPeersFile))
            for (const auto& anchor : book.load(*bytes, unix_seconds())) manager.add_anchor(anchor);
    for (const auto& seed : options.seed_nodes) manager.add_seed(seed.address, seed.endpoint);
}

Network::Impl::~Impl() {
    {
        const MutexLock lock(door->mutex);
        door->impl = nullptr;
    }
    end();
}

void Network::Impl::end() {
    if (thread.joinable()) {
        post([this] { stop(); });
        thread.join();
    }
    disk.stop();
    disk.join();
    content_threads->stop();
    content_threads->join();
    file_threads.stop();
    file_threads.join();
}

std::uint64_t Network::Impl::now_us() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

// The certificate of this run's X25519 key, and the record that peers pass on.
void Network::Impl::sign_identity() {
    const std::uint64_t now = unix_seconds();
    certificate_expiry = now + options.certificate_seconds;
    transport::NetCert certificate{
        options.chain_id, identity.static_key.public_key(), options.roles, certificate_expiry, {}};
    transport::sign(certificate, key);
    identity.net_cert = transport::encode(certificate);
    if (options.advertised.empty()) return;
    messages::PeerRecord record{options.chain_id, identity.address, now, certificate_expiry, options.roles, {}, {}};
    for (const auto& endpoint : options.advertised)
        if (record.endpoints.size() < messages::kMaxEndpoints) record.endpoints.push_back(endpoint);
    const auto is_public = [](const messages::Endpoint& each) { return transport::is_routable(each.host); };
    if (!options.local_network && std::none_of(record.endpoints.begin(), record.endpoints.end(), is_public))
        log::warning(kLog, "others take no host names and private addresses from strangers advertised={}",
                     record.endpoints.front().host);
    messages::sign(record, key);
    own_record = messages::encode(record);
}

quern::Status Network::Impl::listen() {
    transport::error_code code;
    const auto host = asio::ip::make_address(options.listen_host, code);
    if (code) return fail("p2p.cannot_listen", options.listen_host + ": " + code.message());
    const tcp::endpoint endpoint(host, options.port);
    acceptor.open(endpoint.protocol(), code);
    if (!code) acceptor.set_option(tcp::acceptor::reuse_address(true), code);
    if (!code) acceptor.bind(endpoint, code);
    if (!code) acceptor.listen(1024, code);
    if (code)
        return fail("p2p.cannot_listen",
                    options.listen_host + ":" + std::to_string(options.port) + ": " + code.message());
    bound_port = acceptor.local_endpoint(code).port();
    return {};
}

void Network::Impl::run() {
    refresh_snapshot();
    thread = std::thread([this] {
        if (options.listen) accept();
        tick();
        io.run();
    });
}

void Network::Impl::stop() {
    if (stopping) return;
    stopping = true;
    transport::error_code ignored;
    acceptor.close(ignored);
    ticker.cancel();
    accept_pause.cancel();
    resolver.cancel();
    save_book();
    std::vector<Hash32> ids;
    for (const auto& [id, fetch] : fetches) ids.push_back(id);
    for (const auto& id : ids) end_fetch(id, fail("network.stopped"));
    while (!shard_searches.empty()) end_search(shard_searches.begin()->first, fail("network.stopped"));
    const auto all = connections;
    for (const auto& connection : all) connection->close({"network.stopped", {}});
    if (connections.empty()) return io.stop();
    stop_timer.expires_after(std::chrono::milliseconds(kStopLimitMs));
    stop_timer.async_wait([this](transport::error_code) {
        const auto rest = connections;
        for (const auto& connection : rest) connection->abort({"network.stopped", {}});
        io.stop();
    });
}

void Network::Impl::tick() {
    if (stopping) return;
    tell_relay();
    const std::uint64_t now = now_ms();
    for (const auto& target : manager.due_dials(now, unix_seconds()))
        dial(target.address, target.endpoint, ConnectionKind::control);
    relay.tell_members([this](const messages::ShortId& id) { return handler->has_transaction(id); }, now);
    std::vector<Bytes20> silent;
    for (auto& [address, peer] : peers) {
        if (!peer.session.has_hello()) {
            if (now - peer.since_ms > kHelloLimitMs) silent.push_back(address);
            continue;
        }
        if (peer.control->least_rtt_us() != 0) manager.measured(address, peer.control->least_rtt_us());
        relay.set_round_trip(address, round_trip_ms(peer));
        if (!peer.bulk && peer.dialled && !peer.dialing_bulk && now >= peer.next_bulk_dial_ms) dial_bulk(peer);
        for (auto ids = relay.take_announcements(address); !ids.empty(); ids = relay.take_announcements(address))
            (void)send(peer, Type::tx_announce, encode(messages::ShortIds{std::move(ids)}));
    }
    for (const auto& address : silent) peers.at(address).control->close({"peer.no_hello", {}});
    if (status_changed && now >= next_status_ms) {
        status_changed = false;
        next_status_ms = now + kStatusMs;
        const auto body = std::make_shared<const Bytes>(encode(own_status));
        for (auto& [address, peer] : peers)
            if (peer.session.has_hello()) (void)send(peer, Type::status, peer.session.next_stream(), body);
    }
    if (now >= next_known_ms) {
        next_known_ms = now + kKnownHostsMs;
        tell_known_hosts();
    }
    expire_requests();
    for (auto& ask : relay.expired(now)) ask_transactions(ask.peer, std::move(ask.ids));
    tick_fetches();
    update_uplink();
    if (now >= next_exchange_ms) {
        next_exchange_ms = now + kPeerExchangeMs;
        if (unix_seconds() + options.certificate_seconds / 2 > certificate_expiry) sign_identity();
        if (!peers.empty()) {
            auto at = peers.begin();
            std::advance(at, static_cast<std::ptrdiff_t>(rng.below(peers.size())));
            if (at->second.session.has_hello()) ask_peers(at->first);
        }
    }
    if (now >= next_save_ms) {
        if (next_save_ms != 0) save_book();
        next_save_ms = now + kSaveBookMs;
    }
    if (now >= next_snapshot_ms) refresh_snapshot();
    ticker.expires_after(std::chrono::milliseconds(kTickMs));
    ticker.async_wait([this](transport::error_code code) {
        if (!code) tick();
    });
}

void Network::Impl::update_uplink() {
    // The median of what the peers' round trips have grown by: one slow peer does not slow the node.
    std::vector<std::uint64_t> growth;
    bool is_new = false;
    for (auto& [address, peer] : peers) {
        if (peer.control->rtt_samples() == 0) continue;
        is_new = is_new || peer.control->rtt_samples() != peer.rtt_samples;
        peer.rtt_samples = peer.control->rtt_samples();
        growth.push_back(peer.control->rtt_us() - peer.control->least_rtt_us());
    }
    if (!is_new) return;
    std::nth_element(growth.begin(), growth.begin() + static_cast<std::ptrdiff_t>(growth.size() / 2), growth.end());
    uplink.update(now_us(), 1 + growth[growth.size() / 2], bulk_sent - bulk_sent_seen);
    bulk_sent_seen = bulk_sent;
    bulk_pace.set_rate(uplink.bytes_per_second(), uplink.burst(), now_us());
}

void Network::Impl::save_book() {
    if (options.peers_file.empty()) return;
    if (const auto status = fs::write_file_atomic(options.peers_file, book.save(manager.anchors())); !status)
        log::warning(kLog, "cannot save known peers error={}", status.error().to_string());
}

void Network::Impl::refresh_snapshot() {
    next_snapshot_ms = now_ms() + kStatusMs;
    NetworkStatus next;
    next.address = identity.address;
    next.port = bound_port;
    next.listening = options.listen;
    for (const auto& [address, peer] : peers)
        if (peer.session.has_hello()) next.peers.push_back(info_of(peer));
    next.pending_handshakes = pending.size();
    next.handshakes_done = handshakes_done;
    next.handshakes_failed = handshakes_failed;
    next.sockets_refused = sockets_refused;
    next.cookies_sent = cookies_sent;
    next.known_addresses = book.size();
    next.handshakes_refused = handshakes_refused;
    next.answer_bytes = answers.used();
    next.partial_bytes = unfinished.used();
    next.partial_evictions = unfinished.evictions();
    next.bulk_rate = uplink.bytes_per_second();
    for (const auto& [id, fetch] : fetches)
        next.fetches.emplace(id, FetchProgress{fetch.plan.sources(), fetch.progress_ms});
    next.waiting_chunks = checks.waiting();
    next.proposals = proposals;
    live_peers = next.peers.size();
    const MutexLock lock(snapshot_mutex);
    snapshot = std::move(next);
}

// --- The public functions -------------------------------------------------------------------------------------------

Network::Network(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Network::~Network() = default;

Expected<std::unique_ptr<Network>> Network::make(const NetworkOptions& options, const crypto::PrivateKey& chain_key) {
    for (const auto& endpoint : options.advertised)
        if (!messages::is_host(endpoint.host) || endpoint.port == 0)
            return fail("p2p.bad_options", "cannot advertise " + endpoint.host);
    if (options.agent.size() > messages::kMaxAgent) return fail("p2p.bad_options", "the agent's name is too long");
    auto impl = std::make_unique<Impl>(options, chain_key);
    if (options.listen) QUERN_CHECK(impl->listen());
    return std::unique_ptr<Network>(new Network(std::move(impl)));
}

void Network::run(NetworkHandler& handler) {
    impl_->handler = &handler;
    impl_->run();
}

Expected<std::unique_ptr<Network>> Network::start(const NetworkOptions& options, const crypto::PrivateKey& chain_key,
                                                  NetworkHandler& handler) {
    QUERN_TRY(auto network, make(options, chain_key));
    network->run(handler);
    return network;
}

void Network::stop() { impl_->end(); }

std::uint16_t Network::port() const { return impl_->bound_port; }
const Bytes20& Network::address() const { return impl_->identity.address; }
std::size_t Network::peer_count() const { return impl_->live_peers; }
NetworkStatus Network::status() const {
    const MutexLock lock(impl_->snapshot_mutex);
    return impl_->snapshot;
}

void Network::add_static_peer(const StaticPeer& peer) {
    impl_->post([impl = impl_.get(), peer] { impl->manager.add_static(peer.address, peer.endpoint); });
}
void Network::set_committee(const std::set<Bytes20>& members) {
    impl_->post([impl = impl_.get(), members] {
        impl->committee = members;
        impl->manager.set_committee(members);
        for (auto& [address, peer] : impl->peers) {
            peer.session.set_stranger(impl->is_stranger(address));
            peer.session.set_member(members.contains(address));
            impl->set_fixed(peer);
            impl->relay.set_member(address, members.contains(address));
        }
    });
}
void Network::set_status(const messages::Status& status) {
    impl_->post([impl = impl_.get(), status] {
        impl->status_changed = impl->status_changed || !(impl->own_status == status);
        impl->own_status = status;
    });
}
void Network::report(const Bytes20& peer, Offence offence) {
    impl_->post([impl = impl_.get(), peer, offence] { impl->penalize(peer, offence, "reported"); });
}

void Network::send_consensus(Bytes envelope) {
    auto body = std::make_shared<const Bytes>(std::move(envelope));
    impl_->post([impl = impl_.get(), body = std::move(body)] { impl->send_consensus(body); });
}
void Network::send_proposal(Bytes envelope, std::size_t begin, std::size_t end) {
    auto body = std::make_shared<const Bytes>(std::move(envelope));
    impl_->post([impl = impl_.get(), body = std::move(body), begin, end] { impl->send_proposal(body, begin, end); });
}
void Network::send_consensus_to(const Bytes20& peer, Bytes envelope, std::shared_ptr<const void> held) {
    impl_->post([impl = impl_.get(), peer, envelope = std::move(envelope), held = std::move(held)]() mutable {
        impl->send_consensus_to(peer, std::move(envelope), std::move(held));
    });
}
void Network::announce_transaction(const Hash32& hash, Bytes encoded) {
    announce_transactions({{hash, std::make_shared<const Bytes>(std::move(encoded))}});
}
void Network::announce_transactions(std::vector<Announcement> transactions) {
    std::size_t waiting = 0;
    {
        const MutexLock lock(impl_->announced_mutex);
        auto& announced = impl_->announced;
        std::move(transactions.begin(), transactions.end(), std::back_inserter(announced));
        // The relay would forget the oldest of more, too.
        while (announced.size() > gossip::kMaxRecent) announced.pop_front();
        waiting = announced.size();
    }
    // Once for so many, not again for each that follows.
    if (waiting >= kMaxUntoldAnnouncements && waiting < kMaxUntoldAnnouncements + transactions.size())
        impl_->post([impl = impl_.get()] { impl->tell_relay(); });
}
void Network::announce_block(std::shared_ptr<const chain::types::Block> block, Bytes certificate, bool outsiders_only,
                             const Bytes20& except) {
    impl_->post(
        [impl = impl_.get(), block = std::move(block), certificate = std::move(certificate), outsiders_only, except] {
            impl->tell_relay();
            // Made for the first who is to have it: among members of the committee alone nobody is.
            std::shared_ptr<const Bytes> body;
            for (auto& [address, peer] : impl->peers) {
                if (!peer.session.has_hello() || address == except) continue;
                if (outsiders_only && impl->committee.contains(address)) continue;
                if (body == nullptr)
                    body = std::make_shared<const Bytes>(
                        encode(gossip::make_compact(*block, certificate, impl->rng.u64(),
                                                    [impl](const Hash32& hash) { return impl->relay.has(hash); })));
                (void)impl->send(peer, Type::compact_block, peer.session.next_stream(), body);
            }
        });
}

namespace {
// An answer's bytes through its decoder.
template <class T, class Decode>
std::function<void(Expected<Bytes>)> decoded(Answer<T> answer, Decode decode) {
    return [answer = std::move(answer), decode](Expected<Bytes> body) {
        if (!body) return answer(fail(std::move(body).error()));
        answer(decode(BytesView(*body)));
    };
}
}  // namespace

NoAnswer why_no_answer(const Error& error) {
    if (error.name == kRefused) return error.is_busy() ? NoAnswer::busy : NoAnswer::refused;
    return error.name.starts_with("network.") ? NoAnswer::late : NoAnswer::refused;
}

void Network::request_block(const Bytes20& peer, const messages::GetBlock& request, std::uint64_t timeout_ms,
                            Answer<messages::BlockAnswer> answer) {
    impl_->post([impl = impl_.get(), peer, body = encode(request), timeout_ms, answer = std::move(answer)]() mutable {
        impl->request(peer, Type::get_block, std::move(body), timeout_ms,
                      decoded(std::move(answer), messages::decode_block_answer));
    });
}
void Network::request_certificate(const Bytes20& peer, const messages::GetCertificate& request,
                                  std::uint64_t timeout_ms, Answer<messages::CertificateAnswer> answer) {
    impl_->post([impl = impl_.get(), peer, body = encode(request), timeout_ms, answer = std::move(answer)]() mutable {
        impl->request(peer, Type::get_certificate, std::move(body), timeout_ms,
                      decoded(std::move(answer), messages::decode_certificate_answer));
    });
}
void Network::request_range(const Bytes20& peer, const messages::GetRange& request, std::uint64_t timeout_ms,
                            Answer<messages::Range> answer) {
    impl_->post([impl = impl_.get(), peer, body = encode(request), timeout_ms, answer = std::move(answer)]() mutable {
        impl->request(peer, Type::get_range, std::move(body), timeout_ms,
                      decoded(std::move(answer), messages::decode_range));
    });
}

void Network::fetch_content(const Hash32& id, std::function<void(quern::Status)> done, std::uint64_t max_bytes) {
    impl_->post([impl = impl_.get(), id, done = std::move(done), max_bytes]() mutable {
        if (impl->options.contents == nullptr || impl->stopping)
            return done(fail(impl->stopping ? "network.stopped" : "network.no_store"));
        if (impl->options.contents->size(id)) return done({});
        const std::uint64_t most = std::min(max_bytes, impl->options.contents->max_item_bytes());
        if (const auto known = impl->fetches.find(id); known != impl->fetches.end()) {
            known->second.plan.allow(most);
            return known->second.done.push_back(std::move(done));
        }
        if (impl->fetches.size() >= kMaxFetches) return done(busy("network.too_many_fetches"));
        auto& fetch = impl->fetches.try_emplace(id, id, ++impl->fetches_begun, impl->rng, most).first->second;
        fetch.progress_ms = impl->now_ms();
        fetch.done.push_back(std::move(done));
        impl->go_on(id);
    });
}
void Network::cancel_fetch(const Hash32& id) {
    impl_->post([impl = impl_.get(), id] { impl->end_fetch(id, fail("network.cancelled")); });
}

}  // namespace quern::p2p
