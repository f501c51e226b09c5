// Sockets and peers: accepting, dialling, admission, who stays when two connections cross, what happens when one ends.
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/address.hpp>

#include "p2p/network_impl.h"

namespace quern::p2p {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};  // after accept failed, e.g. for want of descriptors

// One attempt to connect, with a time limit.
struct Dial : std::enable_shared_from_this<Dial> {
    explicit Dial(asio::io_context& io) : socket(io), timer(io) {}
    tcp::socket socket;
    asio::steady_timer timer;
    bool over = false;
};

}  // namespace

void Network::Impl::accept() {
    acceptor.async_accept([this](transport::error_code code, tcp::socket socket) {
        if (stopping) return;
        if (code) {
            accept_pause.expires_after(kAcceptPause);
            accept_pause.async_wait([this](transport::error_code) {
                if (!stopping) accept();
            });
            return;
        }
        accepted(std::move(socket));
        accept();
    });
}

void Network::Impl::accepted(tcp::socket socket) {
    transport::error_code code;
    const auto remote = socket.remote_endpoint(code);
    if (code) return;
    const std::string host = remote.address().to_string();
    const std::string group = network_group(host);
    std::size_t in_group = 0;
    for (const auto& each : pending) in_group += network_group(each->remote_host()) == group ? 1 : 0;
    if (!limiter.allow_socket(host, in_group, now_us())) {
        ++sockets_refused;
        return;
    }
    // The oldest has had the longest time: an honest peer needs milliseconds.
    if (pending.size() >= kMaxPendingHandshakes) {
        const ConnectionPtr oldest = pending.front();
        oldest->abort({"handshake.crowded_out", {}});
    }
    const auto connection = std::make_shared<Connection>(std::move(socket), shared);
    connections.insert(connection);
    pending.push_back(connection);
    connection->start();
}

void Network::Impl::dial(const Bytes20& address, const messages::Endpoint& endpoint, ConnectionKind kind) {
    const auto attempt = std::make_shared<Dial>(io);
    const auto give_up = [this, attempt, address, kind](const std::string& why) {
        if (std::exchange(attempt->over, true)) return;
        transport::error_code ignored;
        attempt->socket.close(ignored);
        attempt->timer.cancel();
        if (!stopping) dial_over(address, kind, why);
    };
    attempt->timer.expires_after(std::chrono::milliseconds(kDialLimitMs));
    attempt->timer.async_wait([give_up](transport::error_code code) {
        if (!code) give_up("timeout");
    });
    const auto connected = [this, attempt, give_up, address, endpoint, kind](transport::error_code code) {
        if (attempt->over || stopping) return give_up("stopped");
        if (code) return give_up(code.message());
        attempt->over = true;
        attempt->timer.cancel();
        const auto connection = std::make_shared<Connection>(std::move(attempt->socket), shared, kind, address);
        connections.insert(connection);
        connection->start();
    };
    transport::error_code code;
    const auto numeric = asio::ip::make_address(endpoint.host, code);
    if (!code) {
        attempt->socket.async_connect(tcp::endpoint(numeric, endpoint.port), connected);
        return;
    }
    resolver.async_resolve(
        endpoint.host, std::to_string(endpoint.port),
        [attempt, connected, give_up](transport::error_code error, tcp::resolver::results_type found) {
            if (error) return give_up(error.message());
            if (attempt->over) return;
            asio::async_connect(attempt->socket, found,
                                [connected](transport::error_code result, const tcp::endpoint&) { connected(result); });
        });
}

void Network::Impl::dial_bulk(Peer& peer) {
    peer.dialing_bulk = true;
    dial(peer.address, *peer.dialled, ConnectionKind::bulk);
}

void Network::Impl::dial_over(const Bytes20& address, ConnectionKind kind, const std::string& why) {
    log::debug(kLog, "cannot connect peer={} reason=\"{}\"", to_hex0x(address), why);
    const auto at = peers.find(address);
    if (kind == ConnectionKind::bulk) {
        if (at == peers.end()) return;
        at->second.dialing_bulk = false;
        at->second.next_bulk_dial_ms = now_ms() + kBulkRedialMs;
    } else if (at == peers.end()) {
        manager.dial_failed(address, now_ms(), unix_seconds());
    }
}

