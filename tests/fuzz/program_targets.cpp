// Step programs, and the files that states, models and data sets come in.
#include <algorithm>

#include "base/fs.h"
#include "base/json.h"
#include "compute/core/state_content.h"
#include "compute/program/array_dataset.h"
#include "compute/program/image_file.h"
#include "compute/program/network_lowering.h"
#include "compute/program/onnx_file.h"
#include "compute/program/safetensors.h"
#include "compute/program/state_file.h"
#include "compute/program/text_dataset.h"
#include "compute/program/zip_directory.h"
#include "fuzz/target.h"
#include "support/image_files.h"
#include "support/training_game.h"
#include "vm/tensor/executor.h"

namespace quern::fuzz {
namespace {

namespace program = compute::program;
namespace tensor = vm::tensor;

const test::Training& sample_training() {
    static const test::Training training = test::train(test::small_architecture(), 1);
    return training;
}

// --- Programs --------------------------------------------------------------------------------------------------------
// A few nodes of different kinds: quick to execute.
tensor::Program tiny_program() {
    program::Builder b({{tensor::DataType::u8, 40}});
    const auto weight = b.slot("model.w", tensor::DType::f32, program::matrix_shape(3, 5), {}, tensor::kSlotParameter);
    const auto loss = b.slot("loss", tensor::DType::f32, program::scalar_shape(), {});
    const auto rows = b.gather_rows(weight, b.window(b.constant_i32(1), 0, 7, 4));
    const auto product = b.matmul(rows, weight, false, true);
    const auto sum = b.sum_last(b.sum_rows(b.tanh(product)));
    b.update(weight, b.mul(weight, b.constant(0.5F)));
    b.update(loss, sum);
    b.set_loss_slot(loss);
    auto built = b.finish();
    QUERN_ACCEPTED(built);
    return std::move(built->program);
}

// Runs what is small: a validated program must run without reading or writing outside its tensors.
void execute(const tensor::Program& program) {
    std::uint64_t elements = 0;
    for (const auto& data : program.header.data) elements += std::min<std::uint64_t>(data.elements, 10'000);
    for (const auto& node : program.nodes) elements += node.shape.elements();
    for (const auto& slot : program.slots) elements += slot.shape.elements();
    if (elements > 5'000 || program.header.work_units > 1'000'000) return;
    std::vector<Bytes> sets;
    for (const auto& data : program.header.data) sets.push_back(Bytes(tensor::data_bytes(data), 2));
    const tensor::MemoryData data(std::move(sets));
    tensor::State state;
    for (const auto& slot : program.slots)
        state.push_back({slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements(), 0x3f000000)});
    QUERN_ACCEPTED(tensor::check_state(program, state));
    const tensor::Tensor seed = tensor::seed_tensor(Hash32{{1, 2, 3}});
    tensor::State scalar = state;
    tensor::Executor(program, tensor::arith::Backend::scalar, nullptr).step(scalar, data, seed);
    QUERN_ACCEPTED(tensor::check_state(program, scalar));
    tensor::State best = state;
    tensor::Executor(program, tensor::arith::best_backend(), nullptr).step(best, data, seed);
    QUERN_PROPERTY(best == scalar);
    const auto outputs = tensor::Executor(program, tensor::arith::Backend::scalar, nullptr).run_all(state, data, seed);
    for (std::size_t i = 0; i < program.slots.size(); ++i) QUERN_PROPERTY(outputs[program.updates[i]] == scalar[i]);
    std::size_t shown = 0;
    tensor::State tapped = state;
    tensor::Executor(program, tensor::arith::best_backend(), nullptr)
        .step_tapped(tapped, data, seed, [&](const tensor::TappedNode& node) {
            QUERN_PROPERTY(node.number == shown++);
            QUERN_PROPERTY(tensor::tensor_root(node.output, nullptr) == tensor::tensor_root(outputs[node.number]));
        });
    QUERN_PROPERTY(shown == program.nodes.size());
    QUERN_PROPERTY(tapped == scalar);
}

bool run_program(BytesView input) {
    const auto decoded = tensor::decode_program(input);
    if (!decoded) return false;
    QUERN_PROPERTY(equal(tensor::encode(*decoded), input));
    QUERN_ACCEPTED(tensor::validate(*decoded));
    QUERN_PROPERTY(tensor::work_units(*decoded) == decoded->header.work_units);
    QUERN_PROPERTY(tensor::sizes_of(*decoded) == decoded->header.sizes);
    QUERN_PROPERTY(tensor::program_leaves(*decoded).size() == tensor::program_leaf_count(decoded->header));
    execute(*decoded);
    return true;
}

std::vector<Seed> seeds_program() {
    return {{"tiny", tensor::encode(tiny_program())}, {"transformer", tensor::encode(sample_training().program())}};
}

// Header, slots, nodes and updates on their own, as openings bring them to the chain.
bool run_program_part(BytesView input) {
    bool taken = false;
    if (const auto header = tensor::decode_header(input)) {
        taken = true;
        QUERN_PROPERTY(equal(tensor::encode(*header), input));
        QUERN_ACCEPTED(tensor::check_header(*header));
    }
    if (const auto slot = tensor::decode_slot(input)) {
        taken = true;
        QUERN_PROPERTY(equal(tensor::encode(*slot), input));
        QUERN_ACCEPTED(tensor::check_slot(*slot));
    }
    if (const auto update = tensor::decode_update(input)) {
        taken = true;
        QUERN_PROPERTY(equal(tensor::encode_update(*update), input));
    }
    if (const auto node = tensor::decode_node(input)) {
        taken = true;
        QUERN_PROPERTY(equal(tensor::encode(*node), input));
        // The rules for operands are total whatever the operands are.
        std::vector<tensor::OperandType> operands(node->inputs.size(), {node->dtype, node->shape});
        const bool fits = tensor::check_operands(*node, operands).has_value();
        if (fits) {
            (void)tensor::node_work_units(*node, operands);
            QUERN_PROPERTY(tensor::micro_step_count(*node, operands) > 0);
        }
    }
    return taken;
}

std::vector<Seed> seeds_program_part() {
    const tensor::Program& program = sample_training().program();
    std::vector<Seed> seeds{{"header", tensor::encode(program.header)},
                            {"slot", tensor::encode(program.slots[0])},
                            {"update", tensor::encode_update(program.updates.back())}};
    std::vector<bool> seen(256);
    for (const auto& node : program.nodes) {
        const auto op = static_cast<std::uint8_t>(node.op);
        if (seen[op]) continue;
        seen[op] = true;
        seeds.push_back({"node_" + std::to_string(op), tensor::encode(node)});
    }
    return seeds;
}

// --- Files -----------------------------------------------------------------------------------------------------------
bool run_safetensors(BytesView input) {
    const auto file = program::read_safetensors(input);
    if (!file) return false;
    std::vector<program::TensorView> views;
    for (const auto& entry : file->tensors) {
        QUERN_PROPERTY(entry.tensor.words.size() == entry.tensor.shape.elements());
        views.push_back({entry.name, &entry.tensor, false});
    }
    const auto written = program::write_safetensors(views, file->metadata);
    QUERN_ACCEPTED(written);
    const auto again = program::read_safetensors(*written);
    QUERN_ACCEPTED(again);
    QUERN_PROPERTY(again->tensors == file->tensors && again->metadata == file->metadata);
    return true;
}

bool run_state_file(BytesView input) {
    static const tensor::Program program = tiny_program();
    const auto state = program::read_state(program, input);
    if (!state) return false;
    QUERN_ACCEPTED(tensor::check_state(program, *state));
    const auto written = program::write_state(program, *state);
    QUERN_ACCEPTED(written);
    const auto again = program::read_state(program, *written);
    QUERN_ACCEPTED(again);
    QUERN_PROPERTY(*again == *state);
    QUERN_ACCEPTED(program::export_model(program, *state));
    return true;
}

// One of these, or the tiles of a slot.
bool run_state_content(BytesView input) {
    static const tensor::Program program = tiny_program();
    const auto roots = compute::core::slot_roots(input);
    if (const auto slot = compute::core::tensor_of_tiles(program.slots[0], input)) {
        Bytes tiles(input.size());
        compute::core::copy_tiles(slot->shape, slot->words, 0, tiles);
        QUERN_PROPERTY(equal(tiles, input));
        return true;
    }
    if (!roots) return false;
    const auto parts = compute::core::decode_state(program, tensor::state_root(*roots), input);
    if (!parts) return false;
    QUERN_ACCEPTED(tensor::check_state(program, parts->slots));
    QUERN_PROPERTY(equal(compute::core::encode_state(program, parts->slots, parts->roots), input));
    return true;
}

// The description of five tokens.
bool run_text_dataset(BytesView input) {
    const Bytes tokens{0, 1, 2, 1, 0};
    const auto vocabulary = program::read_vocabulary(tokens, as_text(input));
    if (!vocabulary) return false;
    const std::string again = program::describe_text_dataset({tokens, *vocabulary});
    QUERN_PROPERTY(*program::read_vocabulary(tokens, again) == *vocabulary);
    return true;
}

// A description of byte pairs, and with what it says any bytes encoded: the input itself.
bool run_byte_pairs(BytesView input) {
    const auto pairs = program::read_byte_pairs(as_text(input));
    const program::BytePairs bytes;
    for (const program::BytePairs& vocabulary : {pairs ? *pairs : bytes, bytes}) {
        std::string text;
        for (const std::uint16_t token : vocabulary.encode(as_text(input))) text += vocabulary.piece(token);
        QUERN_PROPERTY(text == as_text(input));
    }
    const auto learnt = program::BytePairs::learn(as_text(input), 300);
    QUERN_ACCEPTED(learnt);
    QUERN_ACCEPTED(program::BytePairs::of(learnt->pairs()));
    if (!pairs) return false;
    QUERN_PROPERTY(program::read_byte_pairs(program::describe_byte_pairs(*pairs, 2))->pairs() == pairs->pairs());
    return true;
}

void check_array(const program::Array& array) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dim : array.shape) elements *= dim;
    QUERN_PROPERTY(elements == array.count() && elements > 0);
    QUERN_PROPERTY(array.elements.size() == elements * tensor::element_bytes(array.type));
}

// A .npy file, or a tensor "x" of a safetensors file.
bool run_array_file(BytesView input) {
    const auto npy = program::read_npy(input);
    if (npy) check_array(*npy);
    const auto tensor = program::read_safetensors_array(input, "x");
    if (tensor) check_array(*tensor);
    return npy || tensor;
}

// Targets in the column "y", also of texts that do not name it.
bool run_csv_file(BytesView input) {
    bool taken = false;
    for (const std::string header : {"", "x,y\n"}) {
        const std::string text = header + std::string(as_text(input));
        const auto table = program::read_csv(text, {"y"});
        if (!table) continue;
        taken = true;
        check_array(table->features);
        check_array(table->targets);
        QUERN_PROPERTY(table->features.shape[1] == table->columns.size());
        QUERN_PROPERTY(table->targets.examples() == table->features.examples());
        QUERN_PROPERTY(table->classes.size() <= table->targets.examples());
        if (table->targets.type == tensor::DataType::u8)
            for (const std::uint8_t of_class : table->targets.elements)
                QUERN_PROPERTY(of_class < table->classes.size());
        const auto described = json::parse(program::describe_array_dataset(program::dataset_of(*table)));
        QUERN_ACCEPTED(described);
        for (std::size_t i = 0; i < table->columns.size(); ++i)  // JSON keeps the names
            QUERN_PROPERTY((*described->find("columns"))[i] == json::Value(table->columns[i]));
    }
    return taken;
}

// A file that gives colours gives their gray, and its pixels stay within their range at another size.
bool check_image(BytesView input) {
    constexpr std::uint64_t kMaxPixels = 1 << 16;
    const auto image = program::decode_image(input, program::ImageColour::rgb, kMaxPixels);
    const auto gray = program::decode_image(input, program::ImageColour::gray, kMaxPixels);
    QUERN_PROPERTY(image.has_value() == gray.has_value());
    if (!image) {
        QUERN_PROPERTY(image.error().name == gray.error().name);
        return false;
    }
    const std::uint64_t pixels = std::uint64_t{image->size.width} * image->size.height;
    QUERN_PROPERTY(pixels > 0 && pixels <= kMaxPixels && gray->size == image->size);
    QUERN_PROPERTY(image->values.size() == pixels * 3 && gray->values.size() == pixels);
    QUERN_PROPERTY(program::fit_image(*image, image->size) == *image);
    for (const program::ImageSize size : {program::ImageSize{5, 3}, program::ImageSize{40, 41}}) {
        const program::Pixels fitted = program::fit_image(*gray, size);
        QUERN_PROPERTY(fitted.size == size && fitted.values.size() == std::size_t{size.width} * size.height);
        const auto [low, high] = std::minmax_element(gray->values.begin(), gray->values.end());
        for (const std::uint8_t value : fitted.values) QUERN_PROPERTY(value >= *low && value <= *high);
    }
    return true;
}

// A PNG also with its checksums made right, or no change would get past them.
bool run_image_file(BytesView input) {
    const bool taken = check_image(input);
    const auto repaired = test::with_right_checksums(input);
    return (!repaired.empty() && check_image(repaired)) || taken;
}

// What is read lies in the archive and is bounded.
bool run_zip_directory(BytesView input) {
    const auto records = program::read_zip_directory(input);
    if (!records) return false;
    std::uint64_t packed = 0;
    std::uint64_t stored = 0;
    for (const program::ZipRecord& each : *records) {
        QUERN_PROPERTY(!each.name.empty() && each.name.front() != '/' && each.name.size() <= program::kMaxZipName);
        QUERN_PROPERTY(each.name != ".." && !each.name.starts_with("../") &&
                       each.name.find("/../") == std::string::npos && !each.name.ends_with("/.."));
        (each.packed ? packed : stored) += each.size;
    }
    QUERN_PROPERTY(packed <= program::kMaxZipUnpacked && stored <= input.size());
    return true;
}

// What is read is written back with other words, and then read so.
void run_onnx_export(BytesView input, const program::Network& network) {
    std::vector<program::TrainedWords> trained;
    for (const auto& [name, tensor] : network.initializers)
        if (tensor.is_float) trained.push_back({name, *tensor.floats});
    const auto same = program::replace_initializers(input, trained);
    QUERN_ACCEPTED(same);
    const auto again = program::read_onnx(*same);
    QUERN_ACCEPTED(again);
    for (const program::TrainedWords& each : trained) {
        const auto found = again->initializers.find(std::string(each.name));
        QUERN_PROPERTY(found != again->initializers.end() && std::ranges::equal(*found->second.floats, each.words));
    }
}

// What is read is laid into a program, for a batch of two of the input that its dims say, and that one is valid.
bool run_onnx_file(BytesView input) {
    constexpr std::uint64_t kMaxInput = 4096;
    constexpr std::uint32_t kBatch = 2;
    const auto network = program::read_onnx(input);
    if (!network) return false;
    run_onnx_export(input, *network);
    std::uint64_t size = 1;
    for (std::size_t i = 1; i < network->input_dims.size(); ++i) {
        const std::uint64_t dim = std::max<std::uint64_t>(network->input_dims[i], 1);
        if (dim > kMaxInput / size) return true;
        size *= dim;
    }
    for (const bool training : {false, true}) {
        program::Builder b;
        b.set_loss_slot(b.slot("loss", tensor::DType::f32, program::scalar_shape(), program::Initializer::zeros()));
        const auto x = b.slot("x", tensor::DType::f32, program::matrix_shape(kBatch, static_cast<std::uint32_t>(size)),
                              program::Initializer::zeros());
        program::LayersSlots slots;
        const auto key = b.seed();
        const auto y = program::apply_network(b, *network, {}, {x, kBatch, {}}, {training, key}, slots).rows;
        if (b.failed()) continue;
        b.update(b.slot("y", tensor::DType::f32, b.shape(y), program::Initializer::zeros()), y);
        const auto built = b.finish();
        if (!built) continue;
        QUERN_ACCEPTED(tensor::validate(built->program));
        QUERN_PROPERTY(built->initializers.size() == built->program.slots.size());
    }
    return true;
}

tensor::State tiny_state(const tensor::Program& program) {
    tensor::State state;
    for (const auto& slot : program.slots)
        state.push_back({slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements(), 0x3f800000)});
    return state;
}

