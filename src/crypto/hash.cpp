#include "crypto/hash.h"

#include <cryptopp/keccak.h>
#include <cryptopp/ripemd.h>
#include <openssl/evp.h>

#include <cstdlib>

namespace quern::crypto {
namespace {

// OpenSSL fails here only when memory has run out or the library is broken; there is no way on from either.
void require(bool ok) {
    if (!ok) std::abort();
}

// Fetching an algorithm by name takes a lock and a table walk, so it is done once.
const EVP_MD* sha256_algorithm() {
    static const EVP_MD* const algorithm = [] {
        const EVP_MD* fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
        require(fetched != nullptr);
        return fetched;
    }();
    return algorithm;
}

// Contexts are costly to make next to hashing 64 bytes, so each thread keeps a few that were used.
class ContextPool {
public:
    ~ContextPool() {
        while (count_ != 0) EVP_MD_CTX_free(kept_[--count_]);
    }
    EVP_MD_CTX* take() {
        if (count_ != 0) return kept_[--count_];
        EVP_MD_CTX* context = EVP_MD_CTX_new();
        require(context != nullptr);
        return context;
    }
    void give(EVP_MD_CTX* context) {
        if (count_ < kCapacity)
            kept_[count_++] = context;
        else
            EVP_MD_CTX_free(context);
    }

private:
    static constexpr std::size_t kCapacity = 8;
    std::array<EVP_MD_CTX*, kCapacity> kept_{};
    std::size_t count_ = 0;
};

ContextPool& pool() {
    thread_local ContextPool contexts;
    return contexts;
}

void start(EVP_MD_CTX* context) { require(EVP_DigestInit_ex2(context, sha256_algorithm(), nullptr) == 1); }

}  // namespace

Sha256::Sha256() : context_(pool().take()) { start(context_); }

Sha256::~Sha256() {
    if (context_ != nullptr) pool().give(context_);
}

Sha256& Sha256::operator=(Sha256&& other) noexcept {
    std::swap(context_, other.context_);
    return *this;
}

Sha256& Sha256::update(BytesView more) {
    require(EVP_DigestUpdate(context_, more.data(), more.size()) == 1);
    return *this;
}

Hash32 Sha256::finish() {
    Hash32 result;
    require(EVP_DigestFinal_ex(context_, result.data.data(), nullptr) == 1);
    start(context_);
    return result;
}

Hash32 sha256(BytesView message) { return sha256({message}); }

Hash32 sha256(std::initializer_list<BytesView> parts) {
    EVP_MD_CTX* context = pool().take();
    start(context);
    for (const BytesView part : parts) require(EVP_DigestUpdate(context, part.data(), part.size()) == 1);
    Hash32 result;
    require(EVP_DigestFinal_ex(context, result.data.data(), nullptr) == 1);
    pool().give(context);
    return result;
}

Hash32 hmac_sha256(BytesView key, BytesView message) {
    constexpr std::size_t kBlock = 64;
    std::array<std::uint8_t, kBlock> inner{};
    if (key.size() > kBlock) {
        const Hash32 short_key = sha256(key);
        std::memcpy(inner.data(), short_key.data.data(), Hash32::kSize);
    } else if (!key.empty()) {
        std::memcpy(inner.data(), key.data(), key.size());
    }
    std::array<std::uint8_t, kBlock> outer = inner;
    for (auto& byte : inner) byte ^= 0x36;
    for (auto& byte : outer) byte ^= 0x5c;
    const Hash32 result = sha256({outer, sha256({inner, message})});
    OPENSSL_cleanse(inner.data(), inner.size());
    OPENSSL_cleanse(outer.data(), outer.size());
    return result;
}

Hash32 keccak256(BytesView message) {
    Hash32 result;
    CryptoPP::Keccak_256 hasher;
    hasher.Update(message.data(), message.size());
    hasher.Final(result.data.data());
    return result;
}

Bytes20 ripemd160(BytesView message) {
    Bytes20 result;
    CryptoPP::RIPEMD160 hasher;
    hasher.Update(message.data(), message.size());
    hasher.Final(result.data.data());
    return result;
}

}  // namespace quern::crypto
