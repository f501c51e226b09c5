// A training as tolerance mode has it: a solver on libtorch, a verifier that replays its segments canonically and takes
// the distance by the distance program. Used by quern-tolerance. One thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compute/program/architecture.h"
#include "compute/tolerance/distance/distance_program.h"
#include "compute/tolerance/limits.h"
#include "compute/tolerance/profile/profile.h"
#include "compute/torch/torch_executor.h"
#include "vm/tensor/executor.h"

namespace quern::tolerance_lab {

using compute::tolerance::Measured;
using compute::torch_backend::Device;
using compute::torch_backend::Products;
using vm::tensor::DataSource;
using vm::tensor::State;
using vm::tensor::Tensor;

// Ends the process with the error's text: an experiment without its parts measures nothing.
[[noreturn]] void give_up(const std::string& what);
template <class T>
T must(Expected<T> value, const char* what) {
    if (!value) give_up(std::string(what) + ": " + value.error().to_string());
    return std::move(*value);
}
inline void must(const Status& status, const char* what) {
    if (!status) give_up(std::string(what) + ": " + status.error().to_string());
}

// 115 thousand parameters (2 layers, width 64, context 64, batch 16), or 0.83 million (4 layers, width 128, context
// 128, batch 32); AdamW. Tokens are the characters of a text.
[[nodiscard]] compute::program::Architecture transformer_of(bool reference, std::size_t text_bytes);
// Convolutions with biases before batch norms, on random images of two classes; AdamW.
[[nodiscard]] compute::program::Architecture convolution();
[[nodiscard]] std::vector<Bytes> random_images(const compute::program::Architecture& architecture);
// Printable ASCII as 0 to 94, a line's end as 95, all else as 96.
[[nodiscard]] Bytes tokens_of(const Bytes& text);

// How a fast backend runs.
struct Backend {
    int threads = 1;
    Products products = Products::f32;
    Device device = Device::cpu;
};

class Lab {
public:
    // loose: parameters that the distance leaves out.
    Lab(const compute::program::Architecture& architecture, std::vector<Bytes> data,
        const std::vector<std::string>& loose);

    [[nodiscard]] const compute::program::BuiltProgram& built() const { return built_; }
    [[nodiscard]] const vm::tensor::Program& program() const { return built_.program; }
    [[nodiscard]] const DataSource& data() const { return data_; }
    [[nodiscard]] std::size_t token_count() const { return data_.sets()[0].size(); }
    [[nodiscard]] const std::vector<compute::tolerance::distance::Class>& classes() const { return segment_.classes; }
    [[nodiscard]] State initial(std::uint64_t seed) const;
    [[nodiscard]] std::size_t slot(const std::string& name) const;

    // The solver: so many steps on libtorch. data, seed and program as given, else the task's.
    struct Run {
        Backend backend{};
        const DataSource* data = nullptr;
        const Tensor* seed = nullptr;
        const vm::tensor::Program* program = nullptr;
    };
    void train(State& state, std::uint64_t steps, const Run& run) const;
    // The task's own steps by a backend. It refers to this.
    [[nodiscard]] compute::tolerance::profile::Profiler profiler(const char* name, const Backend& backend) const;
    // The verifier.
    void replay(State& state, std::uint64_t steps);
    [[nodiscard]] Measured measure(const State& previous, const State& replayed, const State& claimed);
    [[nodiscard]] compute::tolerance::profile::Meter& meter() { return *meter_; }
    // The slot of parameters whose distance of its own is the largest, in double precision.
    struct Worst {
        std::string slot;
        double l2 = 0;
        double share = 0;  // of all parameters' squared error
    };
    [[nodiscard]] Worst worst_slot(const State& previous, const State& replayed, const State& claimed) const;

    [[nodiscard]] const Tensor& seed() const { return seed_; }
    [[nodiscard]] const compute::tolerance::distance::SegmentPrograms& segment() const { return segment_; }

private:
    compute::program::BuiltProgram built_;
    compute::tolerance::distance::SegmentPrograms segment_;
    vm::tensor::MemoryData data_;
    Tensor seed_;
    ThreadPool pool_{2};
    std::unique_ptr<compute::tolerance::profile::Meter> meter_;
};

// All slots but the exact ones as a + (b - a) * share, those as in `exact`.
[[nodiscard]] State between(const Lab& lab, const State& a, const State& b, float share, const State& exact);
// The exact slots of `from` in the place of those of `state`.
void take_exact(const Lab& lab, State& state, const State& from);

}  // namespace quern::tolerance_lab
