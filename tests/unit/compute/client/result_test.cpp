// What is downloaded is taken when the chain says the same of it, and else not.
#include "compute/client/result.h"

#include <sys/stat.h>

#include "compute/core/state_content.h"
#include "compute/program/state_file.h"
#include "compute/worker/task_inputs.h"
#include "crypto/merkle.h"
#include "memory_node.h"
#include "small_training.h"

namespace quern::compute::client {
namespace {

namespace types = chain::types;

class ResultTest : public test::SmallTraining {
protected:
    ResultTest() : training_(prepare()) {
        EXPECT_TRUE(training_);
        types::Task& task = look_.task;
        task.id = 5;
        task.submitter.data[0] = 1;
        task.spec = training_->spec;
        task.steps = test::kSteps;
        look_.claim.id.task = 5;
        look_.claim.state = types::ClaimState::settled;
        const auto roots = vm::tensor::slot_roots(training_->initial);
        look_.claim.final_root = vm::tensor::state_root(roots);
        look_.claim.checkpoint_content = node_.put(core::encode_state(program(), training_->initial, roots));
        proof_.task = 5;
        proof_.submitter = task.submitter;
        proof_.submission = crypto::merkle_leaf(types::encode_record(task.spec));
        proof_.plan = crypto::merkle_leaf(task.spec.plan);
        proof_.init_root = task.spec.init_root;
        proof_.data_roots = task.spec.data_roots;
        proof_.steps = task.steps;
        proof_.final_root = look_.claim.final_root;
    }
    [[nodiscard]] const vm::tensor::Program& program() const { return training_->programs.any(); }

    Expected<Training> training_;
    test::MemoryNode node_;
    Look look_;
    types::ProofRecord proof_;
};

TEST_F(ResultTest, fetches_the_state_behind_the_final_root) {
    const auto state = fetch_result(node_, program(), look_, nullptr);
    ASSERT_TRUE(state) << state.error().to_string();
    EXPECT_EQ(vm::tensor::state_root(*state), look_.claim.final_root);
}

TEST_F(ResultTest, another_state_than_the_chain_names_is_refused) {
    vm::tensor::State other = training_->initial;
    other.front().words.front() ^= 1U;
    const auto roots = vm::tensor::slot_roots(other);
    look_.claim.checkpoint_content = node_.put(core::encode_state(program(), other, roots));
    const auto state = fetch_result(node_, program(), look_, nullptr);
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().name, "inputs.wrong_state_root");
    EXPECT_EQ(check_root(other, look_.claim.final_root, nullptr).error().name, "train.wrong_root");
    EXPECT_TRUE(check_root(training_->initial, look_.claim.final_root, nullptr));
}

TEST_F(ResultTest, a_proof_is_of_this_training_in_all_its_parts) {
    ASSERT_TRUE(check_proof(proof_, look_));
    const auto refuses = [&](auto change) {
        types::ProofRecord other = proof_;
        change(other);
        const Status checked = check_proof(other, look_);
        return !checked && checked.error().name == "train.wrong_proof";
    };
    EXPECT_TRUE(refuses([](types::ProofRecord& p) { ++p.task; }));
    EXPECT_TRUE(refuses([](types::ProofRecord& p) { p.submitter.data[1] = 1; }));
    EXPECT_TRUE(refuses([](types::ProofRecord& p) { p.submission.data[0] ^= 1U; }));
    EXPECT_TRUE(refuses([](types::ProofRecord& p) { p.plan.data[0] ^= 1U; }));
    EXPECT_TRUE(refuses([](types::ProofRecord& p) { p.init_root.data[0] ^= 1U; }));
    EXPECT_TRUE(refuses([](types::ProofRecord& p) { p.data_roots.clear(); }));
    EXPECT_TRUE(refuses([](types::ProofRecord& p) { --p.steps; }));
    EXPECT_TRUE(refuses([](types::ProofRecord& p) { p.final_root.data[0] ^= 1U; }));
}

TEST_F(ResultTest, an_output_is_the_result_when_it_is_what_the_state_exports) {
    const std::string folder = job_folder(options_.out);
    const Hash32 root = look_.claim.final_root;
    const auto keep = [&] {
        const auto kept = keep_result(options_, *training_, root, folder, nullptr);
        EXPECT_TRUE(kept) << kept.error().to_string();
        return kept.value_or(Kept::nothing);
    };
    EXPECT_EQ(keep(), Kept::nothing);
    ASSERT_TRUE(write_result(options_, *training_, training_->initial, folder));
    const Bytes model = *fs::read_file(options_.out, 1 << 20);
    EXPECT_EQ(keep(), Kept::whole);
    Bytes other = model;
    other.back() ^= 1U;
    for (const Bytes& planted : {other, Bytes(), Bytes(3)}) {
        ASSERT_TRUE(fs::write_file_atomic(options_.out, planted));
        EXPECT_EQ(keep(), Kept::mended);
        EXPECT_EQ(*fs::read_file(options_.out, 1 << 20), model);
        EXPECT_EQ(keep(), Kept::whole);
    }
    ASSERT_TRUE(fs::remove_file(options_.out));
    ASSERT_EQ(::mkfifo(options_.out.c_str(), 0600), 0);
    EXPECT_EQ(keep(), Kept::mended) << "nobody waits for a writer";
    EXPECT_EQ(*fs::read_file(options_.out, 1 << 20), model);

    vm::tensor::State changed = training_->initial;
    changed.front().words.front() ^= 1U;
    ASSERT_TRUE(fs::write_file_atomic(state_path(folder), *program::write_state(program(), changed)));
    EXPECT_EQ(keep(), Kept::nothing);
    ASSERT_TRUE(fs::write_file_atomic(state_path(folder), Bytes(100)));
    EXPECT_EQ(keep(), Kept::nothing);
    EXPECT_EQ(*fs::read_file(options_.out, 1 << 20), model) << "and nothing is written";
}

TEST_F(ResultTest, another_chains_task_is_refused) {
    ASSERT_TRUE(check_task(look_.task, training_->spec));
    look_.task.spec.work.samples += 1;
    const Status checked = check_task(look_.task, training_->spec);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().name, kNotTheTask);
}

}  // namespace
}  // namespace quern::compute::client
