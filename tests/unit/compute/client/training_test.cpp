// What a command asks for is compiled the same each time, and said to be wrong by name.
#include "compute/client/training.h"

#include "compute/client/job_file.h"
#include "compute/program/state_file.h"
#include "small_training.h"

namespace quern::compute::client {
namespace {

using TrainingTest = test::SmallTraining;

TEST(DefaultIntervalTest, cuts_into_twenty_equal_segments_at_most) {
    EXPECT_EQ(default_interval(600, 1), 30U);
    EXPECT_EQ(default_interval(40, 1), 2U);
    EXPECT_EQ(default_interval(7, 1), 1U);
    EXPECT_EQ(default_interval(101, 1), 101U) << "a prime has no equal parts";
    EXPECT_EQ(default_interval(100, 10), 10U) << "a multiple of the stride";
    EXPECT_EQ(default_interval(100, 30), 100U);
    EXPECT_EQ(default_interval(100, 0), 100U);
}

TEST_F(TrainingTest, makes_the_same_task_each_time) {
    const auto one = prepare();
    const auto two = prepare();
    ASSERT_TRUE(one) << one.error().to_string();
    ASSERT_TRUE(two);
    EXPECT_EQ(training_id(one->spec), training_id(two->spec));
    EXPECT_EQ(one->programs.plan.steps(), test::kSteps) << "as the model says";
    EXPECT_EQ(one->spec.work.interval, 2U);
    EXPECT_EQ(one->spec.init_root, vm::tensor::state_root(one->initial));

    options_.seed = 2;
    const auto seeded = prepare();
    ASSERT_TRUE(seeded);
    EXPECT_NE(training_id(one->spec), training_id(seeded->spec));
    options_.updates = 10;
    const auto shorter = prepare();
    ASSERT_TRUE(shorter);
    EXPECT_EQ(shorter->programs.plan.steps(), 10U);
    EXPECT_NE(training_id(seeded->spec), training_id(shorter->spec));
}

TEST_F(TrainingTest, money_makes_no_other_training) {
    const auto one = prepare();
    options_.terms.price_cap = "1000";
    options_.terms.tax = "1qrn";
    const auto dearer = prepare();
    ASSERT_TRUE(one && dearer);
    EXPECT_EQ(dearer->spec.money.price_cap, Uint256(1000));
    EXPECT_EQ(training_id(one->spec), training_id(dearer->spec));
}

TEST_F(TrainingTest, names_what_does_not_fit) {
    const auto error = [&] { return prepare().error(); };
    options_.data.push_back(options_.data.front());
    EXPECT_EQ(error().name, "task.wrong_data_size");
    options_.data = {write("short.u8", Bytes(test::kElements - 1))};
    EXPECT_EQ(error().name, "task.wrong_data_size");
    EXPECT_NE(error().detail.find("short.u8 has 120 bytes"), std::string::npos) << error().detail;
    EXPECT_NE(error().detail.find("arch.json wants 121"), std::string::npos) << error().detail;
    EXPECT_NE(error().detail.find("121 elements of u8"), std::string::npos) << error().detail;
    options_.data.clear();
    EXPECT_EQ(error().name, "train.no_data");
    options_.data = {directory_ + "/none"};
    EXPECT_EQ(error().name, "fs.not_found");
}

TEST_F(TrainingTest, names_a_class_that_the_model_does_not_have) {
    const auto with = [&](const std::string& dtype, const Bytes& classes) {
        options_.model = write(
            "layers.json",
            as_bytes(R"({"format":"quern-arch-1","model":{"type":"layers","input":{"features":1},"layers":[)"
                     R"({"type":"linear","size":3}],"outputs":3},"data":[{"dtype":"u8","elements":2000},{"dtype":")" +
                     dtype + R"(","elements":2000}],"batch":3,"optimizer":{"type":"sgd","lr":0.1,"total_steps":40}})"));
        options_.data = {write("inputs.u8", Bytes(2000)), write("classes", classes)};
        const auto made = prepare();
        return made ? "none" : made.error().to_string();
    };
    Bytes classes(2000, 2);
    EXPECT_EQ(with("u8", classes), "none");
    classes[1700] = 3;  // who counts from 1
    EXPECT_EQ(with("u8", classes), "train.unknown_class: " + directory_ + "/classes: target 1700 is class 3, " +
                                       directory_ + "/layers.json has classes 0 to 2");
    Bytes wide(8000);
    EXPECT_EQ(with("i32", wide), "none");
    std::fill(wide.end() - 4, wide.end(), std::uint8_t{0xff});  // -1, which elsewhere is left out
    EXPECT_NE(with("i32", wide).find("target 1999 is class -1"), std::string::npos);
}

TEST_F(TrainingTest, makes_nothing_that_memory_has_no_room_for) {
    const std::string folder = job_folder(options_.out);
    const auto with = [&](std::uint64_t memory) {
        const auto made = prepare_training(options_, folder, nullptr, memory);
        return made ? "none" : std::string(made.error().name);
    };
    const auto made = prepare();
    ASSERT_TRUE(made);
    std::filesystem::remove(folder + "/init.safetensors");
    const std::uint64_t state = 2 * made->programs.any().header.sizes.state_bytes;
    EXPECT_EQ(with(state - 1), "memory.too_little");
    EXPECT_FALSE(fs::exists(folder + "/init.safetensors"));
    EXPECT_EQ(with(state), "none");
    options_.local = true;
    EXPECT_EQ(with(state), "memory.too_little") << "its steps take some too";
    EXPECT_EQ(with(state + vm::tensor::step_bytes(made->programs.any())), "none");
}

TEST_F(TrainingTest, ends_where_it_is_told_to) {
    const std::atomic<bool> stop{true};
    const auto made = prepare_training(options_, job_folder(options_.out), &stop);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().name, kStopped);
    EXPECT_FALSE(fs::exists(job_folder(options_.out) + "/init.safetensors"));
}

TEST_F(TrainingTest, needs_a_number_of_steps) {
    options_.model = write("endless.json", as_bytes(test::model_text(0)));
    EXPECT_EQ(prepare().error().name, "train.no_steps");
    options_.updates = 4;
    EXPECT_TRUE(prepare());
}

TEST_F(TrainingTest, names_the_file_that_is_no_model) {
    options_.model = write("broken.json", as_bytes("{"));
    const auto found = prepare();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().name, "arch.not_json");
    EXPECT_NE(found.error().detail.find("broken.json"), std::string::npos);
}

}  // namespace
}  // namespace quern::compute::client