std::vector<Seed> seeds_state_file() {
    const tensor::Program program = tiny_program();
    const auto bytes = program::write_state(program, tiny_state(program));
    QUERN_ACCEPTED(bytes);
    return {{"state", *bytes}};
}

std::vector<Seed> seeds_state_content() {
    const tensor::Program program = tiny_program();
    const tensor::State state = tiny_state(program);
    Bytes tiles(compute::core::slot_bytes(state[0].shape));
    compute::core::copy_tiles(state[0].shape, state[0].words, 0, tiles);
    return {{"state", compute::core::encode_state(program, state, tensor::slot_roots(state))}, {"slot", tiles}};
}

std::vector<Seed> seeds_text_dataset() {
    const std::string text = program::describe_text_dataset({Bytes{0, 1, 2, 1, 0}, "abc"});
    return {{"text", Bytes(text.begin(), text.end())}};
}

std::vector<Seed> seeds_byte_pairs() {
    const std::string_view line = "the cat, the hat and the 12 bats; the cat, the hat\n";
    const auto pairs = program::BytePairs::learn(line, 280);
    QUERN_ACCEPTED(pairs);
    const std::string some = program::describe_byte_pairs(*pairs, 20);
    const std::string none = program::describe_byte_pairs({}, 2);
    return {{"pairs", Bytes(some.begin(), some.end())}, {"bytes", Bytes(none.begin(), none.end())}};
}

