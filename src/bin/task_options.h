// Options that quern-wallet and quern-train share: whose key, and on what terms a task is worked on. Used by src/bin
// only.
#pragma once

#include <CLI/CLI.hpp>
#include <tuple>

#include "wallet/keys.h"
#include "wallet/task.h"

namespace quern {

inline void add_key_options(CLI::App& app, wallet::KeySource& key, const char* keystore = "--keystore",
                            const char* seed = "--seed") {
    app.add_option(keystore, key.keystore, "key file: Web3 Secret Storage v3, or 64 hex digits");
    app.add_option("--password-file", key.password_file,
                   "its first line is the password; mode 600; asked for when left out");
    app.add_option(seed, key.seed, "a key from this text instead; anybody can make it: for devnets only");
}

inline constexpr const char* kUriHelp =
    "where workers find contents that no node has: https, s3, ipfs or file; FOLDER/ of contents by id, FILE#ID, or "
    "FILE "
    "alone of the only data tensor; several may be given";

// All but program, plan, files and price.
inline void add_term_options(CLI::App& app, wallet::SpecOptions& spec) {
    app.add_option("--tax", spec.tax, "to the jackpot vault: 0.1qrn");
    auto& d = spec.defaults;
    app.add_option("--interval", d.work.interval, "a checkpoint each so many steps");
    app.add_option("--stride", d.work.stride, "a commitment to the state each so many steps")->capture_default_str();
    app.add_option("--tranche", d.work.tranche,
                   "steps that are verified and paid for while the next ones are trained, a multiple of --interval; "
                   "0: all at once")
        ->capture_default_str();
    app.add_option("--verifiers", d.work.verifiers, "verifiers")->capture_default_str();
    app.add_option("--samples", d.work.samples, "segments each verifier replays")->capture_default_str();
    app.add_option("--largest", d.work.largest, "in tolerance mode those that move most, which each replays besides")
        ->capture_default_str();
    app.add_option("--memory-mib", d.classes.memory_mib, "memory the solver needs");
    app.add_option("--speed", spec.speed, "work units a second that all who take part have at least");
    app.add_option("--bandwidth", spec.bandwidth,
                   "bytes a second that all who take part send at least: sets how short the windows may be");
    for (const auto& [name, target, text] :
         {std::tuple{"--bid-s", &d.windows.bid_s, "seconds for bids"},
          std::tuple{"--start-s", &d.windows.start_s, "seconds until the winner must start"},
          std::tuple{"--heartbeat-s", &d.windows.heartbeat_s, "seconds from one checkpoint to the next"},
          std::tuple{"--prove-s", &d.windows.prove_s, "seconds for the proof after the last checkpoint"},
          std::tuple{"--verify-s", &d.windows.verify_s, "seconds for each of custody, commit and reveal"},
          std::tuple{"--challenge-s", &d.windows.challenge_s, "seconds of the challenge window"}})
        app.add_option(name, *target, text)->capture_default_str();
}

}  // namespace quern