transport::CookieGuard::Challenge Network::Impl::challenge(const std::string& host, BytesView message) {
    switch (limiter.allow_handshake(host, false, now_us())) {
        case HandshakeLimiter::Verdict::allow:
            return {};
        case HandshakeLimiter::Verdict::ask_cookie:
            ++cookies_sent;
            return {cookies.make(host, message, now_ms()), false};
        case HandshakeLimiter::Verdict::refuse:
            break;
    }
    ++handshakes_refused;
    return {std::nullopt, true};
}

bool Network::Impl::cookie_fits(const std::string& host, BytesView message, BytesView cookie) {
    if (!cookies.check(host, message, cookie, now_ms())) return false;
    if (limiter.allow_handshake(host, true, now_us()) == HandshakeLimiter::Verdict::allow) return true;
    ++handshakes_refused;
    return false;
}

void Network::Impl::tell_known_hosts() {
    std::set<std::string> known;
    for (const auto& [address, peer] : peers)
        if (manager.is_fixed(address)) known.insert(transport::host_key(peer.control->remote_host()));
    for (const auto& host : manager.fixed_hosts()) known.insert(transport::host_key(host));
    limiter.set_known(std::move(known));
}

quern::Status Network::Impl::opened(Connection& connection) {
    const ConnectionPtr self = connection.shared_from_this();
    pending.remove(self);
    if (stopping) return fail("network.stopped");
    const Bytes20& address = connection.peer().address;
    if (connection.kind() == ConnectionKind::control) {
        QUERN_CHECK(opened_control(connection));
        ++handshakes_done;
        return {};
    }
    const auto at = peers.find(address);
    if (at == peers.end()) return fail("peer.bulk_without_control");
    ++handshakes_done;
    at->second.dialing_bulk = false;
    // The newer one: a peer opens another only when it has lost the one before.
    if (const ConnectionPtr old = std::exchange(at->second.bulk, self)) old->abort({"peer.duplicate", {}});
    set_fixed(at->second);
    return {};
}

quern::Status Network::Impl::opened_control(Connection& connection) {
    const ConnectionPtr self = connection.shared_from_this();
    const Bytes20 address = connection.peer().address;
    if (connection.is_outbound() && manager.feeler_arrived(address, unix_seconds())) return busy("peer.feeler_done");
    auto at = peers.find(address);
    if (at != peers.end()) {
        // Both may have dialled at once. Both keep the connection that the smaller address dialled.
        const auto dialled_by_smaller = [&](const Connection& each) {
            return each.is_outbound() == (identity.address < address);
        };
        if (dialled_by_smaller(*at->second.control) && !dialled_by_smaller(connection)) return fail("peer.duplicate");
        const ConnectionPtr old = at->second.control;
        drop_peer(address, {"peer.duplicate", {}});
        old->close({"peer.duplicate", {}});
    }
    auto admitted = manager.admit(address, connection.remote_host(), connection.is_outbound(), now_ms());
    if (!admitted && admitted.error().name == "peer.slots_full") {
        if (const auto victim = manager.evict()) {
            peers.at(*victim).control->close({"peer.evicted", {}});
            drop_peer(*victim, {"peer.evicted", {}});
            admitted = {};
        }
    }
    if (!admitted) return admitted;
    Peer& peer = peers[address];
    peer.address = address;
    peer.control = self;
    peer.since_ms = now_ms();
    peer.session.set_stranger(is_stranger(address));
    peer.session.set_member(committee.contains(address));
    peer.answers = std::make_shared<AnswerAccount>(answers, [this, address] {
        const auto given_up = peers.find(address);
        if (given_up == peers.end()) return;
        // The memory at once; the peer not from inside a call that goes over others.
        given_up->second.control->forget_queued();
        if (given_up->second.bulk) given_up->second.bulk->forget_queued();
        post([control = given_up->second.control] { control->abort({"peer.does_not_read", {}, ErrorKind::busy}); });
    });
    if (connection.is_outbound()) peer.dialled = {connection.remote_host(), connection.remote_port()};
    manager.connected(address, connection.remote_host(), connection.is_outbound(), now_ms(), unix_seconds(),
                      {connection.remote_host(), connection.remote_port()});
    set_fixed(peer);
    return send(peer, Type::hello,
                encode(messages::Hello{messages::kProtocolVersion, options.agent, bound_port, own_status}));
}

