// Profiles of machines: fitted to samples, kept in files.
#include "compute/cost/profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/fs.h"
#include "compute/cost/self_benchmark.h"
#include "compute/cost/trials.h"

namespace quern::compute::cost {
namespace {

using vm::tensor::PlanMode;
using vm::tensor::arith::Backend;

const ProfileKey kKey{"some processor", {Backend::avx512, 2, true}, "1.2.3"};

Profile some_profile() {
    Profile profile;
    profile.key = kKey;
    profile.error = 0.25;
    for (std::size_t i = 0; i < kCounted; ++i) profile.nanoseconds[i] = 0.125 * static_cast<double>(i);
    return profile;
}

struct Folder {
    std::string path = (std::filesystem::temp_directory_path() / ("quern-cost-" + std::to_string(getpid()))).string();
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] std::string file() const { return path + "/profile.json"; }
};

Counts counts_of(const Trial& trial, const Setup& setup) {
    if (trial.kind == TrialKind::commit) return count_commitment(trial.program, setup);
    Counts sum{};
    count_step(trial.program, trial.kind == TrialKind::tapped ? PlanMode::tapped : PlanMode::step, setup,
               [&](std::uint32_t, const Counts& counts) {
                   for (std::size_t i = 0; i < kCounted; ++i) sum[i] += counts[i];
               });
    return sum;
}

std::string error_of(std::string_view text) {
    const auto profile = profile_from_json(text);
    return profile ? std::string() : std::string(profile.error().name);
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    const std::size_t place = text.find(what);
    EXPECT_NE(place, std::string::npos) << what;
    return text.replace(place, what.size(), with);
}

TEST(Profile, names_tell_everything_that_is_counted_apart) {
    std::set<std::string> names;
    for (std::size_t i = 0; i < kCounted; ++i) {
        EXPECT_TRUE(names.insert(name_of(i)).second) << name_of(i);
        EXPECT_EQ(counted_of(name_of(i)), i);
    }
    EXPECT_EQ(counted_of("nothing"), kCounted);
    EXPECT_EQ(name_of(kCounted), "");
}

TEST(Profile, is_read_as_it_was_written) {
    const Profile profile = some_profile();
    const auto read = profile_from_json(to_json(profile).dump_pretty());
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->key, profile.key);
    EXPECT_EQ(read->nanoseconds, profile.nanoseconds);
    EXPECT_EQ(read->error, profile.error);
}

TEST(Profile, refuses_what_is_none) {
    const std::string text = to_json(some_profile()).dump_pretty();
    EXPECT_EQ(error_of(text), "");
    EXPECT_EQ(error_of("{}"), "json.missing_field");
    EXPECT_EQ(error_of(replaced(text, "quern-machine-profile-1", "quern-machine-profile-2")), "profile.bad_format");
    EXPECT_EQ(error_of(replaced(text, "\"avx512\"", "\"abacus\"")), "profile.bad_format");
    EXPECT_EQ(error_of(replaced(text, "\"step\": 0", "\"step\": -1")), "profile.bad_value");
    EXPECT_EQ(error_of(replaced(text, "\"step\": 0", "\"step\": 20000000000")), "profile.bad_value");
    EXPECT_EQ(error_of(replaced(text, "\"step\"", "\"stepp\"")), "json.missing_field");
    EXPECT_EQ(error_of(replaced(text, "\"step\"", "\"more\": 1, \"step\"")), "profile.bad_format");
}

TEST(Profile, is_of_one_machine) {
    const Folder folder;
    const auto load = [&](const ProfileKey& key) {
        const auto loaded = load_profile(folder.file(), key);
        EXPECT_TRUE(loaded);
        return loaded && loaded->has_value();
    };
    EXPECT_FALSE(load(kKey)) << "there is no file";
    ASSERT_TRUE(save_profile(folder.file(), some_profile()));
    EXPECT_TRUE(load(kKey));
    for (const auto& change : std::vector<std::function<void(ProfileKey&)>>{
             [](ProfileKey& key) { key.processor = "another"; }, [](ProfileKey& key) { key.version = "1.2.4"; },
             [](ProfileKey& key) { key.setup.threads = 1; },
             [](ProfileKey& key) { key.setup.backend = Backend::avx2; }}) {
        ProfileKey other = kKey;
        change(other);
        EXPECT_FALSE(load(other));
    }
    ASSERT_TRUE(fs::write_file_atomic(folder.file(), as_bytes(std::string_view("{"))));
    EXPECT_FALSE(load(kKey)) << "it is measured anew";
    const std::string long_text(kMaxProfileBytes + 1, ' ');
    ASSERT_TRUE(fs::write_file_atomic(folder.file(), as_bytes(long_text)));
    const auto loaded = load_profile(folder.file(), kKey);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().name, "fs.too_large");
}

