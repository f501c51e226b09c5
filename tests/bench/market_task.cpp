#include "bench/market_task.h"

#include "base/rng.h"
#include "bench/harness.h"
#include "chain/params/params.h"
#include "compute/core/program_opening.h"
#include "compute/core/state_content.h"
#include "compute/program/initial_state.h"
#include "compute/program/state_file.h"
#include "crypto/content_id.h"
#include "support/training_game.h"

namespace quern::bench {

namespace core = compute::core;
namespace tensor = vm::tensor;
namespace types = chain::types;

constexpr std::uint64_t kNativeGas = 3'000'000;  // what is not used is given back
constexpr std::uint64_t kTaskMemoryMib = 4'000;  // below what a worker gives by default
constexpr std::uint64_t kMostHeartbeat = 1'000;

compute::program::Architecture architecture_of(const ModelSize& size) {
    compute::program::Architecture architecture = test::demo_architecture(512);
    architecture.model = compute::program::TransformerSpec{size.layers, size.width, size.width / 64, 128, 4, 86};
    architecture.batch = size.batch;
    return architecture;
}

MarketTask market_task(const compute::program::Architecture& architecture, std::uint64_t steps, std::uint64_t interval,
                       std::uint64_t window_s) {
    const auto built = must(compute::program::build_training_program(architecture), "training program");
    SeededRng rng(7);
    Bytes tokens(architecture.data[0].elements);
    for (std::uint8_t& token : tokens)
        token = static_cast<std::uint8_t>(rng.below(architecture.transformer().vocabulary));
    MarketTask task{must(core::TaskPrograms::make({built.program}, core::plain_body(steps)), "plan"),
                    tensor::MemoryData({std::move(tokens)}),
                    compute::program::initial_state(built, 1),
                    {},
                    {}};
    task.init_file = must(compute::program::write_state(built.program, task.init), "state file");
    auto& spec = task.spec;
    spec.plan = task.programs.plan.bytes();
    spec.header_paths = {core::ProgramProver(built.program).header_path()};
    spec.contents.programs = {crypto::content_id_of(tensor::encode(built.program))};
    spec.init_root = tensor::state_root(task.init);
    spec.contents.init = crypto::content_id_of(task.init_file);
    spec.data_roots = task.data.roots();
    spec.work.interval = interval;
    spec.work.verifiers = 2;
    spec.work.samples = 2;
    spec.money.price_cap = 1'000;  // a worker bids half of it
    spec.classes.memory_mib = kTaskMemoryMib;
    auto& windows = spec.windows;
    windows.bid_s = windows.start_s = window_s;
    windows.heartbeat_s = std::min(window_s, kMostHeartbeat);  // a dispute's clock is many of them
    windows.prove_s = windows.verify_s = windows.challenge_s = window_s;
    return task;
}

void put_contents(const MarketTask& task, compute::worker::NodeView& node) {
    (void)must(node.put_content(tensor::encode(task.programs.any())), "program");
    (void)must(node.put_content(task.init_file), "initial state");
    for (const Bytes& set : task.data.sets()) (void)must(node.put_content(set), "data");
}

Hash32 put_state(const tensor::Program& program, const tensor::State& state, std::span<const Hash32> roots,
                 compute::worker::NodeView& node) {
    for (const std::size_t slot : core::own_contents(program, roots)) {
        const tensor::Shape& shape = state[slot].shape;
        const std::uint64_t size = core::slot_bytes(shape);
        must(node.put_stream(roots[slot], size,
                             [&, at = std::uint64_t{0}](std::span<std::uint8_t> buffer) mutable {
                                 const std::size_t next = std::min<std::uint64_t>(buffer.size(), size - at);
                                 core::copy_tiles(shape, state[slot].words, at, buffer.first(next));
                                 at += next;
                                 return Expected<std::size_t>(next);
                             }),
             "slot");
    }
    return must(node.put_content(core::encode_state(program, state, roots)), "state");
}

std::uint64_t sent_bytes(const tensor::Program& program, std::span<const Hash32> roots) {
    std::uint64_t bytes = core::state_content_bytes(program);
    for (const std::size_t slot : core::own_contents(program, roots))
        bytes += core::slot_bytes(program.slots[slot].shape);
    return bytes;
}

Bytes signed_native(const crypto::PrivateKey& key, std::uint64_t nonce, types::NativeKind kind, Bytes payload) {
    types::Transaction tx;
    tx.type = types::TxType::native;
    tx.chain_id = chain::params::kDevnetChainId;
    tx.nonce = nonce;
    tx.max_priority_fee_per_gas = 1'000'000;
    tx.max_fee_per_gas = 10'000'000'000;
    tx.gas_limit = kNativeGas;
    tx.native_kind = static_cast<std::uint8_t>(kind);
    tx.data = std::move(payload);
    types::sign(tx, key);
    return types::encode(tx);
}

Uint256 in_grains(std::uint64_t qrn) { return Uint256(qrn) * Uint256(chain::params::kGrainsPerQrn); }

chain::exec::Genesis devnet_genesis(const std::vector<crypto::PrivateKey>& accounts, std::uint64_t qrn) {
    chain::exec::Genesis genesis;
    genesis.timestamp_ms = 1'700'000'000'000;
    for (const auto& key : accounts) genesis.allocations.push_back({crypto::address20(key), in_grains(qrn)});
    return genesis;
}

}  // namespace quern::bench
