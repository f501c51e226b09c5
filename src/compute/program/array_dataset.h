// Arrays as the data tensors of a model of layers: the inputs of all examples, and their targets. Used by
// quern-compile, which reads them from files of NumPy, safetensors and tables (array_file.h, csv_file.h). Thread-safe
// as long as calls write different files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compute/program/csv_file.h"
#include "crypto/hash.h"

namespace quern::compute::program {

struct ArrayDataset {
    Array inputs;
    std::optional<Array> targets;
    // Of a table, else empty: see CsvTable.
    std::vector<std::string> columns;
    std::vector<std::string> target_columns;
    std::vector<std::string> classes;
};
// Error array.different_counts: not as many targets as inputs by their first dimension.
[[nodiscard]] Expected<ArrayDataset> pair_arrays(Array inputs, std::optional<Array> targets);
[[nodiscard]] ArrayDataset dataset_of(CsvTable table);

// What the files do not say, as JSON: {"format": "quern-arrays-1", "dtype", "elements", "shape", "columns" of a table,
// "targets": {"dtype", "elements", "shape", "columns" of a table, "classes" where they have names}}.
[[nodiscard]] std::string describe_array_dataset(const ArrayDataset& dataset);

// Writes the elements to the two paths (`targets` is empty where there are none), the description beside the first
// one, and gives the content ids. All files are there in the end or none. Errors: array.same_output (two files to write
// are one), those of writing files (base/fs.h).
[[nodiscard]] Expected<std::vector<Hash32>> write_array_dataset(const ArrayDataset& dataset, const std::string& inputs,
                                                                const std::string& targets);

}  // namespace quern::compute::program
