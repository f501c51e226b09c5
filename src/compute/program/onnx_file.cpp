#include "compute/program/onnx_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compute/program/half_float.h"

namespace quern::compute::program {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Field numbers of onnx.proto3.
constexpr int kModelGraph = 7;
constexpr int kGraphInitializer = 5;
constexpr int kTensorFloatData = 4;
constexpr int kTensorRawData = 9;

constexpr std::string_view kFrozenKey = "quern.frozen";

// --- Before anything is parsed: how much of the file is structure ---------------------------------------------------

// Bytes of a message of this nesting without the data of initializers; nothing where it is no message. `path` is what
// of the nested fields is gone into, from the outermost.
struct Nesting {
    int field;
    const Nesting* inner;
};
constexpr Nesting kInitializer{kGraphInitializer, nullptr};
constexpr Nesting kGraph{kModelGraph, &kInitializer};

bool count_structure(CodedInputStream& in, int end, const Nesting* path, std::uint64_t& structure) {
    while (in.CurrentPosition() < end) {
        const int start = in.CurrentPosition();
        const std::uint32_t tag = in.ReadTagNoLastTag();
        std::uint64_t ignored = 0;
        std::uint32_t length = 0;
        switch (WireFormatLite::GetTagWireType(tag)) {
            case WireFormatLite::WIRETYPE_VARINT:
                if (!in.ReadVarint64(&ignored)) return false;
                break;
            case WireFormatLite::WIRETYPE_FIXED64:
                if (!in.Skip(8)) return false;
                break;
            case WireFormatLite::WIRETYPE_FIXED32:
                if (!in.Skip(4)) return false;
                break;
            case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
                if (!in.ReadVarint32(&length)) return false;
                if (std::cmp_greater(length, end - in.CurrentPosition())) return false;
                const int field = WireFormatLite::GetTagFieldNumber(tag);
                structure += static_cast<std::uint64_t>(in.CurrentPosition() - start);
                if (path != nullptr && field == path->field) {
                    const int inner_end = in.CurrentPosition() + static_cast<int>(length);
                    if (!count_structure(in, inner_end, path->inner, structure)) return false;
                } else {
                    const bool is_data = path == nullptr && (field == kTensorRawData || field == kTensorFloatData);
                    if (!is_data) structure += length;
                    if (!in.Skip(static_cast<int>(length))) return false;
                }
                continue;
            }
            default:
                return false;
        }
        structure += static_cast<std::uint64_t>(in.CurrentPosition() - start);
    }
    return in.CurrentPosition() == end;
}

Status check_structure(BytesView file) {
    const int size = static_cast<int>(file.size());
    CodedInputStream in(file.data(), size);
    std::uint64_t structure = 0;
    if (!count_structure(in, size, &kGraph, structure)) return fail("onnx.not_onnx", "no message of the format");
    if (structure > kMaxOnnxStructure)
        return fail("onnx.too_long", std::to_string(structure) + " bytes beside the data of initializers, at most " +
                                         std::to_string(kMaxOnnxStructure));
    return {};
}

// --- Tensors
// -----------------------------------------------------------------------------------------------------------

std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
std::uint32_t from_double(double value) { return bits_of(static_cast<float>(value)); }

struct TypeInfo {
    onnx::TensorProto_DataType type;
    std::size_t bytes;
    bool is_float;
};
constexpr TypeInfo kTypes[] = {
    {onnx::TensorProto_DataType_FLOAT, 4, true},    {onnx::TensorProto_DataType_FLOAT16, 2, true},
    {onnx::TensorProto_DataType_BFLOAT16, 2, true}, {onnx::TensorProto_DataType_DOUBLE, 8, true},
    {onnx::TensorProto_DataType_INT64, 8, false},   {onnx::TensorProto_DataType_INT32, 4, false},
    {onnx::TensorProto_DataType_INT16, 2, false},   {onnx::TensorProto_DataType_INT8, 1, false},
    {onnx::TensorProto_DataType_UINT32, 4, false},  {onnx::TensorProto_DataType_UINT16, 2, false},
    {onnx::TensorProto_DataType_UINT8, 1, false},   {onnx::TensorProto_DataType_BOOL, 1, false},
};

const TypeInfo* type_of(int type) {
    for (const TypeInfo& each : kTypes)
        if (each.type == type) return &each;
    return nullptr;
}

