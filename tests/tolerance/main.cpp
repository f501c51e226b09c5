// quern-tolerance: what tolerance mode refuses and what it lets pass, measured (doc/tolerance.md). It trains on
// libtorch, replays canonically and takes the distances by the distance program; contrib/tolerance.sh draws what it
// writes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>

#include "bin/device_option.h"
#include "bin/terminal.h"
#include "compute/core/verification_report.h"
#include "compute/tolerance/judge/largest.h"
#include "crypto/hash.h"
#include "tolerance/attacks.h"

namespace quern::tolerance_lab {
namespace {

using compute::tolerance::Limits;
using compute::tolerance::Measure;

struct Options {
    std::string text;
    std::string csv;
    std::string model = "small";
    std::vector<std::string> loose;
    std::uint64_t segments = 300;
    std::uint64_t k = 4;
    std::uint64_t gap = 20;  // steps between the starts of two measured segments
    std::uint64_t longest = 64;
    std::uint32_t batch = 16;
    float cap = 1e-2F;             // of a segment's l2
    std::string products = "f32";  // of the solver and of the profilers
    std::string device = kDefaultDevice;
};

double number(std::uint32_t word) { return static_cast<double>(__builtin_bit_cast(float, word)); }
std::uint32_t word_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }

class Table {
public:
    Table(const std::string& path, const std::string& head) : file_(path) {
        file_ << head << "\n";
        if (!file_) give_up("cannot write " + path);
    }
    ~Table() = default;
    template <class... Parts>
    void row(const Parts&... parts) {
        bool first = true;
        ((file_ << (first ? "" : ",") << parts, first = false), ...);
        file_ << "\n" << std::flush;
        if (!file_) give_up("cannot write the table");
    }

private:
    std::ofstream file_;
};

std::string measured_cells(const Measured& measured) {
    std::string cells;
    for (std::size_t m = 0; m < compute::tolerance::kMeasures; ++m) {
        std::array<char, 32> text{};
        std::snprintf(text.data(), text.size(), "%.6g", number(measured.words[m]));
        cells.append(m == 0 ? "" : ",").append(text.data());
    }
    return cells;
}
constexpr const char* kMeasuredHead = "l2,linf,moments,rest,exact,movement,cosine,loose";

std::unique_ptr<Lab> make_lab(const Options& options, compute::program::Architecture& architecture) {
    std::vector<Bytes> data;
    if (options.model == "convolution") {
        architecture = convolution();
        data = random_images(architecture);
    } else {
        std::ifstream file(options.text, std::ios::binary);
        const Bytes text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        if (text.size() < 20'000)
            give_up("the text " + options.text + " has " + std::to_string(text.size()) + " bytes");
        architecture = transformer_of(options.model == "reference", text.size());
        architecture.batch = options.batch;
        data = {tokens_of(text)};
    }
    auto lab = std::make_unique<Lab>(architecture, std::move(data), options.loose);
    std::uint64_t parameters = 0;
    for (std::size_t s = 0; s < lab->program().slots.size(); ++s)
        if (lab->classes()[s] == compute::tolerance::distance::Class::parameter)
            parameters += lab->program().slots[s].shape.elements();
    std::printf("%llu parameters; a step %llu work units, a distance %llu\n",
                static_cast<unsigned long long>(parameters),
                static_cast<unsigned long long>(lab->segment().training.header.work_units),
                static_cast<unsigned long long>(lab->segment().distance.header.work_units));
    return lab;
}

struct Named {
    const char* name;
    Backend backend;
};
constexpr std::array<Named, 4> kBackends{{{"f32 1 thread", {1, Products::f32}},
                                          {"f32 2 threads", {2, Products::f32}},
                                          {"f64 products", {1, Products::f64}},
                                          {"bf16 products", {1, Products::bf16}}}};
constexpr std::array<Named, 2> kCudaBackends{
    {{"f32 cuda", {1, Products::f32, Device::cuda}}, {"bf16 products cuda", {1, Products::bf16, Device::cuda}}}};

// How far backends are from the replay after k steps.
void measure_noise(const Options& options) {
    compute::program::Architecture architecture;
    const auto made = make_lab(options, architecture);
    Lab& lab = *made;
    std::vector<Named> backends(kBackends.begin(), kBackends.end());
    if (must(compute::torch_backend::find_device(options.device), "device") == Device::cuda)
        backends.insert(backends.end(), kCudaBackends.begin(), kCudaBackends.end());
    Table table(options.csv, std::string("backend,segment,k,") + kMeasuredHead + ",worst slot,its l2,its share");
    State start = lab.initial(1);
    for (std::uint64_t segment = 0; segment < options.segments; ++segment) {
        std::map<std::uint64_t, State> replayed;
        State state = start;
        for (std::uint64_t k = 1, done = 0; k <= options.longest; done = k, k *= 2) {
            lab.replay(state, k - done);
            replayed[k] = state;
        }
        for (const auto& [name, backend] : backends) {
            State claimed = start;
            for (std::uint64_t k = 1, done = 0; k <= options.longest; done = k, k *= 2) {
                lab.train(claimed, k - done, {.backend = backend});
                const auto worst = lab.worst_slot(start, replayed[k], claimed);
                table.row(name, segment, k, measured_cells(lab.measure(start, replayed[k], claimed)), worst.slot,
                          worst.l2, worst.share);
            }
        }
        lab.replay(start, options.gap);
    }
}

// What a solver of these products and its profilers run on, as quern-profile has them.
using Backends = std::array<Named, 3>;
constexpr Backends kF32Backends{{kBackends[0], kBackends[1], kBackends[2]}};
constexpr Backends kBf16Backends{
    {{"bf16 1 thread", {1, Products::bf16}}, {"bf16 2 threads", {2, Products::bf16}}, kBackends[0]}};
const Backends& backends_of(const Options& options) {
    return options.products == "bf16" ? kBf16Backends : kF32Backends;
}

// Three profilers, before the training begins: from S_0 on, each with a backend of its own.
Limits profile(Lab& lab, const Options& options) {
    constexpr std::uint64_t kProfiled = 12;
    std::vector<compute::tolerance::profile::Profiler> profilers;
    for (const auto& [name, backend] : backends_of(options)) profilers.push_back(lab.profiler(name, backend));
    const auto profiles = must(
        compute::tolerance::profile::profile_segments(lab.meter(), profilers, lab.initial(1), options.k, kProfiled),
        "profiles");
    const compute::tolerance::Terms terms{word_of(options.cap),
                                          word_of(options.cap * static_cast<float>(options.segments)),
                                          options.segments,
                                          word_of(16.0F),
                                          {}};
    const Limits limits = must(compute::tolerance::derive_limits(profiles, terms), "limits");
    std::printf("limits: l2 %.3g, linf %.3g, moments %.3g, rest %.3g, movement %.3g to %.3g\n", number(limits.l2),
                number(limits.linf), number(limits.moments), number(limits.rest), number(limits.least_movement),
                number(limits.most_movement));
    return limits;
}

struct Summary {
    std::vector<double> l2;
    std::uint64_t accepted = 0;
    std::map<std::string, std::uint64_t> reasons;
};

class Corpus {
public:
    Corpus(Lab& lab, const Options& options, const Limits& limits)
        : lab_(lab),
          k_(options.k),
          limits_(limits),
          table_(options.csv, std::string("kind,segment,k,") + kMeasuredHead + ",verdict") {}

    void judge(const std::string& kind, std::size_t segment, const State& previous, const State& replayed,
               const State& claimed) {
        const Measured measured = lab_.measure(previous, replayed, claimed);
        const auto refused = refused_by(measured, limits_);
        const std::string verdict =
            refused ? std::string(compute::tolerance::kMeasureNames[static_cast<std::size_t>(*refused)]) : "accepted";
        table_.row(kind, segment, k_, measured_cells(measured), verdict);
        Summary& summary = summaries_[kind];
        summary.l2.push_back(number(measured[Measure::l2]));
        if (refused)
            ++summary.reasons[verdict];
        else
            ++summary.accepted;
    }
    void print() {
        for (auto& [kind, summary] : summaries_) {
            std::sort(summary.l2.begin(), summary.l2.end());
            std::string reasons;
            for (const auto& [reason, count] : summary.reasons)
                reasons.append(" ").append(reason).append(" ").append(std::to_string(count));
            std::printf("%-22s %4zu segments, %4llu accepted; l2 %.3g / %.3g / %.3g; refused by:%s\n", kind.c_str(),
                        summary.l2.size(), static_cast<unsigned long long>(summary.accepted), summary.l2.front(),
                        summary.l2[summary.l2.size() / 2], summary.l2.back(), reasons.c_str());
        }
    }

private:
    Lab& lab_;
    std::uint64_t k_;
    Limits limits_;
    Table table_;
    std::map<std::string, Summary> summaries_;
};

Histories histories_of(const Lab& lab, const Options& options) {
    Histories histories{options.k, {lab.initial(1)}, {lab.initial(2)}};
    const Tensor other_seed{vm::tensor::DType::i32, compute::program::vector_shape(4), {7, 8, 9, 10}};
    for (std::uint64_t i = 1; i <= options.segments; ++i) {
        histories.honest.push_back(histories.honest.back());
        lab.train(histories.honest.back(), options.k, {.backend = backends_of(options)[i % 2].backend});
        histories.other.push_back(histories.other.back());
        lab.train(histories.other.back(), options.k, {.seed = &other_seed});
    }
    return histories;
}

void run_corpus(const Options& options) {
    compute::program::Architecture architecture;
    const auto made = make_lab(options, architecture);
    Lab& lab = *made;
    const Limits limits = profile(lab, options);
    Corpus corpus(lab, options, limits);
    const Histories histories = histories_of(lab, options);
    const std::vector<Attack> attacks = attack_corpus(lab, architecture, histories);
    for (std::uint64_t i = 1; i <= options.segments; ++i) {
        const State& previous = histories.honest[i - 1];
        State replayed = previous;
        lab.replay(replayed, options.k);
        corpus.judge("honest", i, previous, replayed, histories.honest[i]);
        for (const Attack& attack : attacks) {
            const Forged forged = attack.forge(i);
            if (forged.honest_start) {
                corpus.judge(attack.name, i, previous, replayed, forged.claimed);
                continue;
            }
            State own = forged.previous;
            lab.replay(own, options.k);
            corpus.judge(attack.name, i, forged.previous, own, forged.claimed);
        }
    }
    corpus.print();
}

// Of a history in which one segment is forged: how far that one moves, and how many of the others move as far, so that
// it is not among the largest.
void rank_forgeries(const Options& options) {
    compute::program::Architecture architecture;
    const auto made = make_lab(options, architecture);
    Lab& lab = *made;
    const Histories histories = histories_of(lab, options);
    const auto movement = [&](const State& from, const State& to) {
        return number(lab.measure(from, to, to)[Measure::movement]);
    };
    std::vector<double> honest;
    for (std::uint64_t i = 1; i <= options.segments; ++i)
        honest.push_back(movement(histories.honest[i - 1], histories.honest[i]));
    Table table(options.csv, "attack,segment,movement,honest,as large");
    for (const Attack& attack : attack_corpus(lab, architecture, histories)) {
        std::map<std::size_t, std::size_t> found{{1, 0}, {4, 0}, {16, 0}};
        std::vector<double> ratios;
        for (std::uint64_t i = 1; i <= options.segments; ++i) {
            const Forged forged = attack.forge(i);
            const double moved = movement(forged.previous, forged.claimed);
            const auto as_large = static_cast<std::size_t>(
                std::count_if(honest.begin(), honest.end(), [&](double other) { return other >= moved; }) -
                (honest[i - 1] >= moved ? 1 : 0));
            for (auto& [largest, count] : found) count += as_large < largest ? 1 : 0;
            ratios.push_back(moved / honest[i - 1]);
            table.row(attack.name, i, moved, honest[i - 1], as_large);
        }
        std::sort(ratios.begin(), ratios.end());
        std::printf("%-22s moves %.3g times as far; among the largest 1, 4, 16: %zu, %zu, %zu of %llu\n",
                    attack.name.c_str(), ratios[ratios.size() / 2], found[1], found[4], found[16],
                    static_cast<unsigned long long>(options.segments));
    }
    std::sort(honest.begin(), honest.end(), std::greater<>());
    std::printf("honest: the largest %.3g, the 4th %.3g, the 16th %.3g, the median %.3g\n", honest[0],
                honest[std::min<std::size_t>(3, honest.size() - 1)],
                honest[std::min<std::size_t>(15, honest.size() - 1)], honest[honest.size() / 2]);
}

// What a limit of l2 lets pass of an altered learning rate.
void measure_rates(const Options& options) {
    compute::program::Architecture architecture;
    const auto made = make_lab(options, architecture);
    Lab& lab = *made;
    Table table(options.csv, std::string("factor,segment,k,") + kMeasuredHead);
    State start = lab.initial(1);
    for (std::uint64_t segment = 0; segment < options.segments; ++segment) {
        State replayed = start;
        lab.replay(replayed, options.k);
        for (const float factor :
             {1.0F, 1.0001F, 1.0002F, 1.0005F, 1.001F, 1.002F, 1.005F, 1.01F, 1.02F, 1.05F, 1.1F}) {
            const State claimed = train_at_rate(lab, architecture, start, options.k, factor);
            table.row(factor, segment, options.k, measured_cells(lab.measure(start, replayed, claimed)));
        }
        lab.replay(start, options.gap);
    }
}

// How often the samples hold a forged segment: 30 of 300, which move half as much as the others, so that no choice of
// the largest finds one.
void count_samples(const Options& options) {
    constexpr std::size_t kSegments = 300;
    constexpr std::size_t kForged = 30;
    constexpr std::size_t kLargest = 10;
    constexpr std::uint32_t kBeacons = 4000;
    Table table(options.csv, "drawn,largest alone,drawn and largest,formula");
    std::vector<std::uint32_t> said(kSegments, word_of(1.0F));
    for (std::size_t i = 0; i < kForged; ++i) said[i * 10] = word_of(0.5F);
    double missed = 1;
    for (std::uint64_t drawn = 0; drawn <= 40; ++drawn) {
        std::array<double, 2> found{};
        for (std::uint32_t b = 0; b < kBeacons; ++b) {
            const std::array<std::uint8_t, 4> bytes{static_cast<std::uint8_t>(b), static_cast<std::uint8_t>(b >> 8), 1,
                                                    2};
            const Hash32 beacon = crypto::sha256(bytes);
            const auto holds = [&](std::uint64_t uniform, std::uint64_t largest) {
                const auto named = compute::tolerance::judge::largest_segments(said, largest);
                for (const std::uint64_t i : compute::core::draw_segments(beacon, {}, kSegments, uniform, named))
                    if (i % 10 == 0) return 1.0;
                return 0.0;
            };
            found[0] += holds(0, drawn) / kBeacons;
            found[1] += holds(drawn, kLargest) / kBeacons;
        }
        table.row(drawn, found[0], found[1], 1 - missed);
        missed *= static_cast<double>(kSegments - kLargest - kForged - drawn) /
                  static_cast<double>(kSegments - kLargest - drawn);
    }
}

int run(int argc, char** argv) {
    CLI::App app{"Measures tolerance mode: reproduction errors of backends, and an attack corpus."};
    Options options;
    app.add_option("experiment", options.text)
        ->required()
        ->check(CLI::IsMember({"noise", "corpus", "rates", "samples", "largest"}));
    std::string text;
    app.add_option("--text", text, "what the model is trained on");
    app.add_option("--csv", options.csv, "where the table goes")->required();
    app.add_option("--model", options.model, "transformers of 115 thousand parameters or 0.83 million, or convolutions")
        ->capture_default_str()
        ->check(CLI::IsMember({"small", "reference", "convolution"}));
    app.add_option("--loose", options.loose, "parameters that the distance leaves out");
    app.add_option("--segments", options.segments)->capture_default_str()->check(CLI::Range(1, 100'000));
    app.add_option("-k", options.k, "steps of a segment")->capture_default_str()->check(CLI::Range(1, 10'000));
    app.add_option("--batch", options.batch, "of the transformers: sequences of a step")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024));
    app.add_option("--products", options.products, "corpus: matrix products of the honest solver and of the profilers")
        ->capture_default_str()
        ->check(CLI::IsMember({"f32", "bf16"}));
    app.add_option("--cap", options.cap, "corpus: the most that a segment may be off by")->capture_default_str();
    app.add_option("--gap", options.gap, "noise, rates: steps between the starts of two segments")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    app.add_option("--longest", options.longest, "noise: steps of the longest segment")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    add_device_option(app, "--device", options.device)
        ->description("noise: with cuda, or auto where there is one, that of a graphics processor, too");
    if (const auto code = parse_command_line(app, "quern-tolerance", argc, argv)) return *code;
    const std::string experiment = std::exchange(options.text, text);
    if (const auto blas = compute::torch_backend::check_blas(); !blas)
        std::fprintf(stderr, "quern-tolerance: %s\n", blas.error().to_string().c_str());
    if (experiment == "noise") measure_noise(options);
    if (experiment == "corpus") run_corpus(options);
    if (experiment == "rates") measure_rates(options);
    if (experiment == "samples") count_samples(options);
    if (experiment == "largest") rank_forgeries(options);
    return 0;
}

}  // namespace
}  // namespace quern::tolerance_lab

int main(int argc, char** argv) { return quern::tolerance_lab::run(argc, argv); }
