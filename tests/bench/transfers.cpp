#include "bench/transfers.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "base/rng.h"
#include "chain/params/params.h"
#include "crypto/hash.h"

namespace quern::bench {

namespace types = chain::types;

crypto::PrivateKey load_key(std::uint32_t number) {
    SeededRng rng(0x5eed'0000ULL + number);
    return crypto::PrivateKey::generate(rng);
}

std::vector<crypto::PrivateKey> load_keys(const std::vector<std::uint32_t>& numbers) {
    std::vector<crypto::PrivateKey> keys;
    for (const std::uint32_t number : numbers) keys.push_back(load_key(number));
    return keys;
}

types::Address sink_address(std::size_t number) {
    return types::Address::copy_of(crypto::keccak256(as_bytes("sink " + std::to_string(number))).view().first(20));
}

Bytes signed_transfer(const crypto::PrivateKey& key, std::uint64_t nonce, const types::Address& to) {
    types::Transaction tx;
    tx.type = types::TxType::dynamic_fee;
    tx.chain_id = chain::params::kDevnetChainId;
    tx.nonce = nonce;
    tx.max_priority_fee_per_gas = 1'000'000;
    tx.max_fee_per_gas = 1'000'000'000'000'000;  // full blocks raise the base fee by an eighth each
    tx.gas_limit = 21'000;
    tx.to = to;
    tx.value = 1;
    types::sign(tx, key);
    return types::encode(tx);
}

double own_cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

double machine_cpu_seconds() {
    std::ifstream file("/proc/stat");
    std::string name;
    // user, nice, system; then idle and iowait, which are no work; irq, softirq.
    double ticks[7] = {};
    file >> name;
    for (double& each : ticks) file >> each;
    return (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace quern::bench