std::uint32_t float_from(onnx::TensorProto_DataType type, std::uint64_t word) {
    switch (type) {
        case onnx::TensorProto_DataType_FLOAT16:
            return widened_half(static_cast<std::uint16_t>(word));
        case onnx::TensorProto_DataType_BFLOAT16:
            return widened_bfloat16(static_cast<std::uint16_t>(word));
        case onnx::TensorProto_DataType_DOUBLE:
            return from_double(__builtin_bit_cast(double, word));
        default:
            return static_cast<std::uint32_t>(word);
    }
}

std::int64_t whole_from(onnx::TensorProto_DataType type, std::uint64_t word) {
    switch (type) {
        case onnx::TensorProto_DataType_INT32:
            return static_cast<std::int32_t>(word);
        case onnx::TensorProto_DataType_INT16:
            return static_cast<std::int16_t>(word);
        case onnx::TensorProto_DataType_INT8:
            return static_cast<std::int8_t>(word);
        case onnx::TensorProto_DataType_BOOL:
            return word == 0 ? 0 : 1;
        default:
            return static_cast<std::int64_t>(word);
    }
}

// The words of a tensor of that type, one after the other, from whichever field holds them.
class Words {
public:
    Words(const onnx::TensorProto& tensor, const TypeInfo& type) : tensor_(tensor), type_(type) {}

    [[nodiscard]] std::uint64_t count() const {
        if (tensor_.has_raw_data()) {
            const std::size_t size = tensor_.raw_data().size();
            return size % type_.bytes == 0 ? size / type_.bytes : ~std::uint64_t{0};
        }
        switch (type_.type) {
            case onnx::TensorProto_DataType_FLOAT:
                return static_cast<std::uint64_t>(tensor_.float_data_size());
            case onnx::TensorProto_DataType_DOUBLE:
                return static_cast<std::uint64_t>(tensor_.double_data_size());
            case onnx::TensorProto_DataType_INT64:
                return static_cast<std::uint64_t>(tensor_.int64_data_size());
            case onnx::TensorProto_DataType_UINT32:
                return static_cast<std::uint64_t>(tensor_.uint64_data_size());
            default:
                return static_cast<std::uint64_t>(tensor_.int32_data_size());
        }
    }
    [[nodiscard]] std::uint64_t at(std::uint64_t i) const {
        if (tensor_.has_raw_data()) {
            const std::string& raw = tensor_.raw_data();
            std::uint64_t word = 0;
            for (std::size_t byte = 0; byte < type_.bytes; ++byte)
                word |= std::uint64_t{static_cast<std::uint8_t>(raw[i * type_.bytes + byte])} << (8 * byte);
            return word;
        }
        const int place = static_cast<int>(i);
        switch (type_.type) {
            case onnx::TensorProto_DataType_FLOAT:
                return bits_of(tensor_.float_data(place));
            case onnx::TensorProto_DataType_DOUBLE:
                return __builtin_bit_cast(std::uint64_t, tensor_.double_data(place));
            case onnx::TensorProto_DataType_INT64:
                return static_cast<std::uint64_t>(tensor_.int64_data(place));
            case onnx::TensorProto_DataType_UINT32:
                return tensor_.uint64_data(place);
            default:
                return static_cast<std::uint32_t>(tensor_.int32_data(place));
        }
    }

private:
    const onnx::TensorProto& tensor_;
    const TypeInfo& type_;
};

