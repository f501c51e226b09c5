// TorchScript archives (torch.jit.script or trace, then save) as files of the ONNX standard. Used by quern-torchscript,
// in a process that has given up all else (sandbox.h): libtorch's readers of archives, pickles and source text are not
// made for hostile files, and die of some.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::compute::torchscript {

inline constexpr std::size_t kMaxArchiveBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMaxInputDims = 7;

// What an example of the input is.
struct InputForm {
    std::vector<std::int64_t> dims;  // without the batch's
    bool is_whole = false;           // else as forward() takes it: an embedding's indices are whole numbers
};

// Loads libraries' lazy parts and limits libtorch to this thread; before enter_sandbox().
void prepare();

// A message of the standard (operator set 17, the batch dynamic): parameters are initializers under their state_dict
// names, nodes are called after the line of the source that they come of. Attributes that are no parameters, or that
// want no gradient, are named by metadata "quern.frozen". forward() is not run, nor is other code of the archive:
// archives with code that libtorch would run when it loads them (__setstate__, defaults that are no literals) are
// refused. Errors, with the operation and its place in the source: zip.*, torchscript.runs_code,
// torchscript.bad_archive (libtorch's words), torchscript.inputs, torchscript.no_output, torchscript.unsupported,
// torchscript.raises (forward() would for this input), torchscript.too_long, torchscript.too_large.
[[nodiscard]] Expected<std::string> convert(BytesView archive, const InputForm& input);

}  // namespace quern::compute::torchscript
