// A training without a chain: the same bits however often it is stopped.
#include "compute/client/local.h"

#include "compute/program/safetensors.h"
#include "compute/program/state_file.h"
#include "small_training.h"
#include "vm/tensor/data.h"

namespace quern::compute::client {
namespace {

class LocalTest : public test::SmallTraining {
protected:
    // Stops when progress has come to `stop_at`.
    Status train(std::uint64_t stop_at = ~std::uint64_t{0}) {
        names_.clear();
        std::atomic<bool> stop{false};
        const Console console{[&](const Event& event) {
                                  names_.emplace_back(event.name);
                                  last_ = event.data;
                                  const auto step = event.data.get_u64("step");
                                  if (step && *step >= stop_at) stop = true;
                              },
                              {}};
        QUERN_TRY(JobFile file, JobFile::open(options_.out));
        QUERN_TRY(const Training training, prepare());
        return train_here(options_, training, file, console, stop);
    }
    // The root that the result event told.
    [[nodiscard]] std::string root() const {
        const auto text = last_.get_string("stateRoot");
        return text ? std::string(*text) : "none";
    }
    // By the executor alone, one step after the other.
    [[nodiscard]] std::string expected_root() const {
        const auto training = prepare();
        EXPECT_TRUE(training);
        vm::tensor::State state = training->initial;
        const vm::tensor::MemoryData data({*fs::read_file(options_.data[0], 1'000)});
        vm::tensor::Executor executor(training->programs.any(), vm::tensor::arith::Backend::scalar, nullptr);
        for (std::uint64_t i = 0; i < test::kSteps; ++i)
            EXPECT_TRUE(executor.step(state, data, vm::tensor::seed_tensor(*local_beacon(options_))));
        return to_hex0x(vm::tensor::state_root(state));
    }
    std::vector<std::string> names_;
    json::Value last_;
};

TEST_F(LocalTest, trains_to_the_state_of_the_canonical_executor) {
    const Status done = train();
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(root(), expected_root());
    const auto model = program::read_safetensors(*fs::read_file(options_.out, 1 << 20));
    ASSERT_TRUE(model);
    EXPECT_FALSE(model->tensors.empty());
    // Once more: it is there.
    const std::string before = root();
    ASSERT_TRUE(train());
    EXPECT_EQ(names_, std::vector<std::string>{"result"});
    EXPECT_EQ(root(), before);
}

TEST_F(LocalTest, goes_on_where_it_was_stopped) {
    const Status stopped = train(7);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().name, kStopped);
    EXPECT_FALSE(fs::exists(options_.out));
    const Status again = train(20);
    ASSERT_FALSE(again);
    EXPECT_EQ(names_.front(), "resumed");
    write("model.safetensors.job/state-3.safetensors", Bytes(3));  // of one that was killed before its job file
    ASSERT_TRUE(train());
    EXPECT_EQ(names_.front(), "resumed");
    EXPECT_EQ(root(), expected_root());
    std::size_t states = 0;
    for (const auto& entry : std::filesystem::directory_iterator(job_folder(options_.out)))
        states += entry.path().filename().string().starts_with("state") ? 1 : 0;
    EXPECT_EQ(states, 1U) << "checkpoints that nobody needs are gone";
}

// Six windows in two batches, after each ten updates and at the end.
TEST_F(LocalTest, tells_what_a_training_found_on_held_out_data) {
    std::string model = test::model_text(25);
    const std::string held_out = R"("held_out":{"data":{"dtype":"u8","elements":37},"every":10},)";
    model.insert(model.find(R"("batch")"), held_out);
    write("arch.json", as_bytes(model));
    options_.data.push_back(write("held-out.u8", Bytes(37, 4)));
    ASSERT_TRUE(train());
    const json::Value* const found = last_.find("evaluation");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(*found->get_u64("step"), 25U);
    ASSERT_NE(found->find("loss"), nullptr);
    ASSERT_NE(found->find("accuracy"), nullptr);
    const auto training = prepare();
    ASSERT_TRUE(training);
    EXPECT_EQ(training->programs.plan.steps(), 2 * (10 + 2) + 5 + 2U);
    options_.data.pop_back();
    EXPECT_EQ(prepare().error().name, "task.wrong_data_size");
}

TEST_F(LocalTest, makes_a_lost_output_again) {
    ASSERT_TRUE(train());
    const Bytes model = *fs::read_file(options_.out, 1 << 20);
    ASSERT_TRUE(fs::remove_file(options_.out));
    ASSERT_TRUE(train());
    EXPECT_EQ(*fs::read_file(options_.out, 1 << 20), model);
}

TEST_F(LocalTest, tells_of_no_other_file_than_what_was_trained) {
    ASSERT_TRUE(train());
    const Bytes model = *fs::read_file(options_.out, 1 << 20);
    const std::string before = root();
    Bytes other = model;
    other.back() ^= 1U;
    for (const Bytes& planted : {Bytes{'g', 'a', 'r', 'b', 'a', 'g', 'e'}, Bytes(), other}) {
        ASSERT_TRUE(fs::write_file_atomic(options_.out, planted));
        ASSERT_TRUE(train());
        EXPECT_EQ(*fs::read_file(options_.out, 1 << 20), model);
        EXPECT_EQ(root(), before);
    }
    // The state of which it is exported is another: nothing says what the output should be.
    const std::string kept = state_path(job_folder(options_.out));
    const auto training = prepare();
    ASSERT_TRUE(training);
    ASSERT_TRUE(fs::write_file_atomic(kept, *program::write_state(training->programs.any(), training->initial)));
    const Status changed = train();
    ASSERT_FALSE(changed);
    EXPECT_EQ(changed.error().name, "train.bad_job");
    ASSERT_TRUE(fs::remove_file(kept));
    EXPECT_EQ(train().error().name, "train.bad_job");
}

TEST_F(LocalTest, removes_its_own_checkpoints_alone) {
    ASSERT_FALSE(train(7));
    const std::vector<std::string> foreign{
        "state-of-the-art.txt", "state-.safetensors", "state-3.safetensors.old", "state-3a.safetensors", "state-3",
        "states-3.safetensors"};
    for (const std::string& name : foreign) write("model.safetensors.job/" + name, Bytes(3));
    write("model.safetensors.job/state-3.safetensors", Bytes(3));
    ASSERT_TRUE(train());
    for (const std::string& name : foreign) EXPECT_TRUE(fs::exists(job_folder(options_.out) + "/" + name)) << name;
    EXPECT_FALSE(fs::exists(job_folder(options_.out) + "/state-3.safetensors"));
}

TEST_F(LocalTest, refuses_a_saved_state_that_was_changed) {
    ASSERT_FALSE(train(7));
    const std::uint64_t step = JobFile::open(options_.out)->job()->step;
    const std::string path = job_folder(options_.out) + "/state-" + std::to_string(step) + ".safetensors";
    const auto training = prepare();
    ASSERT_TRUE(training);
    ASSERT_TRUE(fs::write_file_atomic(path, *program::write_state(training->programs.any(), training->initial)));
    const Status again = train();
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().name, "train.bad_job");
}

TEST_F(LocalTest, refuses_another_trainings_job) {
    ASSERT_FALSE(train(7));
    options_.seed = 2;
    const Status other = train();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().name, "train.other_job");
}

TEST_F(LocalTest, a_beacon_orders_the_data) {
    ASSERT_TRUE(train());
    const std::string one = root();
    options_.out += "2";
    ASSERT_TRUE(fs::create_directories(job_folder(options_.out)));
    options_.beacon = "0x" + std::string(64, '1');
    ASSERT_TRUE(train());
    EXPECT_NE(root(), one);
    options_.beacon = "0x11";
    EXPECT_FALSE(local_beacon(options_));
}

}  // namespace
}  // namespace quern::compute::client