Bytes npy_of(std::uint8_t major, const std::string& type, std::size_t bytes) {
    const std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (2, 3), }\n";
    Bytes file{0x93, 'N', 'U', 'M', 'P', 'Y', major, 0, static_cast<std::uint8_t>(header.size()), 0};
    if (major > 1) file.insert(file.end(), 2, 0);
    append(file, as_bytes(header));
    for (std::size_t i = 0; i < 6 * bytes; ++i) file.push_back(static_cast<std::uint8_t>(i % bytes == 0 ? i : 0));
    return file;
}

std::vector<Seed> seeds_array_file() {
    const tensor::Tensor words{tensor::DType::f32, program::vector_shape(3), {0, 0x3f800000, 0x40000000}};
    const program::TensorView view{"x", &words, true};
    const auto file = program::write_safetensors(std::span(&view, 1), {});
    QUERN_ACCEPTED(file);
    const std::string halves = R"({"x":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]}})";
    Bytes of_halves{static_cast<std::uint8_t>(halves.size()), 0, 0, 0, 0, 0, 0, 0};
    append(of_halves, as_bytes(halves));
    append(of_halves, Bytes{0, 0x3c, 1, 0});
    return {{"npy_f4", npy_of(1, "<f4", 4)}, {"npy_i8", npy_of(2, "<i8", 8)}, {"npy_u1", npy_of(3, "|u1", 1)},
            {"npy_f8", npy_of(1, "<f8", 8)}, {"safetensors", *file},          {"safetensors_f16", of_halves}};
}

