#include "compute/cost/profile.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "base/fs.h"

namespace quern::compute::cost {
namespace {

constexpr std::string_view kFormat = "quern-machine-profile-1";
constexpr std::string_view kCpuInfo = "/proc/cpuinfo";
constexpr std::size_t kMaxCpuInfo = std::size_t{4} << 20;
constexpr int kSweeps = 4000;
constexpr double kPull = 1e-4;  // of what is known beforehand, against a sample's 1

struct Known {
    Unit unit{};
    double nanoseconds = 0;
};
// Of an AVX-512 processor at about 3 GHz; elementwise operations take a thousandth of their work.
constexpr std::array kKnown{
    Known{Unit::step, 60},
    Known{Unit::tap, 60},
    Known{Unit::loop, 1000},
    Known{Unit::element_call, 12},
    Known{Unit::gathered_word, 1},
    Known{Unit::copy_row, 8},
    Known{Unit::copy_word, 0.05},
    Known{Unit::fill_word, 0.05},
    Known{Unit::turned_word, 0.6},
    Known{Unit::odd_word, 1.5},
    Known{Unit::product_call, 60},
    Known{Unit::product_step, 0.3},
    Known{Unit::product_fma, 0.17},
    Known{Unit::product_tile, 8},
    Known{Unit::product_store, 0.5},
    Known{Unit::pack_left, 0.05},
    Known{Unit::pack_left_steps, 0.1},
    Known{Unit::pack_left_far, 0.8},
    Known{Unit::pack_right, 0.05},
    Known{Unit::pack_right_turned, 0.15},
    Known{Unit::pack_right_far, 0.8},
    Known{Unit::bytes_call, 100},
    Known{Unit::bytes_step, 0.3},
    Known{Unit::bytes_dot, 0.17},
    Known{Unit::bytes_tile, 20},
    Known{Unit::bytes_store, 2},
    Known{Unit::bytes_pack, 0.1},
    Known{Unit::bytes_pack_lines, 0.15},
    Known{Unit::bytes_pack_far, 1},
    Known{Unit::sum_row, 8},
    Known{Unit::sum_chunk, 1.5},
    Known{Unit::max_row, 10},
    Known{Unit::max_chunk, 3},
    Known{Unit::rows_call, 15},
    Known{Unit::rows_strip, 2},
    Known{Unit::rows_single, 1.3},
    Known{Unit::scatter_index, 3},
    Known{Unit::scatter_number, 3},
    Known{Unit::scatter_row, 8},
    Known{Unit::scatter_word, 0.1},
    Known{Unit::gather_row, 8},
    Known{Unit::gather_word, 0.05},
    Known{Unit::random_word, 8},
    Known{Unit::random_quarter, 2},
    Known{Unit::number_word, 0.5},
    Known{Unit::kth_row, 800},
    Known{Unit::kth_word, 5},
    Known{Unit::kth_pair, 0.5},
    Known{Unit::window_row, 15},
    Known{Unit::window_byte, 0.8},
    Known{Unit::window_short, 0.8},
    Known{Unit::window_word, 0.8},
    Known{Unit::hash_tile, 2000},
    Known{Unit::hash_batch, 10'000},
    Known{Unit::tree_tile, 60},
    Known{Unit::hash_slot, 300},
    Known{Unit::read_128k, 0.005},
    Known{Unit::read_512k, 0.01},
    Known{Unit::read_2m, 0.02},
    Known{Unit::read_8m, 0.05},
    Known{Unit::read_32m, 0.08},
    Known{Unit::read_128m, 0.1},
    Known{Unit::write_128k, 0.005},
    Known{Unit::write_512k, 0.01},
    Known{Unit::write_2m, 0.03},
    Known{Unit::write_8m, 0.07},
    Known{Unit::write_32m, 0.12},
    Known{Unit::write_128m, 0.14},
};
static_assert(kKnown.size() == kUnits);

Counts known_beforehand() {
    Counts known{};
    for (const Known& each : kKnown) known[static_cast<std::size_t>(each.unit)] = each.nanoseconds;
    for (std::size_t i = kUnits; i < kCounted; ++i) known[i] = 0.006 * vm::tensor::arith::kElementOps[i - kUnits].work;
    return known;
}

double median_of(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

std::string processor_model() {
    const auto text = fs::read_text_file(std::string(kCpuInfo), kMaxCpuInfo);
    if (!text) return "unknown";
    for (const std::string_view field : {"model name", "CPU part", "Model"}) {
        const std::size_t at = text->find(field);
        if (at == std::string::npos) continue;
        const std::size_t colon = text->find(':', at);
        if (colon == std::string::npos) continue;
        const std::size_t first = std::min(text->find_first_not_of(" \t", colon + 1), text->size());
        const std::size_t end = std::min(text->find('\n', first), text->size());
        return text->substr(first, std::min<std::size_t>(end - first, 128));
    }
    return "unknown";
}

}  // namespace

ProfileKey profile_key(vm::tensor::arith::Backend backend, std::size_t threads, std::string version,
                       const std::string& card) {
    const std::size_t cpus = std::max(1U, std::thread::hardware_concurrency());
    if (threads == 0) threads = cpus;
    return {card.empty() ? processor_model() : processor_model() + " with " + card,
            {backend, threads, threads <= cpus},
            std::move(version)};
}

Profile fit_profile(ProfileKey key, std::span<const Sample> samples) {
    const Counts known = known_beforehand();
    // Unknown are the shares of what is known: x = share * known. Coordinate descent on the normal equations.
    std::vector<double> gram(kCounted * kCounted, 0);
    Counts wanted{};
    for (const Sample& sample : samples) {
        if (!(sample.nanoseconds > 0)) continue;
        Counts row{};
        for (std::size_t i = 0; i < kCounted; ++i) row[i] = sample.counts[i] * known[i] / sample.nanoseconds;
        for (std::size_t i = 0; i < kCounted; ++i) {
            if (row[i] == 0) continue;
            wanted[i] += row[i];
            for (std::size_t j = 0; j < kCounted; ++j) gram[i * kCounted + j] += row[i] * row[j];
        }
    }
    Counts share;
    share.fill(1);
    for (int sweep = 0; sweep < kSweeps; ++sweep)
        for (std::size_t i = 0; i < kCounted; ++i) {
            const double weight = gram[i * kCounted + i] + kPull;
            double rest = wanted[i] + kPull;
            for (std::size_t j = 0; j < kCounted; ++j)
                if (j != i) rest -= gram[i * kCounted + j] * share[j];
            share[i] = std::max(0.0, rest / weight);
        }
    Profile profile;
    profile.key = std::move(key);
    for (std::size_t i = 0; i < kCounted; ++i) profile.nanoseconds[i] = std::min(share[i] * known[i], kMostNanoseconds);
    std::vector<double> errors;
    for (const Sample& sample : samples) {
        double sum = 0;
        for (std::size_t i = 0; i < kCounted; ++i) sum += sample.counts[i] * profile.nanoseconds[i];
        errors.push_back(std::abs(sum / sample.nanoseconds - 1));
    }
    profile.error = median_of(std::move(errors));
    return profile;
}

json::Value to_json(const Profile& profile) {
    json::Value costs = json::Value::object();
    for (std::size_t i = 0; i < kCounted; ++i) costs.set(name_of(i), profile.nanoseconds[i]);
    json::Value value = json::Value::object({{"format", std::string(kFormat)}});
    value.set("processor", profile.key.processor);
    value.set("backend", std::string(vm::tensor::arith::name(profile.key.setup.backend)));
    value.set("threads", std::uint64_t{profile.key.setup.threads});
    value.set("spins", profile.key.setup.spins);
    value.set("version", profile.key.version);
    value.set("error", profile.error);
    value.set("nanoseconds", std::move(costs));
    return value;
}

Expected<Profile> profile_from_json(std::string_view text) {
    QUERN_TRY(const json::Value value, json::parse(text));
    QUERN_TRY(const std::string_view format, value.get_string("format"));
    if (format != kFormat) return fail("profile.bad_format", "format is not " + std::string(kFormat));
    Profile profile;
    QUERN_TRY(const std::string_view processor, value.get_string("processor"));
    QUERN_TRY(const std::string_view backend, value.get_string("backend"));
    QUERN_TRY(const std::uint64_t threads, value.get_u64("threads"));
    QUERN_TRY(profile.key.setup.spins, value.get_bool("spins"));
    QUERN_TRY(const std::string_view version, value.get_string("version"));
    QUERN_TRY(profile.error, value.get_double("error"));
    const auto known = vm::tensor::arith::find_backend(backend);
    if (!known) return fail("profile.bad_format", "backend " + std::string(backend));
    profile.key.processor = std::string(processor);
    profile.key.setup.backend = *known;
    profile.key.setup.threads = threads;
    profile.key.version = std::string(version);
    QUERN_TRY(const json::Value* const costs, value.get_object("nanoseconds"));
    const auto members = costs->members();
    if (members.size() != kCounted)
        return fail("profile.bad_format", std::to_string(members.size()) + " costs, not " + std::to_string(kCounted));
    for (std::size_t i = 0; i < kCounted; ++i) {
        QUERN_TRY(const double nanoseconds, costs->get_double(name_of(i)));
        if (!(nanoseconds >= 0 && nanoseconds <= kMostNanoseconds))
            return fail("profile.bad_value", name_of(i) + " is " + std::to_string(nanoseconds));
        profile.nanoseconds[i] = nanoseconds;
    }
    return profile;
}

Expected<std::optional<Profile>> load_profile(const std::string& path, const ProfileKey& key) {
    if (!fs::exists(path)) return std::optional<Profile>();
    QUERN_TRY(const std::string text, fs::read_text_file(path, kMaxProfileBytes));
    auto profile = profile_from_json(text);
    if (!profile || profile->key != key) return std::optional<Profile>();
    return std::optional<Profile>(std::move(*profile));
}

Status save_profile(const std::string& path, const Profile& profile) {
    const std::string text = to_json(profile).dump_pretty() + "\n";
    return fs::write_file_atomic(path, as_bytes(text));
}

}  // namespace quern::compute::cost
