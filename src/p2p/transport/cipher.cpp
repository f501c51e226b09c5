#include "p2p/transport/cipher.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstdlib>

namespace quern::p2p::transport {
namespace {

void require(bool ok) {
    if (!ok) std::abort();
}

}  // namespace

crypto::AeadNonce noise_nonce(std::uint64_t counter) {
    crypto::AeadNonce nonce;
    for (std::size_t i = 0; i < 8; ++i) nonce.data[4 + i] = static_cast<std::uint8_t>(counter >> (8 * i));
    return nonce;
}

void CipherState::FreeContext::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

CipherState::CipherState(Direction direction, const Hash32& key)
    : context_(EVP_CIPHER_CTX_new()), direction_(direction), key_(key) {
    require(context_ != nullptr);
    load_key();
}
CipherState::~CipherState() { OPENSSL_cleanse(key_.data.data(), key_.data.size()); }
CipherState::CipherState(CipherState&&) noexcept = default;
CipherState& CipherState::operator=(CipherState&&) noexcept = default;

void CipherState::load_key() {
    require(EVP_CipherInit_ex2(context_.get(), EVP_chacha20_poly1305(), key_.data.data(), nullptr,
                               direction_ == Direction::seal ? 1 : 0, nullptr) == 1);
}

void CipherState::start_record(BytesView associated) {
    const crypto::AeadNonce nonce = noise_nonce(counter_++);
    require(EVP_CipherInit_ex2(context_.get(), nullptr, nullptr, nonce.data.data(), -1, nullptr) == 1);
    int written = 0;
    require(EVP_CipherUpdate(context_.get(), nullptr, &written, associated.data(),
                             static_cast<int>(associated.size())) == 1);
}

void CipherState::seal(BytesView associated, BytesView plain, Bytes& out) {
    start_record(associated);
    const std::size_t at = out.size();
    out.resize(at + plain.size() + crypto::kAeadTagSize);
    int written = 0;
    require(EVP_CipherUpdate(context_.get(), out.data() + at, &written, plain.data(), static_cast<int>(plain.size())) ==
            1);
    require(EVP_CipherFinal_ex(context_.get(), out.data() + at + plain.size(), &written) == 1);
    require(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, crypto::kAeadTagSize,
                                out.data() + at + plain.size()) == 1);
}

Expected<std::span<std::uint8_t>> CipherState::open(BytesView associated, std::span<std::uint8_t> sealed) {
    if (sealed.size() < crypto::kAeadTagSize) return fail("cipher.too_short");
    const auto body = sealed.first(sealed.size() - crypto::kAeadTagSize);
    start_record(associated);
    int written = 0;
    require(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, crypto::kAeadTagSize,
                                sealed.data() + body.size()) == 1);
    if (EVP_CipherUpdate(context_.get(), body.data(), &written, body.data(), static_cast<int>(body.size())) != 1)
        return fail("cipher.forged");
    std::uint8_t rest[16];
    if (EVP_CipherFinal_ex(context_.get(), rest, &written) != 1) return fail("cipher.forged");
    return body;
}

void CipherState::rekey() {
    const Hash32 zeros;
    Bytes sealed = crypto::aead_seal(key_, noise_nonce(~std::uint64_t{0}), {}, zeros);
    key_ = Hash32::copy_of(BytesView(sealed).first(32));
    OPENSSL_cleanse(sealed.data(), sealed.size());
    load_key();
}

}  // namespace quern::p2p::transport
