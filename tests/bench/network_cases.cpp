// The encrypted transport in memory: handshakes and records, against OpenSSL's TLS 1.3 and the bare cipher.
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/rng.h"
#include "bench/cases.h"
#include "p2p/transport/frames.h"
#include "p2p/transport/handshake_flow.h"

namespace quern::bench {
namespace {

namespace transport = p2p::transport;

constexpr std::uint64_t kChain = 7878;
constexpr std::uint64_t kNow = 1'700'000'000;
constexpr std::size_t kTransfer = 1U << 20;

template <class T, void (*Free)(T*)>
struct Freer {
    void operator()(T* value) const { Free(value); }
};
using SslContext = std::unique_ptr<SSL_CTX, Freer<SSL_CTX, SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Freer<SSL, SSL_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509, X509_free>>;
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, Freer<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>>;

void need(bool condition, const char* what) {
    if (!condition) give_up(std::string("OpenSSL: ") + what);
}

// --- Ours ------------------------------------------------------------------------------------------------------------
struct NoCookies final : transport::CookieGuard {
    Challenge challenge(const std::string&, BytesView) override { return {}; }
    bool cookie_fits(const std::string&, BytesView, BytesView) override { return false; }
};

transport::Identity identity_of(Rng& rng) {
    const auto chain_key = crypto::PrivateKey::generate(rng);
    transport::Identity identity{
        transport::KeyPair::generate(rng), {}, crypto::address20(chain_key), kChain, Bytes(34, 1)};
    transport::NetCert certificate{kChain, identity.static_key.public_key(), 2, kNow + 1'000, {}};
    transport::sign(certificate, chain_key);
    identity.net_cert = transport::encode(certificate);
    return identity;
}

Bytes take_all(transport::HandshakeFlow& flow, BytesView bytes) {
    Bytes out;
    while (!bytes.empty()) {
        const std::size_t wanted = std::min(flow.wanted(), bytes.size());
        append(out, must(flow.take(bytes.first(wanted), kNow), "handshake"));
        bytes = bytes.subspan(wanted);
    }
    return out;
}

struct Pair {
    transport::Identity alice;
    transport::Identity bob;
    Rng& rng;
    NoCookies guard;

    transport::SessionKeys shake(transport::NetCertCache& cache) {
        transport::HandshakeFlow initiator({alice, cache, rng, guard}, transport::ConnectionKind::control, bob.address);
        transport::HandshakeFlow responder({bob, cache, rng, guard}, "192.0.2.1");
        const Bytes first = must(initiator.start(), "handshake");
        const Bytes second = take_all(responder, first);
        const Bytes third = take_all(initiator, second);
        keep(take_all(responder, third));
        if (!responder.is_done()) give_up("the handshake does not end");
        keep(must(responder.split(), "keys"));
        return must(initiator.split(), "keys");
    }
};

// --- TLS 1.3 ---------------------------------------------------------------------------------------------------------
struct TlsIdentity {
    Key key;
    Certificate certificate;
};

TlsIdentity tls_identity() {
    TlsIdentity identity{Key(EVP_EC_gen("P-256")), Certificate(X509_new())};
    X509* certificate = identity.certificate.get();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86'400);
    X509_set_pubkey(certificate, identity.key.get());
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("node"), -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    need(X509_sign(certificate, identity.key.get(), EVP_sha256()) > 0, "certificate");
    return identity;
}

// Both sides show a certificate and check the other's against the one that they expect.
SslContext tls_context(const TlsIdentity& own, const TlsIdentity& peer, bool server) {
    SslContext context(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
    SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
    need(SSL_CTX_set_ciphersuites(context.get(), "TLS_CHACHA20_POLY1305_SHA256") == 1, "suite");
    need(SSL_CTX_set1_groups_list(context.get(), "X25519") == 1, "group");
    need(SSL_CTX_use_certificate(context.get(), own.certificate.get()) == 1, "certificate");
    need(SSL_CTX_use_PrivateKey(context.get(), own.key.get()) == 1, "key");
    need(X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), peer.certificate.get()) == 1, "store");
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context.get(), 0);
    return context;
}

struct TlsPair {
    SslContext client_context;
    SslContext server_context;
    Ssl client;
    Ssl server;

    TlsPair() {
        const TlsIdentity alice = tls_identity();
        const TlsIdentity bob = tls_identity();
        client_context = tls_context(alice, bob, false);
        server_context = tls_context(bob, alice, true);
    }
    void shake() {
        client.reset(SSL_new(client_context.get()));
        server.reset(SSL_new(server_context.get()));
        BIO* left = nullptr;
        BIO* right = nullptr;
        need(BIO_new_bio_pair(&left, 2 * kTransfer, &right, 2 * kTransfer) == 1, "pair");
        SSL_set_bio(client.get(), left, left);
        SSL_set_bio(server.get(), right, right);
        SSL_set_connect_state(client.get());
        SSL_set_accept_state(server.get());
        for (int round = 0; round < 10; ++round) {
            const bool one = SSL_do_handshake(client.get()) == 1;
            const bool two = SSL_do_handshake(server.get()) == 1;
            if (one && two) return;
        }
        give_up("TLS handshake does not end");
    }
    void transfer(const Bytes& data, Bytes& into) const {
        std::size_t written = 0;
        need(SSL_write_ex(client.get(), data.data(), data.size(), &written) == 1 && written == data.size(), "write");
        std::size_t got = 0;
        while (got < data.size()) {
            std::size_t count = 0;
            need(SSL_read_ex(server.get(), into.data() + got, into.size() - got, &count) == 1, "read");
            got += count;
        }
    }
};

// --- Records ---------------------------------------------------------------------------------------------------------
struct Channel {
    transport::FrameWriter writer;
    transport::FrameReader reader;
    Bytes wire;

