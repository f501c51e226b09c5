// What all contracts have in common, and those of signatures, hashes and powers.
#include "vm/evm/precompiles.h"

#include <gtest/gtest.h>

#include "unit/vm/evm/precompile_calls.h"

namespace quern::vm::evm {
namespace {

std::vector<std::uint64_t> numbers_of(Revision revision) {
    std::vector<std::uint64_t> numbers;
    for (const Bytes20& address : precompile_addresses(revision))
        numbers.push_back(Uint256::from_be(address).low_u64());
    return numbers;
}

TEST(Precompiles, each_fork_has_its_own) {
    using Numbers = std::vector<std::uint64_t>;
    const auto up_to = [](std::uint64_t last) {
        Numbers numbers;
        for (std::uint64_t number = 1; number <= last; ++number) numbers.push_back(number);
        return numbers;
    };
    EXPECT_EQ(numbers_of(Revision::frontier), up_to(4));
    EXPECT_EQ(numbers_of(Revision::spurious_dragon), up_to(4));
    EXPECT_EQ(numbers_of(Revision::byzantium), up_to(8));
    EXPECT_EQ(numbers_of(Revision::petersburg), up_to(8));
    EXPECT_EQ(numbers_of(Revision::istanbul), up_to(9));
    EXPECT_EQ(numbers_of(Revision::shanghai), up_to(9));
    EXPECT_EQ(numbers_of(Revision::cancun), up_to(10));
    EXPECT_EQ(numbers_of(Revision::prague), up_to(17));
    Numbers osaka = up_to(17);
    osaka.push_back(0x100);
    EXPECT_EQ(numbers_of(Revision::osaka), osaka);
    for (std::size_t revision = 0; revision < kRevisions; ++revision) {
        const auto numbers = numbers_of(static_cast<Revision>(revision));
        for (std::uint64_t number = 0; number < 0x400; ++number)
            EXPECT_EQ(find_precompile(address_of(number), static_cast<Revision>(revision)) != nullptr,
                      std::find(numbers.begin(), numbers.end(), number) != numbers.end())
                << number << " in fork " << revision;
    }
}

TEST(Precompiles, an_address_counts_whole) {
    for (std::size_t at = 0; at < 18; ++at) {
        Bytes20 address = address_of(1);
        address.data[at] = 1;
        EXPECT_EQ(find_precompile(address, Revision::osaka), nullptr) << at;
    }
    EXPECT_EQ(find_precompile(address_of(0x0101), Revision::osaka), nullptr);
    EXPECT_EQ(find_precompile(address_of(0xffff), Revision::osaka), nullptr);
    EXPECT_EQ(find_precompile(address_of(1), Revision::osaka)->name, "ECRECOVER");
    EXPECT_EQ(find_precompile(address_of(0x100), Revision::osaka)->name, "P256VERIFY");
}

TEST(Precompiles, ecrecover_gives_the_signer_or_nothing) {
    const std::string digest = "456e9aea5e197a1f1af7a3e85a3212fa4049a3ba34c2289b4c860fc0b0c64ef3";
    const std::string v = std::string(62, '0') + "1c";
    const std::string r = "9242685bf161793cc25603c231bc2f568eb630ea16aa137d2664ac8038825608";
    const std::string s = "4f8ae3bd7535248d0bd448298cc2e2071e56992d0774dc340c368ae950852ada";
    const std::string signer = std::string(24, '0') + "7156526fbd7a3c72969b54f64e42c10fbb768c8a";
    EXPECT_EQ(call(1, digest + v + r + s), signer);
    EXPECT_EQ(call(1, digest + v + r + s + "ff"), signer);
    EXPECT_EQ(gas(1, ""), 3000);
    const std::string zero(64, '0');
    const std::string order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    EXPECT_NE(call(1, digest + std::string(62, '0') + "1b" + r + s), signer);
    EXPECT_EQ(call(1, digest + std::string(62, '0') + "1a" + r + s), "");
    EXPECT_EQ(call(1, digest + std::string(62, '0') + "1d" + r + s), "");
    EXPECT_EQ(call(1, digest + "01" + std::string(60, '0') + "1c" + r + s), "");  // a word, not its last byte
    EXPECT_EQ(call(1, digest + v + zero + s), "");
    EXPECT_EQ(call(1, digest + v + r + zero), "");
    EXPECT_EQ(call(1, digest + v + order + s), "");
    EXPECT_EQ(call(1, digest + v + r + order), "");
    EXPECT_EQ(call(1, ""), "");
    EXPECT_EQ(call(1, digest + v + r + s.substr(0, 62)), call(1, digest + v + r + s.substr(0, 62) + "00"));
}

TEST(Precompiles, hashes_and_the_copy) {
    const std::string abc = "616263";
    EXPECT_EQ(call(2, abc), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(call(3, abc), std::string(24, '0') + "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc");
    EXPECT_EQ(call(4, abc), abc);
    EXPECT_EQ(call(4, ""), "");
    const std::string word(64, 'a');
    EXPECT_EQ(gas(2, ""), 60);
    EXPECT_EQ(gas(2, word), 72);
    EXPECT_EQ(gas(2, word + "aa"), 84);
    EXPECT_EQ(gas(3, ""), 600);
    EXPECT_EQ(gas(3, abc), 720);
    EXPECT_EQ(gas(4, ""), 15);
    EXPECT_EQ(gas(4, word + "aa"), 21);
}

// EIP-152's test vectors 1 to 8.
TEST(Precompiles, blake2f_gives_what_eip_152_says) {
    const std::string h =
        "48c9bdf267e6096a3ba7ca8485ae67bb2bf894fe72f36e3cf1361d5f3af54fa5d182e6ad7f520e511f6c3e2b8c68059b6bbd41fbabd983"
        "1f79217e1319cde05b";
    const std::string m = "616263" + std::string(250, '0');
    const std::string t = "03" + std::string(30, '0');
    EXPECT_EQ(call(9, ""), "fails");
    EXPECT_EQ(call(9, "00000c" + h + m + t + "01"), "fails");
    EXPECT_EQ(call(9, "000000000c" + h + m + t + "01"), "fails");
    EXPECT_EQ(call(9, "0000000c" + h + m + t + "02"), "fails");
    EXPECT_EQ(
        call(9, "00000000" + h + m + t + "01"),
        "08c9bcf367e6096a3ba7ca8485ae67bb2bf894fe72f36e3cf1361d5f3af54fa5d282e6ad7f520e511f6c3e2b8c68059b9442be0454"
        "267ce079217e1319cde05b");
    EXPECT_EQ(
        call(9, "0000000c" + h + m + t + "01"),
        "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8db"
        "f1925ab92386edd4009923");
    EXPECT_EQ(
        call(9, "0000000c" + h + m + t + "00"),
        "75ab69d3190a562c51aef8d88f1c2775876944407270c42c9844252c26d2875298743e7f6d5ea2f2d3e8d226039cd31b4e426ac4f2"
        "d3d666a610c2116fde4735");
    EXPECT_EQ(
        call(9, "00000001" + h + m + t + "01"),
        "b63a380cb2897d521994a85234ee2c181b5f844d2c624c002677e9703449d2fba551b3a8333bcdf5f2f7e08993d53923de3d64fcc6"
        "8c034e717b9293fed7a421");
    EXPECT_EQ(gas(9, "0000000c" + h + m + t + "01"), 12);
    EXPECT_EQ(gas(9, "ffffffff" + h + m + t + "01"), 0xffffffff);
}

TEST(Precompiles, p256verify_says_one_or_nothing) {
    const std::string input =
        "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9434287fa699ff2be2a4475ccd9c063d1a22a424b6ab357"
        "d9bb0b31f7a71307b9be6af716032d408183c53f6f76945363144555fad2a5ff7854159166e52fc1d0da3c553a4215893e6d95d5818df2"
        "519e13233a1e0e56e0ea7b4817a92a6973f9d8c8877a49383e20c3fdc21d4e8e280ef1feeb72c333036770369a4387168d33";
    EXPECT_EQ(call(0x100, input), std::string(63, '0') + "1");
    EXPECT_EQ(call(0x100, input + "00"), "");
    EXPECT_EQ(call(0x100, input.substr(2)), "");
    EXPECT_EQ(call(0x100, ""), "");
    std::string wrong = input;
    wrong[0] = 'a';
    EXPECT_EQ(call(0x100, wrong), "");
    EXPECT_EQ(gas(0x100, input), 6900);
    EXPECT_EQ(gas(0x100, ""), 6900);
}

std::string length(std::uint64_t bytes) { return to_hex(Uint256(bytes).to_be32()); }

// The first two examples of EIP-198, and its third: what is not there is zero.
TEST(Precompiles, modexp_gives_what_eip_198_says) {
    const std::string p = "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f";
    const std::string exponent = "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2e";
    const std::string one = std::string(63, '0') + "1";
    const std::string input = length(1) + length(32) + length(32) + "03" + exponent + p;
    const std::string zero_base = length(0) + length(32) + length(32) + exponent + p;
    for (const Revision revision : {Revision::byzantium, Revision::berlin, Revision::osaka}) {
        EXPECT_EQ(call(5, input, revision), one);
        EXPECT_EQ(call(5, zero_base, revision), std::string(64, '0'));
        EXPECT_EQ(call(5, "", revision), "");
        EXPECT_EQ(call(5, length(0) + length(0) + length(1), revision), "00");
        EXPECT_EQ(call(5, length(0) + length(0) + length(2) + "0005", revision), "0001");
        EXPECT_EQ(call(5, length(1) + length(2) + length(32) + "03ffff80", revision),
                  "3b01b01ac41f2d6e917c6d6a221ce793802469026d9ab7578fa2e79e4da6aaab");
    }
    EXPECT_EQ(gas(5, input, Revision::byzantium), 13056);
    EXPECT_EQ(gas(5, input, Revision::berlin), 1360);
    EXPECT_EQ(gas(5, input, Revision::osaka), 4080);
    EXPECT_EQ(gas(5, zero_base, Revision::byzantium), 13056);
    EXPECT_EQ(gas(5, "", Revision::byzantium), 0);
    EXPECT_EQ(gas(5, "", Revision::berlin), 200);
    EXPECT_EQ(gas(5, "", Revision::osaka), 500);
}

TEST(Precompiles, modexp_prices_what_lengths_say_before_it_takes_memory) {
    const std::string most(64, 'f');
    for (const Revision revision : {Revision::byzantium, Revision::berlin, Revision::osaka}) {
        EXPECT_EQ(gas(5, most + length(1) + length(1), revision), kUnaffordable);
        EXPECT_EQ(gas(5, length(1) + length(1) + most, revision), kUnaffordable);
        EXPECT_EQ(gas(5, length(1) + most + length(1), revision), kUnaffordable);
        EXPECT_EQ(gas(5, most + most + most, revision), kUnaffordable);
        // Not paid for, so not asked for; whoever asks gets a refusal and no memory is taken.
        EXPECT_EQ(call(5, most + length(1) + length(1), revision), "fails");
        EXPECT_EQ(call(5, length(1) + most + length(1), revision), "fails");
        EXPECT_EQ(call(5, length(1) + length(1) + most, revision), "fails");
    }
    // The base lies beyond any input and its length is paid for: no offset wraps.
    EXPECT_EQ(gas(5, "0000000000000000000000000000000000000000000000007fffffffffffffff" + length(32) + length(0)),
              kUnaffordable);
    // EIP-198 prices nothing when base and modulus are empty, EIP-2565 the least: an exponent's length costs nothing.
    const std::string empty = length(0) + most + length(0);
    EXPECT_EQ(gas(5, empty, Revision::byzantium), 0);
    EXPECT_EQ(gas(5, empty, Revision::berlin), 200);
    EXPECT_EQ(call(5, empty, Revision::byzantium), "");
    EXPECT_EQ(call(5, empty, Revision::berlin), "");
    EXPECT_EQ(call(5, empty, Revision::osaka), "fails");  // EIP-7823
}

TEST(Precompiles, modexp_prices_by_length_and_exponent) {
    const auto price = [](std::uint64_t base, std::uint64_t exponent, std::uint64_t modulus, Revision revision,
                          const std::string& rest = "") {
        return gas(5, length(base) + length(exponent) + length(modulus) + rest, revision);
    };
    // EIP-198's three pieces.
    EXPECT_EQ(price(64, 0, 1, Revision::byzantium), 64 * 64 / 20);
    EXPECT_EQ(price(65, 0, 1, Revision::byzantium), (65 * 65 / 4 + 96 * 65 - 3072) / 20);
    EXPECT_EQ(price(1, 0, 1025, Revision::byzantium), (1025 * 1025 / 16 + 480 * 1025 - 199'680) / 20);
    // Behind its first 32 bytes an exponent's length counts; of these the highest bit.
    EXPECT_EQ(price(64, 40, 1, Revision::byzantium), 64 * 64 * 8 * 8 / 20);
    EXPECT_EQ(price(0, 40, 64, Revision::byzantium, std::string(63, '0') + "8"), 64 * 64 * (8 * 8 + 3) / 20);
    EXPECT_EQ(price(0, 40, 64, Revision::berlin, std::string(63, '0') + "8"), 8 * 8 * (8 * 8 + 3) / 3);
    EXPECT_EQ(price(0, 40, 64, Revision::osaka, std::string(63, '0') + "8"), 2 * 8 * 8 * (16 * 8 + 3));
    // EIP-7883: nothing is below 32 bytes.
    EXPECT_EQ(price(0, 32, 1, Revision::osaka, std::string(64, 'f')), 16 * 255);
    EXPECT_EQ(price(0, 32, 32, Revision::osaka, std::string(64, 'f')), 16 * 255);
    EXPECT_EQ(price(0, 32, 33, Revision::osaka, std::string(64, 'f')), 2 * 25 * 255);
    EXPECT_EQ(price(0, 3, 33, Revision::osaka, "000001ff"), 500);
}

TEST(Precompiles, modexp_takes_1024_bytes_at_most_since_osaka) {
    for (int which = 0; which < 3; ++which) {
        const auto input = [&](std::uint64_t size) {
            return length(which == 0 ? size : 1) + length(which == 1 ? size : 1) + length(which == 2 ? size : 1) +
                   "030507";
        };
        EXPECT_EQ(call(5, input(1025), Revision::osaka), "fails");
        EXPECT_NE(call(5, input(1025), Revision::prague), "fails");
        EXPECT_NE(call(5, input(1024), Revision::osaka), "fails");
    }
}

}  // namespace
}  // namespace quern::vm::evm
