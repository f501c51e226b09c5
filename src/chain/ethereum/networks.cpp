#include "chain/ethereum/networks.h"

#include <array>
#include <charconv>

namespace quern::chain::ethereum {
namespace {

constexpr std::string_view kDao = "Dao";

constexpr BlobSchedule kCancunBlobs{3, 6, 3'338'477};  // EIP-4844
constexpr BlobSchedule kPragueBlobs{6, 9, 5'007'716};  // EIP-7691

// Delays by EIPs 649, 1234, 2384, 3554, 4345 and 5133. The schedules of the forks that change nothing else (EIP-7892)
// are those of the official tests, which name them as well.
constexpr std::array<Fork, 25> kForks{{
    {"Frontier", Revision::frontier, 0, {}},
    {"Homestead", Revision::homestead, 0, {}},
    {kDao, Revision::homestead, 0, {}},
    {"EIP150", Revision::tangerine_whistle, 0, {}},
    {"EIP158", Revision::spurious_dragon, 0, {}},
    {"Byzantium", Revision::byzantium, 3'000'000, {}},
    {"Constantinople", Revision::constantinople, 5'000'000, {}},
    {"ConstantinopleFix", Revision::petersburg, 5'000'000, {}},
    {"Petersburg", Revision::petersburg, 5'000'000, {}},
    {"Istanbul", Revision::istanbul, 5'000'000, {}},
    {"MuirGlacier", Revision::istanbul, 9'000'000, {}},
    {"Berlin", Revision::berlin, 9'000'000, {}},
    {"London", Revision::london, 9'700'000, {}},
    {"ArrowGlacier", Revision::london, 10'700'000, {}},
    {"GrayGlacier", Revision::london, 11'400'000, {}},
    {"Paris", Revision::paris, 0, {}},
    {"Merge", Revision::paris, 0, {}},
    {"Shanghai", Revision::shanghai, 0, {}},
    {"Cancun", Revision::cancun, 0, kCancunBlobs},
    {"Prague", Revision::prague, 0, kPragueBlobs},
    {"Osaka", Revision::osaka, 0, kPragueBlobs},
    {"BPO1", Revision::osaka, 0, {10, 15, 8'346'193}},
    {"BPO2", Revision::osaka, 0, {14, 21, 11'684'671}},
    {"BPO3", Revision::osaka, 0, {21, 32, 20'609'697}},
    {"BPO4", Revision::osaka, 0, {14, 21, 13'739'630}},
}};

const Fork* find(std::string_view name) {
    for (const Fork& fork : kForks)
        if (fork.name == name) return &fork;
    return nullptr;
}

// "15k" is 15,000.
std::optional<std::uint64_t> parse_decimal(std::string_view text) {
    const bool is_thousands = text.ends_with('k');
    if (is_thousands) text.remove_suffix(1);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    constexpr std::uint64_t kMaxThousands = 1'000'000'000'000;
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || number > kMaxThousands)
        return std::nullopt;
    return is_thousands ? 1'000 * number : number;
}

// What stands behind `prefix`, if it begins so.
std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return std::nullopt;
    return text.substr(prefix.size());
}

}  // namespace

Expected<Network> Network::parse(std::string_view name) {
    Network network;
    if (const Fork* fork = find(name)) {
        network.before_ = network.after_ = *fork;
        return network;
    }
    const auto unknown = [&] { return fail("ethereum.unknown_network", std::string(name)); };
    const std::size_t at = name.rfind("At");
    if (at == std::string_view::npos) return unknown();
    const std::string_view forks = name.substr(0, at);
    const std::string_view when = name.substr(at + 2);
    // No fork's name has "To" in it.
    const std::size_t to = forks.find("To");
    const Fork* before = to == std::string_view::npos ? nullptr : find(forks.substr(0, to));
    const Fork* after_it = to == std::string_view::npos ? nullptr : find(forks.substr(to + 2));
    if (before == nullptr || after_it == nullptr) return unknown();
    network.before_ = *before;
    network.after_ = *after_it;
    if (const auto time = after(when, "Time")) {
        const auto seconds = parse_decimal(*time);
        if (!seconds) return unknown();
        network.trigger_ = Trigger::timestamp;
        network.threshold_ = *seconds;
    } else if (const auto difficulty = after(when, "Diff")) {
        const auto total = Uint256::from_hex_quantity("0x" + std::string(*difficulty));
        if (!total) return unknown();
        network.trigger_ = Trigger::total_difficulty;
        network.threshold_ = *total;
    } else {
        const auto number = parse_decimal(when);
        if (!number) return unknown();
        network.trigger_ = Trigger::number;
        network.threshold_ = *number;
    }
    return network;
}

void Network::set_blob_schedule(std::string_view fork, const BlobSchedule& schedule) {
    for (Fork* each : {&before_, &after_})
        if (each->name == fork) each->blobs = schedule;
}

const Fork& Network::fork_of(std::uint64_t number, std::uint64_t timestamp,
                             const Uint256& parent_total_difficulty) const {
    switch (trigger_) {
        case Trigger::never:
            return after_;
        case Trigger::number:
            return Uint256(number) >= threshold_ ? after_ : before_;
        case Trigger::timestamp:
            return Uint256(timestamp) >= threshold_ ? after_ : before_;
        case Trigger::total_difficulty:
            return parent_total_difficulty >= threshold_ ? after_ : before_;
    }
    return after_;
}

std::optional<std::uint64_t> Network::dao_block() const {
    if (after_.name != kDao || trigger_ != Trigger::number) return std::nullopt;
    return threshold_.low_u64();
}

}  // namespace quern::chain::ethereum
