#include "compute/cost/describe.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "compute/program/description.h"

namespace quern::compute::cost {
namespace {

using program::operation_of;

struct Told {
    StepTime time;
    double training = 0;
    std::vector<double> nodes;
    std::vector<std::pair<std::string, double>> operations;  // the most first
    std::vector<std::size_t> largest;
};

Told told_of(const vm::tensor::Program& program, const Profile& profile, const Length& length) {
    Told told;
    told.time = predict_step(program, profile);
    told.training = training_seconds(told.time, length.steps, length.stride);
    told.nodes = predict_nodes(program, profile);
    std::map<std::string, double> sums;
    for (std::size_t i = 0; i < told.nodes.size(); ++i)
        if (told.nodes[i] > 0) sums[std::string(operation_of(program.nodes[i]))] += told.nodes[i];
    told.operations.assign(sums.begin(), sums.end());
    std::stable_sort(told.operations.begin(), told.operations.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    told.largest = program::largest_nodes(told.nodes);
    return told;
}

std::string text_of(double seconds) {
    char text[32];
    if (seconds < 1e-3)
        std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
    else if (seconds < 1)
        std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
    else
        std::snprintf(text, sizeof text, "%.1f s", seconds);
    return text;
}

void row(std::string& text, const std::string& name, double seconds) {
    char line[96];
    std::snprintf(line, sizeof line, "  %-44.44s %14s\n", name.c_str(), text_of(seconds).c_str());
    text += line;
}

}  // namespace

json::Value describe_time(const vm::tensor::Program& program, const Profile& profile, const Length& length) {
    const Told told = told_of(program, profile, length);
    json::Value result = json::Value::object({{"processor", profile.key.processor}});
    result.set("backend", std::string(vm::tensor::arith::name(profile.key.setup.backend)));
    result.set("threads", std::uint64_t{profile.key.setup.threads});
    result.set("profile_error", profile.error);
    result.set("step_seconds", told.time.step);
    result.set("probed_step_seconds", told.time.tapped);
    result.set("commit_seconds", told.time.commit);
    if (length.steps != 0) result.set("training_seconds", told.training);
    json::Value operations = json::Value::array();
    for (const auto& [op, seconds] : told.operations)
        operations.push(json::Value::object({{"op", op}, {"seconds", seconds}}));
    result.set("operations", std::move(operations));
    json::Value largest = json::Value::array();
    for (const std::size_t i : told.largest)
        largest.push(
            json::Value::object({{"node", i}, {"op", operation_of(program.nodes[i])}, {"seconds", told.nodes[i]}}));
    result.set("largest", std::move(largest));
    return result;
}

std::string describe_time_as_text(const vm::tensor::Program& program, const Profile& profile, const Length& length) {
    const Told told = told_of(program, profile, length);
    std::string text = "\ntime on this machine, " + profile.key.processor + ", " +
                       std::string(vm::tensor::arith::name(profile.key.setup.backend)) + ", threads " +
                       std::to_string(profile.key.setup.threads) + "\n";
    row(text, "a step", told.time.step);
    row(text, "a step of which a verifier keeps tiles", told.time.tapped);
    row(text, "a commitment to the state", told.time.commit);
    if (length.steps != 0) row(text, std::to_string(length.steps) + " steps with their commitments", told.training);
    text += "\noperations, by the time of their nodes\n";
    for (const auto& [op, seconds] : told.operations) row(text, op, seconds);
    text += "\nnodes that take longest\n";
    for (const std::size_t i : told.largest)
        row(text, std::to_string(i) + " " + std::string(operation_of(program.nodes[i])), told.nodes[i]);
    return text;
}

}  // namespace quern::compute::cost