std::vector<Seed> seeds_csv_file() {
    const auto seed = [](std::string_view text) { return Bytes(text.begin(), text.end()); };
    return {{"classes", seed("\xef\xbb\xbfy,\"a, \"\"b\"\"\",z\r\ncat,1.5,-2e3\r\n\"d\nog\",0,4\r\n")},
            {"numbers", seed("x,y,z\n1,2,3\n4,5,6\n")},
            {"records", seed("0.5,1.25\n7,1e-3\n")}};
}

std::vector<Seed> seeds_image_file() {
    Bytes pixels(24 * 16 * 4);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 11 / 3);
    const BytesView all(pixels);
    const BytesView colours = all.first(pixels.size() / 4 * 3);
    Bytes chunks = test::png_head(3, 2, 8, SPNG_COLOR_TYPE_INDEXED);
    test::append_chunk(chunks, "PLTE", Bytes{1, 2, 3, 40, 50, 60});
    test::append_chunk(chunks, "tRNS", Bytes{0, 128});
    test::append_chunk(chunks, "tEXt", as_bytes(std::string_view("k\0v", 3)));
    test::append_chunk(chunks, "IDAT", test::zlib_stored(Bytes{0, 0, 1, 0, 0, 1, 1, 0}));
    test::append_chunk(chunks, "IEND", {});
    return {{"png_rgb", test::png_of(24, 16, colours)},
            {"png_interlaced_alpha",
             test::png_of(12, 8, all.first(12 * 8 * 4), {.colour = SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, .interlaced = 1})},
            {"png_gray_16", test::png_of(16, 16, all.first(512), {.colour = SPNG_COLOR_TYPE_GRAYSCALE, .depth = 16})},
            {"png_palette", chunks},
            {"jpeg_420", test::jpeg_of(24, 16, colours, TJSAMP_420)},
            {"jpeg_gray", test::jpeg_of(24, 16, all.first(24 * 16), TJSAMP_GRAY, TJPF_GRAY)},
            {"jpeg_progressive", test::jpeg_of(24, 16, colours, TJSAMP_422, TJPF_RGB, TJFLAG_PROGRESSIVE)}};
}

