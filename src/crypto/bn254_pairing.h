// The optimal ate pairing of BN254 (Vercauteren, 2008), as a product over pairs of points that is compared with one:
// what EIP-197 asks. Pairs go through the loop a few at a time, so that memory is the same however many there are. Used
// by vm/evm. A product belongs to one thread.
#pragma once

#include "crypto/bn254.h"
#include "crypto/bn254_tower.h"

namespace quern::crypto::bn254 {

class PairingProduct {
public:
    // Both points are their group's, as decode_g1 and decode_g2 give them. A pair with infinity in it is one.
    void multiply(const G1& p, const G2& q);
    [[nodiscard]] bool is_one();

private:
    // Pairs that go through a loop at once share its squarings; of more than eight there is little left to share.
    static constexpr std::size_t kAtOnce = 8;
    void flush();
    Fp12 product_ = Fp12::one();  // before the final exponentiation
    std::array<G1, kAtOnce> ps_;
    std::array<G2, kAtOnce> qs_;
    std::size_t pending_ = 0;
};

// e(P, Q)^s with s = 2 x (6 x^2 + 3 x + 1), which has no factor in common with the order: for tests.
[[nodiscard]] Fp12 pairing(const G1& p, const G2& q);

}  // namespace quern::crypto::bn254
