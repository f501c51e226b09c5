#include "vm/evm/precompiles.h"

#include <array>

#include "vm/evm/precompile_functions.h"

namespace quern::vm::evm {
namespace {

struct Entry {
    std::uint16_t address;
    Revision since;
    Precompile contract;
};

// Ascending by address, and no fork adds one below those of an earlier fork: what a fork has is a head of this table.
constexpr Entry kTable[] = {
    {0x01, Revision::frontier, {"ECRECOVER", gas_ecrecover, run_ecrecover}},
    {0x02, Revision::frontier, {"SHA256", gas_sha256, run_sha256}},
    {0x03, Revision::frontier, {"RIPEMD160", gas_ripemd160, run_ripemd160}},
    {0x04, Revision::frontier, {"IDENTITY", gas_identity, run_identity}},
    {0x05, Revision::byzantium, {"MODEXP", gas_modexp, run_modexp}},                                      // EIP-198
    {0x06, Revision::byzantium, {"BN254_ADD", gas_bn254_add, run_bn254_add}},                             // EIP-196
    {0x07, Revision::byzantium, {"BN254_MUL", gas_bn254_mul, run_bn254_mul}},                             //
    {0x08, Revision::byzantium, {"BN254_PAIRING", gas_bn254_pairing, run_bn254_pairing}},                 // EIP-197
    {0x09, Revision::istanbul, {"BLAKE2F", gas_blake2f, run_blake2f}},                                    // EIP-152
    {0x0a, Revision::cancun, {"KZG_POINT_EVALUATION", gas_point_evaluation, run_point_evaluation}},       // EIP-4844
    {0x0b, Revision::prague, {"BLS12_G1ADD", gas_bls12_g1add, run_bls12_g1add}},                          // EIP-2537
    {0x0c, Revision::prague, {"BLS12_G1MSM", gas_bls12_g1msm, run_bls12_g1msm}},                          //
    {0x0d, Revision::prague, {"BLS12_G2ADD", gas_bls12_g2add, run_bls12_g2add}},                          //
    {0x0e, Revision::prague, {"BLS12_G2MSM", gas_bls12_g2msm, run_bls12_g2msm}},                          //
    {0x0f, Revision::prague, {"BLS12_PAIRING", gas_bls12_pairing, run_bls12_pairing}},                    //
    {0x10, Revision::prague, {"BLS12_MAP_FP_TO_G1", gas_bls12_map_fp_to_g1, run_bls12_map_fp_to_g1}},     //
    {0x11, Revision::prague, {"BLS12_MAP_FP2_TO_G2", gas_bls12_map_fp2_to_g2, run_bls12_map_fp2_to_g2}},  //
    {0x0100, Revision::osaka, {"P256VERIFY", gas_p256verify, run_p256verify}},                            // EIP-7951
};
constexpr std::size_t kEntries = std::size(kTable);

constexpr bool is_sorted_by_address_and_fork() {
    for (std::size_t i = 1; i < kEntries; ++i)
        if (kTable[i - 1].address >= kTable[i].address || kTable[i - 1].since > kTable[i].since) return false;
    return true;
}
static_assert(is_sorted_by_address_and_fork());

constexpr std::array<Bytes20, kEntries> kAddresses = [] {
    std::array<Bytes20, kEntries> addresses;
    for (std::size_t i = 0; i < kEntries; ++i) {
        addresses[i].data[18] = static_cast<std::uint8_t>(kTable[i].address >> 8);
        addresses[i].data[19] = static_cast<std::uint8_t>(kTable[i].address);
    }
    return addresses;
}();

constexpr std::array<std::size_t, kRevisions> kEntriesOf = [] {
    std::array<std::size_t, kRevisions> counts{};
    for (std::size_t revision = 0; revision < kRevisions; ++revision)
        for (const Entry& entry : kTable)
            if (static_cast<std::size_t>(entry.since) <= revision) ++counts[revision];
    return counts;
}();

// Each call of any account asks: most are told no by these bytes, the others find their row in a table.
constexpr std::size_t kHighestAddress = kTable[kEntries - 1].address;
constexpr std::array<std::uint8_t, kHighestAddress + 1> kRowOf = [] {
    std::array<std::uint8_t, kHighestAddress + 1> rows{};  // one more than the row; 0: none
    for (std::size_t i = 0; i < kEntries; ++i) rows[kTable[i].address] = static_cast<std::uint8_t>(i + 1);
    return rows;
}();

}  // namespace

const Precompile* find_precompile(const Bytes20& address, Revision revision) {
    for (std::size_t i = 0; i < 18; ++i)
        if (address.data[i] != 0) return nullptr;
    const std::size_t number = std::size_t{address.data[18]} << 8 | address.data[19];
    if (number > kHighestAddress) return nullptr;
    const std::size_t row = kRowOf[number];
    if (row == 0 || kTable[row - 1].since > revision) return nullptr;
    return &kTable[row - 1].contract;
}

std::span<const Bytes20> precompile_addresses(Revision revision) {
    return std::span(kAddresses).first(kEntriesOf[static_cast<std::size_t>(revision)]);
}

}  // namespace quern::vm::evm
