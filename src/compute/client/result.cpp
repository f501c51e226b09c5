#include "compute/client/result.h"

#include <cstdio>

#include "base/fs.h"
#include "compute/client/training.h"
#include "compute/core/profiling.h"
#include "compute/program/held_out.h"
#include "compute/program/state_file.h"
#include "compute/worker/task_inputs.h"
#include "crypto/content_id.h"
#include "crypto/merkle.h"

namespace quern::compute::client {
namespace {

namespace core = compute::core;
namespace types = chain::types;

// Of a state that is fetched: it is the user's own.
constexpr std::uint64_t kMaxResultMemory = std::uint64_t{64} << 30;

bool has_content(const std::string& path, const Bytes& content) {
    const auto size = fs::file_size(path);  // first: what blocks a reader has none
    if (!size || *size != content.size()) return false;
    const auto found = fs::read_file(path, content.size());
    return found && *found == content;
}

}  // namespace

Status check_task(const types::Task& task, const types::TaskSubmitPayload& spec) {
    types::TaskSubmitPayload submitted = spec;
    // Profilers have found the limits that it left to them.
    if (core::is_profiled(spec) && !task.profiling.limits.empty() && spec.data_roots.size() >= 2)
        submitted.data_roots[spec.data_roots.size() - 2] = crypto::content_id_of(task.profiling.limits);
    if (types::encode_record(task.spec) == types::encode_record(submitted)) return {};
    return fail(kNotTheTask, "task " + std::to_string(task.id) + " of the node's chain is not the one of the job file");
}

Status check_proof(const types::ProofRecord& proof, const Look& look) {
    const types::Task& task = look.task;
    const auto differ = [&](const char* what) {
        return fail("train.wrong_proof", std::string("task ") + std::to_string(task.id) + ": another " + what);
    };
    if (proof.task != task.id || proof.submitter != task.submitter) return differ("task");
    if (proof.submission != crypto::merkle_leaf(types::encode_record(task.spec))) return differ("submission");
    if (proof.plan != crypto::merkle_leaf(task.spec.plan)) return differ("plan");
    if (proof.init_root != task.spec.init_root) return differ("initial state");
    if (proof.data_roots != task.spec.data_roots) return differ("data");
    if (proof.steps != task.steps) return differ("number of steps");
    if (proof.final_root != look.claim.final_root) return differ("final state");
    return {};
}

void tell_metrics(const vm::tensor::Program& program, const vm::tensor::State& state, Event& event) {
    const auto metrics = program::read_metrics(program, state);
    if (!metrics) return;
    event.data.set("evaluation", program::describe(*metrics));
    char text[96];
    std::snprintf(text, sizeof text, "  held-out loss %.4g", static_cast<double>(metrics->loss));
    event.text += text;
    if (metrics->accuracy) {
        std::snprintf(text, sizeof text, ", accuracy %.2f %%", 100 * static_cast<double>(*metrics->accuracy));
        event.text += text;
    }
    event.text += " after " + std::to_string(metrics->step) + " updates";
}

Status check_root(const vm::tensor::State& state, const Hash32& root, ThreadPool* pool) {
    const Hash32 found = vm::tensor::state_root(state, pool);
    if (found == root) return {};
    return fail("train.wrong_root", "the state has " + to_hex0x(found) + ", the chain " + to_hex0x(root));
}

Expected<vm::tensor::State> fetch_result(worker::NodeView& node, const vm::tensor::Program& program, const Look& look,
                                         ThreadPool* pool) {
    worker::InputStore store({.memory_bytes = kMaxResultMemory});
    const types::TaskClaim live{look.task, look.claim, {}, {}};
    QUERN_TRY(vm::tensor::State state,
              store.checkpoint(node, program,
                               {look.claim.checkpoint_content, look.claim.final_root, worker::custody_of(live)}, pool));
    QUERN_CHECK(check_root(state, look.claim.final_root, pool));
    return state;
}

Expected<Kept> keep_result(const TrainOptions& options, const Training& training, const Hash32& root,
                           const std::string& folder, ThreadPool* pool) {
    const auto bytes = fs::read_file(state_path(folder), kMaxResultMemory);
    if (!bytes) return Kept::nothing;
    const auto state = program::read_state(training.programs.any(), *bytes);
    if (!state || !check_root(*state, root, pool)) return Kept::nothing;
    QUERN_TRY(const std::vector<Export> exports, exports_of(options, training.programs.any(), training.onnx, *state));
    Kept kept = Kept::whole;
    for (const Export& each : exports) {
        if (has_content(each.path, each.content)) continue;
        QUERN_CHECK(fs::write_file_atomic(each.path, each.content));
        kept = Kept::mended;
    }
    return kept;
}

}  // namespace quern::compute::client
