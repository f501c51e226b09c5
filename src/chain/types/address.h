// Account addresses: the last 20 bytes of keccak256 of the public key. Reserved addresses of native groups.
#pragma once

#include "base/bytes.h"
#include "crypto/signature.h"

namespace quern::chain::types {

using Address = Bytes20;

[[nodiscard]] Address address_of(const crypto::PublicKey& key);
// EIP-55 mixed-case checksum, with 0x.
[[nodiscard]] std::string to_checksum_address(const Address& address);
// 40 hex digits, with or without 0x; mixed case must have a valid EIP-55 checksum.
// Errors: address.bad_hex, address.bad_length, address.bad_checksum.
[[nodiscard]] Expected<Address> parse_address(std::string_view text);

}  // namespace quern::chain::types