TEST(Profile, of_this_machine_names_its_threads) {
    EXPECT_GE(profile_key(Backend::scalar, 0, "1").setup.threads, 1U);
    EXPECT_EQ(profile_key(Backend::scalar, 3, "1").setup.threads, 3U);
    EXPECT_FALSE(profile_key(Backend::scalar, 100'000, "1").setup.spins);
    EXPECT_FALSE(profile_key(Backend::scalar, 1, "1").processor.empty());
}

TEST(Profile, is_found_again_in_samples_of_it) {
    const auto trials = make_trials();
    ASSERT_TRUE(trials) << trials.error().to_string();
    for (const cost::Setup& setup : {cost::Setup{Backend::avx512, 1, true}, cost::Setup{Backend::scalar, 4, false}}) {
        Profile machine = fit_profile({}, {});  // what is known beforehand
        for (std::size_t i = 0; i < kCounted; ++i) machine.nanoseconds[i] *= 0.5 + static_cast<double>(i % 5);
        std::vector<Sample> samples;
        for (const Trial& trial : *trials) {
            Sample sample{counts_of(trial, setup), 0};
            for (std::size_t i = 0; i < kCounted; ++i) sample.nanoseconds += sample.counts[i] * machine.nanoseconds[i];
            samples.push_back(sample);
        }
        const Profile fitted = fit_profile({"p", setup, "1"}, samples);
        EXPECT_LT(fitted.error, 0.01);
        for (const Sample& sample : samples) {
            double sum = 0;
            for (std::size_t i = 0; i < kCounted; ++i) sum += sample.counts[i] * fitted.nanoseconds[i];
            EXPECT_NEAR(sum / sample.nanoseconds, 1, 0.1);
        }
        for (std::size_t i = 0; i < kCounted; ++i) {
            EXPECT_TRUE(std::isfinite(fitted.nanoseconds[i]));
            EXPECT_GE(fitted.nanoseconds[i], 0);
        }
    }
}

TEST(Profile, of_absurd_samples_is_still_one) {
    std::vector<Sample> samples(3);
    samples[0].counts.fill(1e300);
    samples[0].nanoseconds = 1e-300;
    samples[1].nanoseconds = 0;
    samples[2].counts[0] = 1;
    samples[2].nanoseconds = 1e300;
    const Profile fitted = fit_profile({}, samples);
    for (const double each : fitted.nanoseconds) EXPECT_TRUE(each >= 0 && each <= kMostNanoseconds);
}

// Nothing is left to what was known beforehand but what no program of one op can show.
TEST(Trials, show_everything_that_is_counted) {
    const auto trials = make_trials();
    ASSERT_TRUE(trials) << trials.error().to_string();
    Counts sum{};
    for (const Trial& trial : *trials) {
        EXPECT_TRUE(vm::tensor::validate(trial.program)) << trial.name;
        EXPECT_TRUE(vm::tensor::check_state(trial.program, trial_state(trial.program))) << trial.name;
        const Counts counts = counts_of(trial, {Backend::avx512, 2, true});
        for (std::size_t i = 0; i < kCounted; ++i) sum[i] += counts[i];
    }
    // Of iota only nodes that are too large to be known beforehand; gathered where memory is short.
    const std::set<std::string> unseen{"number_word", "gathered_word"};
    for (std::size_t i = 0; i < kCounted; ++i) EXPECT_EQ(sum[i] == 0, unseen.contains(name_of(i))) << name_of(i);
}

TEST(SelfBenchmark, ends_when_it_is_told_to) {
    const Cancellation cancelled([] { return true; });
    const auto profile = measure_profile(kKey, &cancelled);
    ASSERT_FALSE(profile);
    EXPECT_EQ(profile.error().name, "profile.cancelled");
}

TEST(SelfBenchmark, takes_what_was_measured_before) {
    const Folder folder;
    ASSERT_TRUE(save_profile(folder.file(), some_profile()));
    const Cancellation cancelled([] { return true; });
    const auto profile = load_or_measure(folder.file(), kKey, &cancelled);
    ASSERT_TRUE(profile) << profile.error().to_string();
    EXPECT_EQ(profile->nanoseconds, some_profile().nanoseconds);
    ProfileKey other = kKey;
    other.version = "2";
    EXPECT_FALSE(load_or_measure(folder.file(), other, &cancelled)) << "it would have been measured";
}

TEST(SelfBenchmark, a_processor_is_not_taken_for_a_card) {
    const Status card = vm::tensor::check_backend(Backend::cuda);
    if (card) GTEST_SKIP() << "there is a card";
    const ProfileKey key = profile_key(Backend::cuda, 1, "1.2.3", "a card that has gone");
    const auto measured = measure_profile(key);
    ASSERT_FALSE(measured);
    EXPECT_EQ(measured.error().name, card.error().name);
    // The processor's own profile is: here a saved one.
    const Folder folder;
    Profile processors = some_profile();
    processors.key = profile_key(vm::tensor::arith::best_backend(), 1, "1.2.3");
    ASSERT_TRUE(save_profile(folder.file(), processors));
    const auto profile = load_or_measure(folder.file(), key);
    ASSERT_TRUE(profile) << profile.error().to_string();
    EXPECT_EQ(profile->key, processors.key);
    EXPECT_EQ(profile->nanoseconds, processors.nanoseconds);
}

TEST(Profile, another_card_has_another_key) {
    const ProfileKey key = profile_key(Backend::cuda, 1, "1.2.3", "NVIDIA A100");
    EXPECT_EQ(key.processor, profile_key(Backend::scalar, 1, "1.2.3").processor + " with NVIDIA A100");
    EXPECT_NE(key, profile_key(Backend::cuda, 1, "1.2.3", "NVIDIA H100"));
}

}  // namespace
}  // namespace quern::compute::cost
