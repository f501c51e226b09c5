// What one training has come to, as a file beside its output, so that the same command goes on with it after whatever
// ended it: of a task the signed transaction, saved before it is sent, so that nobody pays twice; of a local training
// the newest checkpoint. Used by quern-train. One thread; a lock keeps other processes out.
//
//   OUT.job.json = {"format": "quern-train-job-1", "stage", "training", ...}      the fields below, JSON of a record
#pragma once

#include <optional>
#include <string>

#include "base/fs.h"
#include "chain/types/fields.h"
#include "chain/types/native_tx.h"

namespace quern::compute::client {

inline constexpr std::string_view kJobFormat = "quern-train-job-1";

namespace stage {
inline constexpr std::string_view kSubmitting = "submitting";  // the transaction may be on its way
inline constexpr std::string_view kFollowing = "following";    // the task is on the chain
inline constexpr std::string_view kDone = "done";              // the output is written, or was
inline constexpr std::string_view kEnded = "ended";            // without a result
inline constexpr std::string_view kLocal = "local";
}  // namespace stage

struct Job {
    std::string format{kJobFormat};
    std::string stage;
    Hash32 training;  // training_id(): what a command asks for
    // Of a task.
    std::uint64_t chain_id = 0;
    chain::types::Address submitter;
    Bytes transaction;  // the signed envelope
    Uint256 escrow;     // at submission
    Uint256 fee;        // the most before the receipt, then what was paid
    std::uint64_t task = 0;
    // Of a local training.
    std::uint64_t step = 0;
    Hash32 state_root;  // of the file state-<step>.safetensors in the job's folder
    QUERN_FIELDS(v("format", format), v("stage", stage), v("training", training), v("chainId", chain_id),
                 v("submitter", submitter), v("transaction", transaction), v("escrow", escrow), v("fee", fee),
                 v("task", task), v("step", step), v("stateRoot", state_root))
};

// What tells one training from another: a hash of the task's specification without its money.
[[nodiscard]] Hash32 training_id(const chain::types::TaskSubmitPayload& spec);

class JobFile {
public:
    // Makes the job's folder, locks it and reads the file, where there is one. Errors: fs.*; fs.foreign (one of them is
    // a link, another user's, or others may write to it); fs.locked (another process trains to this output);
    // train.out_is_a_folder; train.bad_job (the file is damaged, or another version's).
    [[nodiscard]] static Expected<JobFile> open(const std::string& out);

    [[nodiscard]] const std::optional<Job>& job() const { return job_; }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const std::string& folder() const { return folder_; }
    // On disk before it returns. Errors: fs.*.
    [[nodiscard]] Status save(Job job);
    [[nodiscard]] Status remove();

private:
    JobFile(std::string path, std::string folder, fs::LockFile lock)
        : path_(std::move(path)), folder_(std::move(folder)), lock_(std::move(lock)) {}

    std::string path_;
    std::string folder_;
    fs::LockFile lock_;
    std::optional<Job> job_;
};

}  // namespace quern::compute::client