class Reader {
public:
    Expected<Network> read(const onnx::ModelProto& model) {
        QUERN_CHECK(read_version(model));
        const onnx::GraphProto& graph = model.graph();
        if (std::cmp_greater(graph.node_size(), kMaxNetworkNodes) ||
            std::cmp_greater(graph.initializer_size(), kMaxNetworkTensors))
            return fail("onnx.too_many", std::to_string(graph.node_size()) + " nodes, " +
                                             std::to_string(graph.initializer_size()) + " initializers");
        if (model.functions_size() != 0) return fail("onnx.subgraph", "functions of its own");
        if (graph.sparse_initializer_size() != 0) return fail("onnx.bad_tensor", "sparse initializers");
        for (const onnx::TensorProto& tensor : graph.initializer()) {
            QUERN_CHECK(check_name(tensor.name(), "an initializer"));
            QUERN_TRY(NetworkTensor read, read_tensor(tensor, tensor.name()));
            if (!known_.insert(tensor.name()).second) return fail("onnx.duplicate", tensor.name());
            network_.initializers.emplace(tensor.name(), std::move(read));
        }
        QUERN_CHECK(read_input(graph));
        QUERN_CHECK(read_frozen(model));
        for (int i = 0; i < graph.node_size(); ++i) QUERN_CHECK(read_node(graph.node(i), i));
        if (graph.output_size() == 0) return fail("onnx.no_output");
        QUERN_CHECK(check_name(graph.output(0).name(), "the output"));
        network_.output = graph.output(0).name();
        if (!known_.contains(network_.output)) return fail("onnx.no_output", network_.output + " has no node");
        return std::move(network_);
    }

private:
    Status read_frozen(const onnx::ModelProto& model) {
        for (const onnx::StringStringEntryProto& entry : model.metadata_props()) {
            if (entry.key() != kFrozenKey) continue;
            if (!network_.initializers.contains(entry.value()))
                return fail("onnx.bad_name", std::string(kFrozenKey) + " names no initializer");
            network_.frozen.insert(entry.value());
        }
        return {};
    }

    Status read_version(const onnx::ModelProto& model) {
        if (!model.has_graph()) return fail("onnx.not_onnx", "no graph");
        for (const onnx::OperatorSetIdProto& set : model.opset_import()) {
            if (!set.domain().empty() && set.domain() != "ai.onnx") continue;
            if (set.version() < kMinOnnxOpset || set.version() > kMaxOnnxOpset)
                return fail("onnx.unknown_version", "operator set " + std::to_string(set.version()) +
                                                        ", known: " + std::to_string(kMinOnnxOpset) + " to " +
                                                        std::to_string(kMaxOnnxOpset));
            network_.opset = static_cast<std::uint32_t>(set.version());
        }
        if (network_.opset == 0) return fail("onnx.unknown_version", "no operator set of the standard");
        return {};
    }

    static Status check_name(const std::string& name, const std::string& what) {
        if (name.empty()) return fail("onnx.bad_name", what + " has none");
        if (name.size() > kMaxNetworkName)
            return fail("onnx.bad_name", what + ": " + std::to_string(name.size()) + " bytes");
        for (const char c : name)
            if (c < 0x21 || c > 0x7e) return fail("onnx.bad_name", what + ": a byte that is no printable ASCII");
        return {};
    }

    Expected<NetworkTensor> read_tensor(const onnx::TensorProto& tensor, const std::string& what) {
        if (tensor.data_location() == onnx::TensorProto_DataLocation_EXTERNAL || tensor.external_data_size() != 0)
            return fail("onnx.external_data", what + " lies in another file: save the model as one");
        const TypeInfo* const type = type_of(tensor.data_type());
        if (type == nullptr) return fail("onnx.bad_tensor", what + ": type " + std::to_string(tensor.data_type()));
        if (std::cmp_greater(tensor.dims_size(), kMaxNetworkRank))
            return fail("onnx.bad_tensor", what + ": " + std::to_string(tensor.dims_size()) + " dims");
        NetworkTensor result;
        result.is_float = type->is_float;
        std::uint64_t elements = 1;  // as if a dim of 0 were 1: the others are bounded as well
        bool is_empty = false;
        std::uint64_t& left = type->is_float ? left_ : left_whole_;
        for (const std::int64_t dim : tensor.dims()) {
            if (dim < 0 || (dim == 0 && type->is_float) || std::cmp_greater(dim, left) ||
                (dim != 0 && elements > left / static_cast<std::uint64_t>(dim)))
                return fail("onnx.bad_tensor", what + ": a dim of " + std::to_string(dim));
            is_empty = is_empty || dim == 0;
            if (dim != 0) elements *= static_cast<std::uint64_t>(dim);
            result.dims.push_back(static_cast<std::uint64_t>(dim));
        }
        if (is_empty) elements = 0;
        const Words words(tensor, *type);
        if (elements > left || words.count() != elements)
            return fail("onnx.bad_tensor", what + ": its dims are for " + std::to_string(elements) + " elements");
        left -= elements;
        if (type->is_float) {
            std::vector<std::uint32_t> floats(elements);
            for (std::uint64_t i = 0; i < elements; ++i) floats[i] = float_from(type->type, words.at(i));
            result.floats = std::make_shared<const std::vector<std::uint32_t>>(std::move(floats));
        } else {
            result.whole.resize(elements);
            for (std::uint64_t i = 0; i < elements; ++i) result.whole[i] = whole_from(type->type, words.at(i));
        }
        return result;
    }

