// The option that says on which device libtorch computes (compute/torch/device.h). Used by src/bin and quern-tolerance.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace quern {

inline constexpr const char* kDefaultDevice = "cpu";

inline CLI::Option* add_device_option(CLI::App& app, const char* name, std::string& device) {
    return app
        .add_option(
            name, device,
            "where libtorch computes: cpu; cuda, the first graphics processor, by a libtorch that was built with "
            "CUDA; or auto: cuda where there is one (doc/torch.md)")
        ->check(CLI::IsMember({"cpu", "cuda", "auto"}))
        ->capture_default_str();
}

}  // namespace quern
