// Options of whoever profiles a training for a tolerance task (doc/tolerance.md, "Limits"). Used by src/bin only.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>
#include <tuple>

#include "bin/torch_module.h"
#include "compute/tolerance/profile/profile.h"

namespace quern {

// A finite number from 0 on. CLI::NonNegativeNumber takes infinities and NaN, and its message is 309 digits long.
[[nodiscard]] inline CLI::Validator finite_number() {
    return {[](const std::string& text) -> std::string {
                float number = 0;
                const char* const last = text.data() + text.size();
                const auto [end, error] = std::from_chars(text.data(), last, number);
                const bool good = error == std::errc() && end == last && std::isfinite(number) && number >= 0;
                return good ? std::string() : text + " is no finite number from 0 on";
            },
            "NUMBER"};
}

inline CLI::Option* add_products(CLI::App& app, std::string& products, const std::string& text) {
    return app.add_option("--products", products, text)
        ->check(CLI::IsMember({kTorchProductNames[0], kTorchProductNames[1]}))
        ->capture_default_str();
}

inline void add_tolerance_terms(CLI::App& app, compute::tolerance::profile::TermNumbers& terms, CLI::Option* mode) {
    for (const auto& [name, target, text] :
         {std::tuple{"--cap", &terms.cap, "the most that a segment may be off by, of its movement"},
          std::tuple{"--history-cap", &terms.history_cap, "the same of all segments together; 0: the cap of each"},
          std::tuple{"--range", &terms.range, "by what factor a movement may leave the profiled one, up and down"},
          std::tuple{"--allow-l2", &terms.l2, "the least limit of l2, whatever was profiled"},
          std::tuple{"--allow-linf", &terms.linf, "of linf"},
          std::tuple{"--allow-moments", &terms.moments, "of moments"},
          std::tuple{"--allow-rest", &terms.rest, "of the loss and of running statistics"}}) {
        CLI::Option* option = app.add_option(name, *target, text)->check(finite_number())->capture_default_str();
        if (mode != nullptr) option->needs(mode);
    }
}

}  // namespace quern