    Status read_input(const onnx::GraphProto& graph) {
        for (const onnx::ValueInfoProto& input : graph.input()) {
            if (network_.initializers.contains(input.name())) continue;
            QUERN_CHECK(check_name(input.name(), "an input"));
            if (!network_.input.empty())
                return fail("onnx.inputs", "more than one: " + network_.input + ", " + input.name());
            network_.input = input.name();
            const TypeInfo* const type = type_of(input.type().tensor_type().elem_type());
            if (type == nullptr)
                return fail("onnx.inputs", input.name() + ": numbers of a type that has no place here");
            network_.input_is_whole = !type->is_float;
            const onnx::TensorShapeProto& shape = input.type().tensor_type().shape();
            if (std::cmp_greater(shape.dim_size(), kMaxNetworkRank)) return fail("onnx.inputs", "more than 8 dims");
            for (const onnx::TensorShapeProto_Dimension& dim : shape.dim()) {
                const std::int64_t size = dim.has_dim_value() ? dim.dim_value() : 0;
                network_.input_dims.push_back(size < 0 ? 0 : static_cast<std::uint64_t>(size));
            }
        }
        if (network_.input.empty()) return fail("onnx.inputs", "none");
        known_.insert(network_.input);
        return {};
    }

    Status read_node(const onnx::NodeProto& node, int number) {
        NetworkNode result;
        const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
        result.op = standard ? node.op_type() : node.domain() + "::" + node.op_type();
        const std::string what = "node " + std::to_string(number);
        QUERN_CHECK(check_name(result.op, what));
        if (!node.name().empty()) {
            QUERN_CHECK(check_name(node.name(), what));
            result.name = node.name();
        }
        const std::string place = what + " (" + result.op + (result.name.empty() ? "" : " " + result.name) + ")";
        if (std::cmp_greater(node.input_size(), kMaxNodeEdges) || std::cmp_greater(node.output_size(), kMaxNodeEdges))
            return fail("onnx.too_many", place + ": inputs or outputs");
        for (const std::string& input : node.input()) {
            if (!input.empty()) QUERN_CHECK(check_name(input, place + ": an input"));
            if (!input.empty() && !known_.contains(input)) return fail("onnx.not_sorted", place + " takes " + input);
            result.inputs.push_back(input);
        }
        for (const std::string& output : node.output()) {
            if (!output.empty()) {
                QUERN_CHECK(check_name(output, place));
                if (!known_.insert(output).second) return fail("onnx.duplicate", output);
            }
            result.outputs.push_back(output);
        }
        for (const onnx::AttributeProto& attribute : node.attribute()) {
            QUERN_CHECK(check_name(attribute.name(), place + ": an attribute"));
            QUERN_TRY(NetworkAttribute value, read_attribute(attribute, place + ", " + attribute.name()));
            if (!result.attributes.emplace(attribute.name(), std::move(value)).second)
                return fail("onnx.duplicate", place + ", " + attribute.name());
        }
        network_.nodes.push_back(std::move(result));
        return {};
    }

    Expected<NetworkAttribute> read_attribute(const onnx::AttributeProto& attribute, const std::string& what) {
        switch (attribute.type()) {
            case onnx::AttributeProto_AttributeType_INT:
                return NetworkAttribute(std::int64_t{attribute.i()});
            case onnx::AttributeProto_AttributeType_FLOAT:
                return NetworkAttribute(attribute.f());
            case onnx::AttributeProto_AttributeType_STRING:
                if (attribute.s().size() > kMaxNetworkName) break;
                if (std::any_of(attribute.s().begin(), attribute.s().end(),
                                [](char c) { return c < 0x20 || c > 0x7e; }))
                    break;
                return NetworkAttribute(attribute.s());
            case onnx::AttributeProto_AttributeType_INTS:
                if (std::cmp_greater(attribute.ints_size(), kMaxNodeEdges)) break;
                return NetworkAttribute(std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end()));
            case onnx::AttributeProto_AttributeType_TENSOR: {
                QUERN_TRY(NetworkTensor tensor, read_tensor(attribute.t(), what));
                return NetworkAttribute(std::move(tensor));
            }
            case onnx::AttributeProto_AttributeType_GRAPH:
            case onnx::AttributeProto_AttributeType_GRAPHS:
                return fail("onnx.subgraph", what + ": no control flow in a program");
            default:
                break;
        }
        return fail("onnx.bad_attribute", what);
    }

    Network network_;
    std::set<std::string, std::less<>> known_;  // tensors that are given so far
    std::uint64_t left_ = kMaxNetworkElements;
    std::uint64_t left_whole_ = kMaxWholeElements;
};

