#include "compute/client/job_file.h"

#include <filesystem>

#include "chain/types/json_codec.h"
#include "compute/client/options.h"
#include "crypto/hash.h"

namespace quern::compute::client {
namespace {

constexpr std::size_t kMaxJobBytes = std::size_t{4} << 20;  // a transaction in hex
constexpr unsigned kPrivate = 0600;

Expected<Job> parse_job(const std::string& text) {
    QUERN_TRY(const json::Value json, json::parse(text));
    QUERN_TRY(Job job, chain::types::record_from_json<Job>(json, chain::types::ExtraMembers::refuse));
    if (job.format != kJobFormat) return fail("train.bad_job", "format " + job.format);
    for (const std::string_view known :
         {stage::kSubmitting, stage::kFollowing, stage::kDone, stage::kEnded, stage::kLocal})
        if (job.stage == known) return job;
    return fail("train.bad_job", "stage " + job.stage);
}

}  // namespace

Hash32 training_id(const chain::types::TaskSubmitPayload& spec) {
    chain::types::TaskSubmitPayload asked = spec;
    asked.money = {};
    return crypto::sha256(chain::types::encode_record(asked));
}

Expected<JobFile> JobFile::open(const std::string& out) {
    std::error_code unknown;
    if (std::filesystem::is_directory(out, unknown)) return fail("train.out_is_a_folder", out + ": --out names a file");
    const std::string folder = job_folder(out);
    QUERN_CHECK(fs::create_directories(folder, 0700));
    // What another user has planted would say where this one writes, what it deletes, and what it has verified.
    QUERN_CHECK(fs::check_own_directory(folder));
    QUERN_TRY(fs::LockFile lock, fs::LockFile::acquire(folder + "/lock"));
    JobFile file(job_path(out), folder, std::move(lock));
    QUERN_CHECK(fs::check_own_file(file.path_));
    if (!fs::exists(file.path_)) return file;
    QUERN_TRY(const std::string text, fs::read_text_file(file.path_, kMaxJobBytes));
    auto job = parse_job(text);
    if (!job)
        return fail("train.bad_job", file.path_ + ": " + job.error().to_string() +
                                         "; if a task of it is on the chain, it goes on without this file");
    file.job_ = std::move(*job);
    return file;
}

Status JobFile::save(Job job) {
    const json::Value json = chain::types::to_json(job);
    QUERN_CHECK(fs::write_file_atomic(path_, as_bytes(json.dump_pretty() + "\n"), kPrivate));
    job_ = std::move(job);
    return {};
}

Status JobFile::remove() {
    QUERN_CHECK(fs::remove_file(path_));
    job_.reset();
    return {};
}

}  // namespace quern::compute::client