std::vector<Seed> seeds_onnx_file() {
    std::vector<Seed> seeds;
    for (const char* name : {"gru", "gru-eval", "zoo-eval"}) {
        const auto file = fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/" + name + ".onnx", 1U << 20);
        QUERN_ACCEPTED(file);
        seeds.push_back({name, *file});
    }
    return seeds;
}

std::vector<Seed> seeds_zip_directory() {
    const auto file = fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/../torchscript/small.pt", 1U << 20);
    QUERN_ACCEPTED(file);
    return {{"small", *file}};
}

std::vector<Seed> seeds_safetensors() {
    const tensor::Program program = tiny_program();
    const auto model = program::export_model(program, tiny_state(program));
    QUERN_ACCEPTED(model);
    const auto empty = program::write_safetensors({}, {});
    QUERN_ACCEPTED(empty);
    return {seeds_state_file()[0], seeds_text_dataset()[0], {"model", *model}, {"empty", *empty}};
}

}  // namespace

std::span<const Target> program_targets() {
    static constexpr Target kTargets[] = {
        {"array_file", run_array_file, seeds_array_file},
        {"byte_pairs", run_byte_pairs, seeds_byte_pairs},
        {"csv_file", run_csv_file, seeds_csv_file},
        {"program", run_program, seeds_program, 16384},
        {"program_part", run_program_part, seeds_program_part, 512},
        {"safetensors", run_safetensors, seeds_safetensors},
        {"image_file", run_image_file, seeds_image_file},
        {"onnx_file", run_onnx_file, seeds_onnx_file, 16384},
        {"state_content", run_state_content, seeds_state_content, 16384},
        {"state_file", run_state_file, seeds_state_file},
        {"text_dataset", run_text_dataset, seeds_text_dataset},
        {"zip_directory", run_zip_directory, seeds_zip_directory, 16384},
    };
    return kTargets;
}

}  // namespace quern::fuzz
