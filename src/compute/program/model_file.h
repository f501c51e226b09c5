// Architecture files and what they name: the network of another tool beside them. Used by quern-compile.
#pragma once

#include <string>
#include <vector>

#include "compute/program/architecture.h"
#include "compute/program/network_fit.h"

namespace quern::compute::program {

// What `path` describes, with its network read, whose file's name is relative to the architecture's folder. Errors,
// each with the file's name: fs.*, arch.*, arch.outside (a network's file that is not in the folder or below it),
// arch.no_file (it is a folder, a pipe or a device),
// onnx.*, torchscript.*, zip.*.
[[nodiscard]] Expected<Architecture> read_architecture(const std::string& path);

// A network's file as an architecture that fits these files of data (network_fit.h), whose descriptions lie beside them
// as FILE.json. A TorchScript archive (*.pt, *.pth) does not say what an example is: the choice does, else the
// description of the first file of data. Errors: as above, fit.*.
[[nodiscard]] Expected<Network> read_network(const std::string& path, const std::vector<std::string>& data,
                                             const FitChoices& choices);
[[nodiscard]] bool is_network_name(const std::string& path);  // *.onnx, *.pt, *.pth
[[nodiscard]] Expected<std::string> fit_architecture(const Network& network, const std::string& file,
                                                     const std::vector<std::string>& data, const FitChoices& choices,
                                                     const std::vector<std::string>& held_out);

// The ONNX file of which the model that read_model() made of `path` is the network; empty: it has none, or is a
// TorchScript archive.
[[nodiscard]] std::string onnx_file_of(const std::string& path, const Architecture& model);

// What a person calls a model: an architecture file, or by its name a network's file, fitted to the data and to what is
// held out, if anything is.
[[nodiscard]] Expected<Architecture> read_model(const std::string& path, const std::vector<std::string>& data,
                                                const FitChoices& choices,
                                                const std::vector<std::string>& held_out = {});

}  // namespace quern::compute::program
