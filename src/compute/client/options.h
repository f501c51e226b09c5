// What quern-train is told on its command line, as plain data, and how it tells what happens. quern_train.cpp fills it;
// nothing below reads argv or knows a terminal. A Console belongs to the thread that trains.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "compute/program/network_fit.h"
#include "compute/program/progress.h"
#include "compute/tolerance/profile/profile.h"
#include "compute/transfer/options.h"
#include "wallet/task.h"

namespace quern::compute::client {

struct ToleranceOptions {
    bool on = false;
    std::vector<std::string> loose;                    // parameters that are not compared
    std::uint64_t profiled = tolerance::kMinProfiled;  // segments of each backend
    tolerance::profile::TermNumbers terms;
    tolerance::profile::MakeProfilers backends;  // none: there are only canonical steps
};

struct TrainOptions {
    std::string model;                 // file, as compute::program::read_model() takes it
    std::vector<std::string> data;     // files of the data tensors, in the model's order, those held out last
    std::size_t held_out = 0;          // how many of them are, of a network without an architecture file
    compute::program::FitChoices fit;  // of a network without an architecture file
    std::string out;                   // the trained model, safetensors
    std::string export_onnx;           // of a model that came as ONNX a copy with what was trained; empty: none
    std::vector<std::string> outputs;  // https:// and s3:// to which the trained model is delivered as well
    transfer::TransferOptions transfer;
    bool data_elsewhere = false;  // data tensors are not uploaded: the task's uris have them
    std::uint64_t seed = 1;       // of the initial state; of a local training also of the data's order
    std::uint64_t updates = 0;    // of the optimizer; 0: as many as the model says
    wallet::SpecOptions terms;    // of a task: work, windows, classes, tax, price cap
    ToleranceOptions tolerance;   // as a task in tolerance mode: interval and tranche count the training's own steps
    // Of a training on the market.
    std::string node_host = "127.0.0.1";
    std::uint16_t node_port = 8545;
    std::string credentials_file;           // "user:password" for the node: it fetches contents from others then
    std::optional<std::uint64_t> chain_id;  // absent: the node's
    std::string budget;                     // the most that it may cost, fees included
    bool yes = false;                       // does not ask
    std::uint64_t poll_ms = 1'000;
    // Of a training on this machine.
    bool local = false;
    std::string beacon;  // fixes the data's order, as a task's seedBeacon does; else the seed does
    std::size_t threads = 0;
};

// Whether the limits are found by profilers of the chain, and not on this machine.
[[nodiscard]] inline bool is_profiled_there(const TrainOptions& options) {
    return options.tolerance.on && !options.local && options.terms.profilers != 0;
}

using program::Event;

struct Console {
    std::function<void(const Event&)> tell;
    // Whether the answer is yes. Error: train.cannot_ask (nobody is there).
    std::function<Expected<bool>(const std::string& question)> ask;
};

// What is kept beside the output: OUT.job.json (job_file.h), and a folder of programs, states and the lock.
[[nodiscard]] inline std::string job_path(const std::string& out) { return out + ".job.json"; }
[[nodiscard]] inline std::string job_folder(const std::string& out) { return out + ".job"; }

// In that folder, after the end: the state of which the output is exported.
[[nodiscard]] inline std::string state_path(const std::string& folder) { return folder + "/state.safetensors"; }

}  // namespace quern::compute::client