void Network::Impl::closed(Connection& connection, const Error& reason, transport::Blame blame) {
    const ConnectionPtr self = connection.shared_from_this();
    connections.erase(self);
    pending.remove(self);
    const Bytes20 address = connection.peer().address;
    // Whoever sits on the line to a peer can break a record: the host it came from is watched, the key is not blamed.
    if (blame == transport::Blame::path && !connection.is_outbound())
        limiter.penalize(connection.remote_host(), kBrokenBytesPoints, now_ms());
    if (!connection.was_open()) {
        ++handshakes_failed;
        log::debug(kLog, "handshake failed host={} error={}", connection.remote_host(), reason.to_string());
    } else if (blame == transport::Blame::peer) {
        penalize(address, Offence::protocol, reason.to_string());
    }
    const auto at = peers.find(address);
    if (at != peers.end() && at->second.control == self) {
        drop_peer(address, reason);
    } else if (at != peers.end() && at->second.bulk == self) {
        at->second.bulk.reset();
        at->second.next_bulk_dial_ms = now_ms() + kBulkRedialMs;
    } else if (connection.is_outbound()) {
        // A dial that did not come to a peer; its wanted address is known to the connection alone.
        dial_over(*connection.expected(), connection.kind(), reason.to_string());
    }
    if (stopping && connections.empty()) io.stop();
}

void Network::Impl::drop_peer(const Bytes20& address, const Error& reason) {
    const auto at = peers.find(address);
    if (at == peers.end()) return;
    Peer gone = std::move(at->second);
    peers.erase(at);
    relay.remove_peer(address);
    for (auto& [id, fetch] : fetches) fetch.plan.remove_source(address);
    manager.disconnected(address, now_ms());
    if (gone.bulk) gone.bulk->close(reason);
    for (const auto& done : gone.session.take_all())
        done(fail(stopping ? "network.stopped" : "network.disconnected", reason.to_string()));
    if (!gone.session.has_hello()) return;
    log::info(kLog, "peer left address={} reason=\"{}\" peers={}", to_hex0x(address), reason.to_string(), peers.size());
    handler->peer_disconnected(address, reason);
    if (!stopping) refresh_snapshot();
}

void Network::Impl::penalize(const Bytes20& address, Offence offence, const std::string& detail) {
    const bool leave = manager.penalize(address, offence, now_ms());
    log::debug(kLog, "peer misbehaved address={} offence={} detail=\"{}\" score={}", to_hex0x(address),
               rule_of(offence).name, detail, manager.score(address, now_ms()));
    if (!leave) return;
    log::warning(kLog, "peer refused for a while address={} offence={} detail=\"{}\"", to_hex0x(address),
                 rule_of(offence).name, detail);
    const auto at = peers.find(address);
    if (at == peers.end()) return;
    if (!at->second.control->is_outbound())
        limiter.penalize(at->second.control->remote_host(), kBannedKeyPoints, now_ms());
    // Not from inside a call that still uses the peer.
    const ConnectionPtr control = at->second.control;
    post([this, address, control] {
        const auto now = peers.find(address);
        if (now != peers.end() && now->second.control == control) control->close({"peer.banned", {}});
    });
}

void Network::Impl::set_fixed(Peer& peer) {
    const bool fixed = manager.is_fixed(peer.address);
    peer.control->set_fixed(fixed);
    peer.answers->set_fixed(fixed);
    if (peer.bulk) peer.bulk->set_fixed(fixed);
}

PeerInfo Network::Impl::info_of(const Peer& peer) const {
    PeerInfo info;
    info.address = peer.address;
    info.host = peer.control->remote_host();
    info.port = peer.control->remote_port();
    info.outbound = peer.control->is_outbound();
    info.fixed = manager.is_fixed(peer.address);
    info.has_bulk = peer.bulk != nullptr;
    info.roles = peer.control->peer().roles;
    info.agent = peer.hello.agent;
    info.status = peer.hello.status;
    info.connected_ms = now_ms() - peer.since_ms;
    info.rtt_us = peer.control->rtt_us();
    info.least_rtt_us = peer.control->least_rtt_us();
    if (const auto known = manager.peers().find(peer.address); known != manager.peers().end())
        info.answers = known->second.deliveries;
    info.bytes_in = peer.control->bytes_in() + (peer.bulk ? peer.bulk->bytes_in() : 0);
    info.bytes_out = peer.control->bytes_out() + (peer.bulk ? peer.bulk->bytes_out() : 0);
    info.queued_bytes = peer.control->queue().queued_bytes() + (peer.bulk ? peer.bulk->queue().queued_bytes() : 0);
    info.messages_in = peer.messages_in;
    info.score = manager.score(peer.address, now_ms());
    return info;
}

}  // namespace quern::p2p
