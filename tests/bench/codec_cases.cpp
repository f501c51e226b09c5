// Hashes, transaction decoding and tries.
#include <openssl/sha.h>

#include "base/rng.h"
#include "bench/cases.h"
#include "chain/state/trie.h"
#include "chain/types/transaction.h"
#include "crypto/hash.h"

namespace quern::bench {

void bench_codecs(Bench& bench) {
    SeededRng rng(5);
    Bytes page(4096);
    rng.fill(page);
    const BytesView words = BytesView(page).first(136 - 1);  // one block of Keccak's sponge

    auto timings = bench.time({[&] { keep(crypto::keccak256(words)); }, [&] { keep(crypto::keccak256(page)); },
                               [&] { keep(crypto::sha256(page)); },
                               [&] {
                                   Hash32 digest;
                                   SHA256(page.data(), page.size(), digest.data.data());
                                   keep(digest);
                               }});
    bench.add_time("keccak256, 135 bytes", timings[0], 1, "OpenSSL SHA-256 of 4 KiB", &timings[3]);
    bench.add_time("keccak256, 4 KiB", timings[1], 1, "OpenSSL SHA-256 of 4 KiB", &timings[3]);
    bench.add_time("sha256, 4 KiB", timings[2], 1, "OpenSSL SHA-256 of 4 KiB", &timings[3]);

    const auto key = crypto::PrivateKey::generate(rng);
    chain::types::Transaction tx;
    tx.type = chain::types::TxType::dynamic_fee;
    tx.chain_id = 7878;
    tx.max_fee_per_gas = 1'000'000'000;
    tx.gas_limit = 21'000;
    tx.to = crypto::address20(key);
    tx.value = 12345;
    chain::types::sign(tx, key);
    const Bytes encoded = chain::types::encode(tx);
    timings =
        bench.time({[&] { keep(*chain::types::decode_transaction(encoded)); }, [&] { keep(chain::types::encode(tx)); },
                    [&] { keep(chain::types::transaction_hash(encoded)); }});
    bench.add_time("decode a transfer", timings[0], 1, "hashing it", &timings[2]);
    bench.add_time("encode a transfer", timings[1], 1, "hashing it", &timings[2]);

    std::vector<std::pair<Bytes, Bytes>> pairs;
    std::size_t bytes = 0;
    for (int i = 0; i < 1000; ++i) {
        Bytes trie_key(32);
        Bytes value(70);
        rng.fill(trie_key);
        rng.fill(value);
        bytes += value.size();
        pairs.emplace_back(std::move(trie_key), std::move(value));
    }
    std::vector<Bytes> list(1000, encoded);
    // A trie of n leaves hashes n leaves and about n / 3 branches: the same hashes without the trie.
    Bytes leaf(32 + 70 + 6);
    Bytes branch(17 * 33);
    timings =
        bench.time({[&] { keep(chain::state::trie_root(pairs)); }, [&] { keep(chain::state::ordered_trie_root(list)); },
                    [&] {
                        for (int i = 0; i < 1000; ++i) keep(crypto::keccak256(leaf));
                        for (int i = 0; i < 333; ++i) keep(crypto::keccak256(branch));
                    }});
    bench.add_time("trie root of 1,000 random keys", timings[0], 1, "hashing as many bytes", &timings[2]);
    bench.add_time("transactions root of 1,000 transfers", timings[1], 1, "hashing as many bytes", &timings[2]);
}

}  // namespace quern::bench
