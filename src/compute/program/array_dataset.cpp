#include "compute/program/array_dataset.h"

#include <filesystem>
#include <utility>

#include "base/fs.h"
#include "base/json.h"
#include "crypto/content_id.h"
#include "vm/tensor/data.h"

namespace quern::compute::program {

namespace {

constexpr std::string_view kArraysFormat = "quern-arrays-1";

json::Value names_of(const std::vector<std::string>& names) {
    json::Value list = json::Value::array();
    for (const std::string& name : names) list.push(name);
    return list;
}

void describe(const Array& array, const std::vector<std::string>& columns, json::Value& fields) {
    fields.set("dtype", std::string(vm::tensor::name_of(array.type)));
    fields.set("elements", array.count());
    json::Value shape = json::Value::array();
    for (const std::uint64_t dim : array.shape) shape.push(dim);
    fields.set("shape", std::move(shape));
    if (!columns.empty()) fields.set("columns", names_of(columns));
}

}  // namespace

Expected<ArrayDataset> pair_arrays(Array inputs, std::optional<Array> targets) {
    if (targets && targets->examples() != inputs.examples())
        return fail("array.different_counts",
                    std::to_string(inputs.examples()) + " inputs, " + std::to_string(targets->examples()) + " targets");
    return ArrayDataset{std::move(inputs), std::move(targets), {}, {}, {}};
}

ArrayDataset dataset_of(CsvTable table) {
    return {std::move(table.features), std::move(table.targets), std::move(table.columns),
            std::move(table.target_columns), std::move(table.classes)};
}

std::string describe_array_dataset(const ArrayDataset& dataset) {
    json::Value fields = json::Value::object({{"format", std::string(kArraysFormat)}});
    describe(dataset.inputs, dataset.columns, fields);
    if (dataset.targets) {
        json::Value targets = json::Value::object();
        describe(*dataset.targets, dataset.target_columns, targets);
        if (!dataset.classes.empty()) targets.set("classes", names_of(dataset.classes));
        fields.set("targets", std::move(targets));
    }
    return fields.dump_pretty() + "\n";
}

Expected<std::vector<Hash32>> write_array_dataset(const ArrayDataset& dataset, const std::string& inputs,
                                                  const std::string& targets) {
    const std::string description = inputs + ".json";
    const auto normal = [](const std::string& path) { return std::filesystem::path(path).lexically_normal(); };
    if (dataset.targets && (normal(targets) == normal(inputs) || normal(targets) == normal(description)))
        return fail("array.same_output", targets);
    std::vector<Hash32> roots{crypto::content_id_of(dataset.inputs.elements)};
    Status done = fs::write_file_atomic(inputs, dataset.inputs.elements);
    if (done && dataset.targets) {
        roots.push_back(crypto::content_id_of(dataset.targets->elements));
        done = fs::write_file_atomic(targets, dataset.targets->elements);
    }
    if (done) done = fs::write_file_atomic(description, as_bytes(describe_array_dataset(dataset)));
    if (!done) {  // what is there by now belongs to no whole data set
        for (const std::string& path : {inputs, description}) (void)fs::remove_file(path);
        if (dataset.targets) (void)fs::remove_file(targets);
        return fail(std::move(done).error());
    }
    return roots;
}

}  // namespace quern::compute::program
