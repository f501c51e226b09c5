#include "crypto/aead.h"

#include <openssl/evp.h>

#include <cstdlib>
#include <limits>
#include <memory>

namespace quern::crypto {
namespace {

struct FreeCipherContext {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, FreeCipherContext>;

void require(bool ok) {
    if (!ok) std::abort();
}

CipherContext start(bool encrypt, const Hash32& key, const AeadNonce& nonce, BytesView associated) {
    CipherContext context(EVP_CIPHER_CTX_new());
    require(context != nullptr);
    require(EVP_CipherInit_ex2(context.get(), EVP_chacha20_poly1305(), key.data.data(), nonce.data.data(),
                               encrypt ? 1 : 0, nullptr) == 1);
    int written = 0;
    if (!associated.empty())
        require(EVP_CipherUpdate(context.get(), nullptr, &written, associated.data(),
                                 static_cast<int>(associated.size())) == 1);
    return context;
}

// OpenSSL counts in int.
constexpr std::size_t kMaxUpdate = static_cast<std::size_t>(std::numeric_limits<int>::max());

}  // namespace

Bytes aead_seal(const Hash32& key, const AeadNonce& nonce, BytesView associated, BytesView plain) {
    require(plain.size() <= kMaxUpdate && associated.size() <= kMaxUpdate);
    const CipherContext context = start(true, key, nonce, associated);
    Bytes sealed(plain.size() + kAeadTagSize);
    int written = 0;
    if (!plain.empty())
        require(EVP_CipherUpdate(context.get(), sealed.data(), &written, plain.data(),
                                 static_cast<int>(plain.size())) == 1);
    require(EVP_CipherFinal_ex(context.get(), sealed.data() + written, &written) == 1);
    require(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kAeadTagSize, sealed.data() + plain.size()) == 1);
    return sealed;
}

Expected<Bytes> aead_open(const Hash32& key, const AeadNonce& nonce, BytesView associated, BytesView sealed) {
    if (sealed.size() < kAeadTagSize) return fail("aead.too_short");
    if (sealed.size() > kMaxUpdate || associated.size() > kMaxUpdate) return fail("aead.forged", "too long");
    const BytesView cipher = sealed.first(sealed.size() - kAeadTagSize);
    Bytes tag = to_bytes(sealed.last(kAeadTagSize));
    const CipherContext context = start(false, key, nonce, associated);
    Bytes plain(cipher.size());
    int written = 0;
    if (!cipher.empty() &&
        EVP_CipherUpdate(context.get(), plain.data(), &written, cipher.data(), static_cast<int>(cipher.size())) != 1)
        return fail("aead.forged");
    require(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kAeadTagSize, tag.data()) == 1);
    std::uint8_t rest[16];
    if (EVP_CipherFinal_ex(context.get(), rest, &written) != 1) return fail("aead.forged");
    return plain;
}

}  // namespace quern::crypto
