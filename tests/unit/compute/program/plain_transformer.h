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

// Small, random and of every kind: what the tests of models build.
struct TestModel {
    std::string name;
    TransformerSpec spec;
};

class PlainTransformer {
public:
    // The parameters of a state of this program.
    PlainTransformer(const TransformerSpec& spec, const Program& program, const quern::test::DoubleState& state);

    // A row for each of the window's tokens.
    [[nodiscard]] std::vector<Doubles> logits(const std::vector<std::uint32_t>& tokens) const;

private:
    [[nodiscard]] const Doubles& parameter(const std::string& name) const;
    [[nodiscard]] Doubles normed(const std::string& name, const Doubles& x) const;
    [[nodiscard]] std::vector<Doubles> attended(const std::string& layer, const std::vector<Doubles>& x) const;
    [[nodiscard]] double activated(double x) const;
    [[nodiscard]] Doubles mlp(const std::string& layer, const Doubles& x) const;

    TransformerSpec spec_;
    std::map<std::string, Doubles> parameters_;
};

}  // namespace quern::compute::program::test
