// The transformer of architecture.h as plain loops over doubles, a window at a time: an independent reference for what
// its programs compute outside training. Test code.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compute/program/architecture.h"
#include "unit/compute/program/double_evaluator.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program::test {

using quern::test::Doubles;

struct TestModel {
    std::string name;
    TransformerSpec spec;
};

// What the experts of a layer were given, of all windows so far.
struct ExpertLoad {
    Doubles chosen;         // first choices of each
    Doubles probabilities;  // of each, summed over tokens
    std::size_t tokens = 0;
    std::size_t most = 0;     // rows that one expert had of a window
    std::size_t dropped = 0;  // choices without a place

    // Switch, eq. 4, before its factor.
    [[nodiscard]] double balance() const;
};

class PlainTransformer {
public:
    // The parameters of a state of this program.
    PlainTransformer(const TransformerSpec& spec, const Program& program, const quern::test::DoubleState& state);

    // A row for each of the window's tokens. `loads`, by layer, are added to.
    [[nodiscard]] std::vector<Doubles> logits(const std::vector<std::uint32_t>& tokens,
                                              std::vector<ExpertLoad>* loads = nullptr) const;

private:
    [[nodiscard]] const Doubles& parameter(const std::string& name) const;
    [[nodiscard]] Doubles normed(const std::string& name, const Doubles& x) const;
    [[nodiscard]] std::vector<Doubles> attended(const std::string& layer, const std::vector<Doubles>& x) const;
    [[nodiscard]] double activated(double x) const;
    // Number `index` of so many, side by side in the parameters.
    [[nodiscard]] Doubles mlp(const std::string& name, std::size_t index, std::size_t count, const Doubles& x) const;
    [[nodiscard]] std::vector<Doubles> mixture(const std::string& layer, const std::vector<Doubles>& x,
                                               ExpertLoad& load) const;

    TransformerSpec spec_;
    std::map<std::string, Doubles> parameters_;
};

}  // namespace quern::compute::program::test