    Channel(const Hash32& key, std::size_t record) : writer(key, record), reader(key, record) {}
    void transfer(const Bytes& data, std::size_t record) {
        const std::size_t most = transport::max_payload(record);
        std::size_t got = 0;
        for (std::size_t at = 0; at < data.size(); at += most) {
            const BytesView piece = BytesView(data).subspan(at, std::min(most, data.size() - at));
            wire.clear();
            writer.write({0x33, at + piece.size() < data.size(), 1, piece}, wire);
            BytesView rest = wire;
            while (!rest.empty()) {
                const auto space = reader.free_space();
                const std::size_t count = std::min(space.size(), rest.size());
                std::copy_n(rest.begin(), count, space.begin());
                reader.received(count);
                rest = rest.subspan(count);
                const auto frame = must(reader.next(), "record");
                if (frame) got += frame->payload.size();
            }
        }
        if (got != data.size()) give_up("records got lost");
    }
};

// Sealing and opening the same bytes with nothing around.
struct BareCipher {
    CipherContext seal{EVP_CIPHER_CTX_new()};
    CipherContext open{EVP_CIPHER_CTX_new()};
    Bytes sealed = Bytes(64U << 10);
    Bytes opened = Bytes(64U << 10);
    std::uint64_t counter = 0;

    BareCipher() {
        const Hash32 key{{1}};
        need(EVP_EncryptInit_ex(seal.get(), EVP_chacha20_poly1305(), nullptr, key.data.data(), nullptr) == 1, "cipher");
        need(EVP_DecryptInit_ex(open.get(), EVP_chacha20_poly1305(), nullptr, key.data.data(), nullptr) == 1, "cipher");
    }
    void transfer(const Bytes& data, std::size_t record) {
        for (std::size_t at = 0; at < data.size(); at += record) {
            const std::size_t size = std::min(record, data.size() - at);
            std::array<std::uint8_t, 12> nonce{};
            std::memcpy(nonce.data(), &++counter, sizeof counter);
            std::array<std::uint8_t, 16> tag{};
            int count = 0;
            int last = 0;
            EVP_EncryptInit_ex(seal.get(), nullptr, nullptr, nullptr, nonce.data());
            EVP_EncryptUpdate(seal.get(), sealed.data(), &count, data.data() + at, static_cast<int>(size));
            EVP_EncryptFinal_ex(seal.get(), sealed.data() + count, &last);
            EVP_CIPHER_CTX_ctrl(seal.get(), EVP_CTRL_AEAD_GET_TAG, 16, tag.data());
            EVP_DecryptInit_ex(open.get(), nullptr, nullptr, nullptr, nonce.data());
            EVP_DecryptUpdate(open.get(), opened.data(), &count, sealed.data(), static_cast<int>(size));
            EVP_CIPHER_CTX_ctrl(open.get(), EVP_CTRL_AEAD_SET_TAG, 16, tag.data());
            need(EVP_DecryptFinal_ex(open.get(), opened.data() + count, &last) == 1, "tag");
        }
    }
};

std::string gigabits(const Timing& timing) {
    return text_of("%.1f Gbit/s", static_cast<double>(kTransfer) * 8 / timing.median / 1e9);
}

}  // namespace

void bench_handshake(Bench& bench) {
    SeededRng rng(12);
    Pair pair{identity_of(rng), identity_of(rng), rng, {}};
    transport::NetCertCache known;
    TlsPair tls;
    const auto timings = bench.time({[&] {
                                         transport::NetCertCache nobody_known;
                                         keep(pair.shake(nobody_known));
                                     },
                                     [&] { keep(pair.shake(known)); }, [&] { tls.shake(); }});
    const char* reference = "OpenSSL, mutual TLS 1.3 (X25519, P-256)";
    bench.add_time("handshake, CPU a side, strangers", timings[0], 2, reference, &timings[2], 2);
    bench.add_time("handshake, CPU a side, peers known from before", timings[1], 2, reference, &timings[2], 2);
}

void bench_channel(Bench& bench) {
    SeededRng rng(13);
    Bytes data(kTransfer);
    rng.fill(data);
    Bytes into(kTransfer);
    Channel bulk(Hash32{{2}}, transport::kMaxBulkRecord);
    Channel control(Hash32{{3}}, transport::kMaxControlRecord);
    BareCipher bare;
    TlsPair tls;
    tls.shake();
    const auto timings = bench.time({[&] { bulk.transfer(data, transport::kMaxBulkRecord); },
                                     [&] { control.transfer(data, transport::kMaxControlRecord); },
                                     [&] { bare.transfer(data, 64U << 10); }, [&] { bare.transfer(data, 16U << 10); },
                                     [&] { tls.transfer(data, into); }});
    const auto row = [&](const char* name, std::size_t which, const char* reference, std::size_t to) {
        bench.add_time(name, timings[which], 1, reference, &timings[to], 1, gigabits(timings[which]));
    };
    row("1 MiB sealed and opened, 64 KiB records", 0, "OpenSSL EVP, the same cipher alone", 2);
    row("1 MiB sealed and opened, 16 KiB records", 1, "OpenSSL EVP, the same cipher alone", 3);
    row("1 MiB sealed and opened, 64 KiB records", 0, "OpenSSL TLS 1.3, same cipher, in memory", 4);
    row("1 MiB sealed and opened, 16 KiB records", 1, "OpenSSL TLS 1.3, same cipher, in memory", 4);
}

}  // namespace quern::bench
