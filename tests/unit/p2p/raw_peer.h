// A client that speaks the transport by hand over a blocking socket, so that tests can break any of its rules.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <optional>

#include "base/mutex.h"
#include "p2p/messages/messages.h"
#include "p2p/transport/frames.h"
#include "p2p/transport/net_cert.h"
#include "p2p/transport/noise.h"

namespace quern::p2p::testing {

class RawPeer {
public:
    // `from`: the loopback address that it dials from, e.g. 127.5.6.7.
    explicit RawPeer(std::uint16_t port, const char* from = nullptr)
        : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        if (from != nullptr) {
            sockaddr_in mine{};
            mine.sin_family = AF_INET;
            ::inet_pton(AF_INET, from, &mine.sin_addr);
            (void)::bind(socket_, reinterpret_cast<const sockaddr*>(&mine), sizeof mine);
        }
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
        const timeval limit{10, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    }
    RawPeer(const RawPeer&) = delete;
    RawPeer& operator=(const RawPeer&) = delete;
    ~RawPeer() { ::close(socket_); }
    // Ends what another thread waits for here.
    void shut_down() const { ::shutdown(socket_, SHUT_RDWR); }

    [[nodiscard]] bool connected() const { return connected_; }
    bool send(BytesView bytes) const {
        while (!bytes.empty()) {
            const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        }
        return true;
    }
    std::optional<Bytes> receive(std::size_t size) const {
        Bytes bytes(size);
        for (std::size_t done = 0; done < size;) {
            const ssize_t got = ::recv(socket_, bytes.data() + done, size - done, 0);
            if (got <= 0) return std::nullopt;
            done += static_cast<std::size_t>(got);
        }
        return bytes;
    }
    // Reads on until the other side closes; false after the socket's time limit.
    [[nodiscard]] bool closed_by_peer() const {
        std::uint8_t buffer[4096];
        while (true) {
            const ssize_t got = ::recv(socket_, buffer, sizeof buffer, 0);
            if (got == 0) return true;
            if (got < 0) return errno == ECONNRESET;
        }
    }
    static Bytes handshake_record(std::uint8_t kind, BytesView body) {
        Bytes record;
        record.reserve(3 + body.size());
        record.push_back(kind);
        record.push_back(static_cast<std::uint8_t>(body.size() >> 8));
        record.push_back(static_cast<std::uint8_t>(body.size()));
        for (const auto byte : body) record.push_back(byte);
        return record;
    }

    // A whole, correct handshake as this chain key, for a control connection or (2) for bulk.
    bool shake_hands(const crypto::PrivateKey& key, std::uint64_t chain_id, const Hash32& genesis,
                     std::uint8_t purpose = 1) {
        OsRng rng;
        const auto static_key = transport::KeyPair::generate(rng);
        transport::NetCert certificate{chain_id, static_key.public_key(), 2, 4'000'000'000, {}};
        transport::sign(certificate, key);
        Bytes prologue = to_bytes(genesis);
        prologue.push_back(static_cast<std::uint8_t>(messages::kProtocolVersion >> 8));
        prologue.push_back(static_cast<std::uint8_t>(messages::kProtocolVersion));
        transport::Handshake handshake(transport::Handshake::Role::initiator, prologue, static_key,
                                       transport::KeyPair::generate(rng));
        if (!send(handshake_record(1, *handshake.write({})))) return false;
        const auto header = receive(3);
        if (!header || (*header)[0] != 2) return false;
        const auto second = receive(std::size_t{(*header)[1]} << 8 | (*header)[2]);
        if (!second || !handshake.read(*second)) return false;
        Bytes payload = transport::encode(certificate);
        payload.push_back(purpose);
        if (!send(handshake_record(3, *handshake.write(payload)))) return false;
        const auto keys = handshake.split();
        if (!keys) return false;
        writer.emplace(keys->send, transport::kMaxControlRecord);
        reader.emplace(keys->receive, transport::kMaxControlRecord);
        return true;
    }
    // The next record from the node; nullopt when the connection ends or the socket's time limit passes.
    struct Record {
        std::uint8_t type = 0;
        bool more = false;
        std::uint32_t stream = 0;
        Bytes payload;
    };
    std::optional<Record> next_record() {
        while (true) {
            const auto frame = reader->next();
            if (!frame) return std::nullopt;
            if (*frame) return Record{(*frame)->type, (*frame)->more, (*frame)->stream, to_bytes((*frame)->payload)};
            const auto space = reader->free_space();
            const ssize_t got = ::recv(socket_, space.data(), space.size(), 0);
            if (got <= 0) return std::nullopt;
            reader->received(static_cast<std::size_t>(got));
        }
    }
    // The next message of this type that fits one record.
    std::optional<Record> next_message(messages::Type type) {
        while (auto record = next_record())
            if (record->type == static_cast<std::uint8_t>(type)) return record;
        return std::nullopt;
    }
    // `bytes` of a message whose end does not come; false when the node has closed.
    bool say_unfinished(messages::Type type, std::size_t bytes, std::uint32_t stream = 1) {
        const Bytes part(transport::max_payload(transport::kMaxControlRecord), 7);
        for (std::size_t sent = 0; sent < bytes; sent += part.size())
            if (!send_record(static_cast<std::uint8_t>(type), part, true, stream)) return false;
        return true;
    }
    [[nodiscard]] Bytes record(std::uint8_t type, BytesView payload, bool more = false, std::uint32_t stream = 1) {
        Bytes out;
        writer->write({type, more, stream, payload}, out);
        return out;
    }
    // Records reach the socket in the order in which they were sealed, whichever threads say them.
    bool send_record(std::uint8_t type, BytesView payload, bool more = false, std::uint32_t stream = 1) {
        const MutexLock lock(sending_);
        return send(record(type, payload, more, stream));
    }
    bool say(messages::Type type, BytesView body, std::uint32_t stream = 1) {
        return send_record(static_cast<std::uint8_t>(type), body, false, stream);
    }
    bool say_hello() { return say(messages::Type::hello, encode(messages::Hello{})); }

    std::optional<transport::FrameWriter> writer;
    std::optional<transport::FrameReader> reader;

private:
    int socket_;
    bool connected_ = false;
    Mutex sending_;
};

}  // namespace quern::p2p::testing
