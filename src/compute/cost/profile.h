// How long this machine takes for one of each thing that counts.h counts: measured by self_benchmark.h, kept in a file,
// used by predict.h. It belongs to a processor (and a card, where steps run on one), a backend of the arithmetic, a
// number of threads and a version of the program, and is measured anew where one of them is another. Plain values;
// thread-safe.
//
//   {"format": "quern-machine-profile-1", "processor": "…", "backend": "vnni", "threads": 2, "version": "0.1.0",
//    "error": 0.08, "nanoseconds": {"step": 41.5, …}}
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "compute/cost/counts.h"

namespace quern::compute::cost {

struct ProfileKey {
    std::string processor;  // the model, as the system names it; " with " and the card's name, where steps run on one
    Setup setup;
    std::string version;

    bool operator==(const ProfileKey&) const = default;
};
// Of this machine. threads: 0 means one for each CPU; card: vm::tensor::card_name() of the backend `cuda`.
[[nodiscard]] ProfileKey profile_key(vm::tensor::arith::Backend backend, std::size_t threads, std::string version,
                                     const std::string& card = {});

struct Profile {
    ProfileKey key;
    Counts nanoseconds{};
    double error = 0;  // how far the measurements that it was made of are from it, as a share of them: their median
};

// A measured time of something that was counted.
struct Sample {
    Counts counts{};
    double nanoseconds = 0;
};
// What each thing takes, so that the sums come near to the samples, as shares of them: least squares, nothing below 0,
// and what no sample tells of as on a machine of 2023. Pure.
[[nodiscard]] Profile fit_profile(ProfileKey key, std::span<const Sample> samples);

inline constexpr double kMostNanoseconds = 1e9;  // of one thing, in a file
inline constexpr std::size_t kMaxProfileBytes = std::size_t{64} << 10;
[[nodiscard]] json::Value to_json(const Profile& profile);
// Strict: each thing once, between 0 and kMostNanoseconds. Errors: profile.bad_format, profile.bad_value, json.*.
[[nodiscard]] Expected<Profile> profile_from_json(std::string_view text);

// The profile in the file, if it is of this key; nullopt when there is no file, or one of another key or form. Errors:
// fs.* where the file is there and cannot be read.
[[nodiscard]] Expected<std::optional<Profile>> load_profile(const std::string& path, const ProfileKey& key);
[[nodiscard]] Status save_profile(const std::string& path, const Profile& profile);

}  // namespace quern::compute::cost
