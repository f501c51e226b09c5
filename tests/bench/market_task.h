// Training tasks for the Demand cases: models, what a submitter has and signs, and native transactions of fixed keys.
// Plain functions; one thread.
#pragma once

#include "chain/exec/genesis.h"
#include "chain/types/native_kinds.h"
#include "compute/program/architecture.h"
#include "compute/worker/node_client.h"
#include "vm/tensor/executor.h"

namespace quern::bench {

// Transformers of context 128 over 86 characters, trained by AdamW.
struct ModelSize {
    const char* name;
    std::uint32_t layers;
    std::uint32_t width;
    std::uint32_t batch;
};
inline constexpr ModelSize kModels[] = {{"11 M parameters", 6, 384, 2}, {"25 M parameters", 8, 512, 1}};
[[nodiscard]] compute::program::Architecture architecture_of(const ModelSize& size);

struct MarketTask {
    compute::core::TaskPrograms programs;  // one program, run in each step
    vm::tensor::MemoryData data;
    vm::tensor::State init;
    Bytes init_file;
    chain::types::TaskSubmitPayload spec;  // all windows are `window_s`; two verifiers of two segments each
};
[[nodiscard]] MarketTask market_task(const compute::program::Architecture& architecture, std::uint64_t steps,
                                     std::uint64_t interval, std::uint64_t window_s);
// What the specification names goes into the node's store.
void put_contents(const MarketTask& task, compute::worker::NodeView& node);
// The state's slots, and the content that names them, sent one after the other; returns this content's id.
Hash32 put_state(const vm::tensor::Program& program, const vm::tensor::State& state, std::span<const Hash32> roots,
                 compute::worker::NodeView& node);
// Bytes of all that, and the ids.
[[nodiscard]] std::uint64_t sent_bytes(const vm::tensor::Program& program, std::span<const Hash32> roots);

[[nodiscard]] Bytes signed_native(const crypto::PrivateKey& key, std::uint64_t nonce, chain::types::NativeKind kind,
                                  Bytes payload);

// Of a devnet with its default parameters, on which these have so many QRN each.
[[nodiscard]] chain::exec::Genesis devnet_genesis(const std::vector<crypto::PrivateKey>& accounts,
                                                  std::uint64_t qrn = 1'000'000);
[[nodiscard]] Uint256 in_grains(std::uint64_t qrn);

}  // namespace quern::bench