Expected<onnx::ModelProto> parse(BytesView file) {
    if (file.size() > kMaxOnnxBytes) return fail("onnx.too_long", std::to_string(file.size()) + " bytes");
    QUERN_CHECK(check_structure(file));
    onnx::ModelProto model;
    if (!model.ParseFromArray(file.data(), static_cast<int>(file.size())))
        return fail("onnx.not_onnx", "no message of the format");
    return model;
}

// --- Trained words, back into the file
// ---------------------------------------------------------------------------------------

// A binary32 as a word of that type; nothing where it is too large.
std::optional<std::uint64_t> narrowed(onnx::TensorProto_DataType type, std::uint32_t word) {
    switch (type) {
        case onnx::TensorProto_DataType_FLOAT16:
            return narrowed_half(word);
        case onnx::TensorProto_DataType_BFLOAT16:
            return narrowed_bfloat16(word);
        case onnx::TensorProto_DataType_DOUBLE:
            return __builtin_bit_cast(std::uint64_t, static_cast<double>(__builtin_bit_cast(float, word)));
        default:
            return word;
    }
}

Status write_words(onnx::TensorProto& tensor, std::span<const std::uint32_t> words) {
    const std::string& name = tensor.name();
    if (tensor.data_location() == onnx::TensorProto_DataLocation_EXTERNAL || tensor.external_data_size() != 0)
        return fail("onnx.external_data", name + " lies in another file");
    const TypeInfo* const type = type_of(tensor.data_type());
    if (type == nullptr || !type->is_float) return fail("onnx.bad_tensor", name + " holds no numbers");
    Dims dims;
    for (const std::int64_t dim : tensor.dims()) dims.push_back(dim < 0 ? 0 : static_cast<std::uint64_t>(dim));
    if (product(dims) != words.size() || Words(tensor, *type).count() != words.size())
        return fail("onnx.bad_tensor", name + " is not of " + std::to_string(words.size()) + " numbers");
    std::string raw;
    raw.reserve(words.size() * type->bytes);
    for (const std::uint32_t word : words) {
        const auto value = narrowed(type->type, word);
        if (!value)
            return fail("onnx.out_of_range", name + ": " + std::to_string(__builtin_bit_cast(float, word)) +
                                                 " is too large for numbers of 16 bits");
        for (std::size_t byte = 0; byte < type->bytes; ++byte) raw.push_back(static_cast<char>(*value >> (8 * byte)));
    }
    tensor.clear_float_data();
    tensor.clear_double_data();
    tensor.clear_int32_data();
    tensor.set_raw_data(std::move(raw));
    return {};
}

}  // namespace

Expected<Network> read_onnx(BytesView file) {
    QUERN_TRY(const onnx::ModelProto model, parse(file));
    return Reader().read(model);
}

Expected<Bytes> replace_initializers(BytesView file, std::span<const TrainedWords> trained) {
    QUERN_TRY(onnx::ModelProto model, parse(file));
    std::map<std::string, onnx::TensorProto*, std::less<>> by_name;
    for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer())
        if (!by_name.emplace(tensor.name(), &tensor).second) return fail("onnx.duplicate", tensor.name());
    for (const TrainedWords& each : trained) {
        const auto found = by_name.find(each.name);
        if (found == by_name.end()) return fail("onnx.unknown_initializer", std::string(each.name));
        QUERN_CHECK(write_words(*found->second, each.words));
    }
    const std::size_t size = model.ByteSizeLong();
    if (size > kMaxOnnxBytes) return fail("onnx.too_long", std::to_string(size) + " bytes");
    Bytes copy(size);
    if (!model.SerializeToArray(copy.data(), static_cast<int>(size))) return fail("onnx.not_onnx", "a required field");
    return copy;
}

}  // namespace quern::compute::program
