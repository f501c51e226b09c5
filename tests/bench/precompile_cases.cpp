// The EVM's built-in contracts in Osaka: what a call takes, and how long it takes for its gas. The reference is what
// ECRECOVER takes for as much gas, which others' prices were set by.
#include "base/big_endian.h"
#include "base/rng.h"
#include "base/uint256.h"
#include "bench/cases.h"
#include "crypto/hash.h"
#include "crypto/signature.h"
#include "vm/evm/precompiles.h"

namespace quern::bench {
namespace {

using vm::evm::Precompile;
using vm::evm::Revision;

struct Call {
    std::string name;
    std::uint64_t address = 0;
    Bytes input;
};

Bytes bytes_of(std::string_view hex) { return must(from_hex(hex), "an input"); }
Bytes joined(std::initializer_list<BytesView> parts) {
    Bytes all;
    for (const BytesView part : parts) append(all, part);
    return all;
}
const Precompile& contract_at(std::uint64_t address) {
    const Hash32 word = Uint256(address).to_be32();
    const Precompile* contract = find_precompile(Bytes20::copy_of(word.view().subspan(12)), Revision::osaka);
    if (contract == nullptr) give_up("no contract at " + std::to_string(address));
    return *contract;
}
Bytes run(std::uint64_t address, BytesView input) {
    Bytes output;
    if (!contract_at(address).run(input, Revision::osaka, output)) give_up("a contract fails");
    return output;
}

Bytes ecrecover_input(SeededRng& rng) {
    const auto key = crypto::PrivateKey::generate(rng);
    const Hash32 digest = crypto::sha256(as_bytes("a message"));
    const auto signature = crypto::sign(digest, key);
    return joined({digest, Uint256(27U + signature.y_parity).to_be32(), signature.r, signature.s});
}

Bytes modexp_input(SeededRng& rng, std::size_t bytes, std::size_t exponent_bytes) {
    Bytes numbers(2 * bytes + exponent_bytes);
    rng.fill(numbers);
    numbers.back() |= 1;
    return joined({Uint256(bytes).to_be32(), Uint256(exponent_bytes).to_be32(), Uint256(bytes).to_be32(), numbers});
}

// Points differ, as those of proofs do: sums and loops of equal ones may be shorter.
std::vector<Call> calls_of_bn254(SeededRng& rng) {
    const auto scalar = [&] {
        Hash32 word;
        rng.fill(word.data);
        return word;
    };
    const Bytes generator = joined({Uint256(1).to_be32(), Uint256(2).to_be32()});
    const auto point = [&] { return run(7, joined({generator, scalar()})); };
    const Bytes g2 = bytes_of(
        "198e9393920d483a7260bfb731fb5d25f1aa493335a9e71297e485b7aef312c21800deef121f1e76426a00665e5c4479674322d4f75eda"
        "dd46debd5cd992f6ed090689d0585ff075ec9e99ad690c3395bc4b313370b38ef355acdadcd122975b12c85ea5db8c6deb4aab71808dcb"
        "408fe3d1e7690c43d37b4ce6cc0166fa7daa");
    const auto pairs = [&](int count) {
        Bytes all;
        for (int i = 0; i < count; ++i) append(all, joined({point(), g2}));
        return all;
    };
    return {{"BN254_ADD", 6, joined({point(), point()})},
            {"BN254_MUL", 7, joined({point(), scalar()})},
            {"BN254_PAIRING, 1 pair", 8, pairs(1)},
            {"BN254_PAIRING, 2 pairs", 8, pairs(2)},
            {"BN254_PAIRING, 16 pairs", 8, pairs(16)}};
}

std::vector<Call> calls_of_bls12_381(SeededRng& rng) {
    const auto element = [&] {
        Bytes fp(64);
        rng.fill(std::span(fp).subspan(17));
        return fp;
    };
    const auto g1 = [&] { return run(0x10, element()); };
    const auto g2 = [&] { return run(0x11, joined({element(), element()})); };
    const auto scalar = [&] {
        Bytes word(32);
        rng.fill(word);
        return word;
    };
    const auto terms = [&](int count, const auto& point) {
        Bytes all;
        for (int i = 0; i < count; ++i) append(all, joined({point(), scalar()}));
        return all;
    };
    const auto pairs = [&](int count) {
        Bytes all;
        for (int i = 0; i < count; ++i) append(all, joined({g1(), g2()}));
        return all;
    };
    return {{"BLS12_G1ADD", 0x0b, joined({g1(), g1()})},
            {"BLS12_G1MSM, 1 term", 0x0c, terms(1, g1)},
            {"BLS12_G1MSM, 2 terms", 0x0c, terms(2, g1)},
            {"BLS12_G1MSM, 128 terms", 0x0c, terms(128, g1)},
            {"BLS12_G2ADD", 0x0d, joined({g2(), g2()})},
            {"BLS12_G2MSM, 1 term", 0x0e, terms(1, g2)},
            {"BLS12_G2MSM, 128 terms", 0x0e, terms(128, g2)},
            {"BLS12_PAIRING, 1 pair", 0x0f, pairs(1)},
            {"BLS12_PAIRING, 16 pairs", 0x0f, pairs(16)},
            {"BLS12_MAP_FP_TO_G1", 0x10, element()},
            {"BLS12_MAP_FP2_TO_G2", 0x11, joined({element(), element()})}};
}

}  // namespace

void bench_precompiles(Bench& bench) {
    SeededRng rng(17);
    Bytes kilobyte(1024);
    rng.fill(kilobyte);
    Bytes rounds(213);
    rng.fill(std::span(rounds).first(212));
    const FixedBytes<8> million = be64(1'000'000);
    std::copy(million.data.begin() + 4, million.data.end(), rounds.begin());
    rounds[212] = 1;

    std::vector<Call> calls = {
        {"ECRECOVER", 1, ecrecover_input(rng)},
        {"SHA256, 1 KiB", 2, kilobyte},
        {"RIPEMD160, 1 KiB", 3, kilobyte},
        {"IDENTITY, 1 KiB", 4, kilobyte},
        {"MODEXP, 32 bytes", 5, modexp_input(rng, 32, 32)},
        {"MODEXP, 256 bytes, exponent 3", 5,
         joined({Uint256(256).to_be32(), Uint256(1).to_be32(), Uint256(256).to_be32(), BytesView(kilobyte).first(256),
                 Uint256(3).to_be_minimal(), BytesView(kilobyte).last(256)})},
        {"MODEXP, 1,024 bytes", 5, modexp_input(rng, 1024, 1024)},
        {"BLAKE2F, 1,000,000 rounds", 9, rounds},
        {"KZG_POINT_EVALUATION", 0x0a,
         bytes_of("01e798154708fe7789429634053cbf9f99b619f9f084048927333fce637f549b564c0a11a0f704f4fc3e8acfe0f8245f0ad1"
                  "347b378fbf96e206da11a5d3630624d25032e67a7e6a4910df5834b8fe70e6bcfeeac0352434196bdf4b2485d5a18f59a8d2"
                  "a1a625a17f3fea0fe5eb8c896db3764f3185481bc22f91b4aaffcca25f26936857bc3a7c2539ea8ec3a952b7873033e03832"
                  "6e87ed3e1276fd140253fa08e9fc25fb2d9a98527fc22a2c9612fbeafdad446cbc7bcdbdcd780af2c16a")},
        {"P256VERIFY", 0x0100,
         bytes_of("b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9434287fa699ff2be2a4475ccd9c063d1a22a"
                  "424b6ab357d9bb0b31f7a71307b9be6af716032d408183c53f6f76945363144555fad2a5ff7854159166e52fc1d0da3c553a"
                  "4215893e6d95d5818df2519e13233a1e0e56e0ea7b4817a92a6973f9d8c8877a49383e20c3fdc21d4e8e280ef1feeb72c333"
                  "036770369a4387168d33")}};
    for (auto& call : calls_of_bn254(rng)) calls.push_back(std::move(call));
    for (auto& call : calls_of_bls12_381(rng)) calls.push_back(std::move(call));

    std::vector<std::function<void()>> functions;
    for (const Call& call : calls)
        functions.emplace_back([&call, output = Bytes()]() mutable {
            if (!contract_at(call.address).run(call.input, Revision::osaka, output)) give_up(call.name + " fails");
            keep(output);
        });
    const auto timings = bench.time(functions);
    const auto gas_of = [](const Call& call) {
        return static_cast<double>(contract_at(call.address).gas(call.input, Revision::osaka));
    };
    const double reference_gas = gas_of(calls[0]);
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const double gas = gas_of(calls[i]);
        bench.add_time(calls[i].name, timings[i], 1, "ECRECOVER for as much gas", &timings[0], reference_gas / gas,
                       text_of("%.0f gas", gas) + text_of(", %.2f ns each", timings[i].median * 1e9 / gas));
    }
}

}  // namespace quern::bench
