// Hash functions: SHA-256 (commitments, Merkle trees, content ids), HMAC-SHA-256, Keccak-256 (everything that Ethereum
// hashes), and RIPEMD-160 (a contract of the EVM alone). SHA-256 goes through OpenSSL, which uses the CPU's SHA
// instructions. Functions are thread-safe; a Sha256 object belongs to one thread at a time.
#pragma once

#include <initializer_list>

#include "base/bytes.h"

struct evp_md_ctx_st;

namespace quern::crypto {

[[nodiscard]] Hash32 sha256(BytesView message);
// The hash of the parts' concatenation.
[[nodiscard]] Hash32 sha256(std::initializer_list<BytesView> parts);

// Incremental SHA-256. After finish() the object is ready for a new message.
class Sha256 {
public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&& other) noexcept : context_(other.context_) { other.context_ = nullptr; }
    Sha256& operator=(Sha256&& other) noexcept;
    Sha256(const Sha256&) = delete;
    Sha256& operator=(const Sha256&) = delete;

    Sha256& update(BytesView more);
    [[nodiscard]] Hash32 finish();

private:
    evp_md_ctx_st* context_;
};

// RFC 2104 with SHA-256.
[[nodiscard]] Hash32 hmac_sha256(BytesView key, BytesView message);

// Keccak-256 with the original padding (Yellow Paper's KEC), not SHA3-256.
[[nodiscard]] Hash32 keccak256(BytesView message);

// Through Crypto++: OpenSSL 3 has it in a provider that not each installation loads.
[[nodiscard]] Bytes20 ripemd160(BytesView message);

}  // namespace quern::crypto
