// What a job file says is what was saved, and what it cannot mean is refused.
#include "compute/client/job_file.h"

#include <unistd.h>

#include "chain/types/json_codec.h"
#include "compute/client/options.h"
#include "small_training.h"

namespace quern::compute::client {
namespace {

using JobFileTest = test::SmallTraining;

Job sample() {
    Job job;
    job.stage = stage::kFollowing;
    job.training.data[3] = 7;
    job.chain_id = 7878;
    job.submitter.data[0] = 1;
    job.transaction = {1, 2, 3};
    job.escrow = Uint256(5);
    job.fee = Uint256(6);
    job.task = 9;
    return job;
}

TEST_F(JobFileTest, reads_what_was_saved) {
    {
        auto file = JobFile::open(options_.out);
        ASSERT_TRUE(file) << file.error().to_string();
        EXPECT_FALSE(file->job());
        ASSERT_TRUE(file->save(sample()));
        EXPECT_TRUE(file->job());
    }
    {
        auto file = JobFile::open(options_.out);
        ASSERT_TRUE(file) << file.error().to_string();
        ASSERT_TRUE(file->job());
        EXPECT_EQ(chain::types::to_json(*file->job()), chain::types::to_json(sample()));
        ASSERT_TRUE(file->remove());
    }
    EXPECT_FALSE(JobFile::open(options_.out)->job());
}

TEST_F(JobFileTest, lets_one_process_in) {
    const auto first = JobFile::open(options_.out);
    ASSERT_TRUE(first);
    const auto second = JobFile::open(options_.out);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().name, fs::kLocked);
}

TEST_F(JobFileTest, refuses_a_folder_as_output) {
    const std::string folder = directory_ + "/models";
    ASSERT_TRUE(fs::create_directories(folder));
    for (const char* const end : {"", "/"}) {
        const auto file = JobFile::open(folder + end);
        ASSERT_FALSE(file);
        EXPECT_EQ(file.error().name, "train.out_is_a_folder");
    }
    EXPECT_FALSE(fs::exists(job_folder(folder))) << "and makes nothing beside it";
}

TEST_F(JobFileTest, refuses_what_others_have_planted) {
    const std::string folder = job_folder(options_.out);
    const std::string path = job_path(options_.out);
    const auto error_of_open = [&] {
        const auto file = JobFile::open(options_.out);
        return file ? std::string("none") : file.error().to_string();
    };
    std::filesystem::remove(folder);
    const std::string victim = directory_ + "/victim";
    ASSERT_TRUE(fs::create_directories(victim));
    std::filesystem::create_directory_symlink(victim, folder);
    EXPECT_EQ(error_of_open(), "fs.foreign: " + folder + " is a link");
    EXPECT_TRUE(std::filesystem::is_empty(victim)) << "nothing was written through it";
    std::filesystem::remove(folder);
    EXPECT_EQ(error_of_open(), "none");
    std::filesystem::permissions(folder, std::filesystem::perms(0777));
    EXPECT_EQ(error_of_open(), "fs.foreign: " + folder + " may be written to by other users");
    std::filesystem::permissions(folder, std::filesystem::perms(0755));

    const std::string text = chain::types::to_json(sample()).dump();
    const std::string elsewhere = write("elsewhere", as_bytes(text));
    std::filesystem::create_symlink(elsewhere, path);
    EXPECT_EQ(error_of_open(), "fs.foreign: " + path + " is a link");
    std::filesystem::remove(path);
    std::filesystem::create_symlink(directory_ + "/not-there", path);
    EXPECT_EQ(error_of_open(), "fs.foreign: " + path + " is a link");
    std::filesystem::remove(path);
    ASSERT_TRUE(fs::create_directories(path));
    EXPECT_EQ(error_of_open(), "fs.foreign: " + path + " is no plain file");
    std::filesystem::remove(path);
    ASSERT_TRUE(fs::write_file_atomic(path, as_bytes(text), 0666));
    std::filesystem::permissions(path, std::filesystem::perms(0620));
    EXPECT_EQ(error_of_open(), "fs.foreign: " + path + " may be written to by other users");
    std::filesystem::permissions(path, std::filesystem::perms(0644));
    EXPECT_EQ(error_of_open(), "none");
    if (::geteuid() != 0) return;  // the others need root
    constexpr uid_t kSomebody = 12'345;
    ASSERT_EQ(::chown(path.c_str(), kSomebody, kSomebody), 0);
    EXPECT_EQ(error_of_open(), "fs.foreign: " + path + " is another user's");
    std::filesystem::remove(path);
    ASSERT_EQ(::chown(folder.c_str(), kSomebody, kSomebody), 0);
    EXPECT_EQ(error_of_open(), "fs.foreign: " + folder + " is another user's");
}

TEST_F(JobFileTest, refuses_what_it_cannot_mean) {
    json::Value good = chain::types::to_json(sample());
    const auto error_of = [&](const std::string& text) {
        EXPECT_TRUE(fs::write_file_atomic(job_path(options_.out), as_bytes(text)));
        const auto file = JobFile::open(options_.out);
        return file ? std::string("none") : std::string(file.error().name);
    };
    EXPECT_EQ(error_of(good.dump()), "none");
    EXPECT_EQ(error_of(good.dump().substr(0, 40)), "train.bad_job");
    json::Value other = good;
    other.set("format", "quern-train-job-2");
    EXPECT_EQ(error_of(other.dump()), "train.bad_job");
    other = good;
    other.set("stage", "resting");
    EXPECT_EQ(error_of(other.dump()), "train.bad_job");
    other = good;
    other.set("more", 1);
    EXPECT_EQ(error_of(other.dump()), "train.bad_job");
    other = good;
    other.erase("task");
    EXPECT_EQ(error_of(other.dump()), "train.bad_job");
}

}  // namespace
}  // namespace quern::compute::client
