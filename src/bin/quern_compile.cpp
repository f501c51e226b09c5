// quern-compile: architecture JSON and text in, step programs, initial states and data sets out; exports, samples and
// checks what training gives. Each subcommand prints one JSON object on standard output; sample the text, run how it
// goes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/fs.h"
#include "base/json.h"
#include "base/machine_memory.h"
#include "base/thread_pool.h"
#include "bin/inspect.h"
#include "bin/judged_files.h"
#include "bin/out_of_memory.h"
#include "bin/program_file.h"
#include "bin/step_commands.h"
#include "bin/terminal.h"
#include "compute/core/plan_json.h"
#include "compute/program/arch_json.h"
#include "compute/program/array_dataset.h"
#include "compute/program/description.h"
#include "compute/program/evaluate.h"
#include "compute/program/held_out.h"
#include "compute/program/image_dataset.h"
#include "compute/program/initial_state.h"
#include "compute/program/model_file.h"
#include "compute/program/onnx_file.h"
#include "compute/program/sampler.h"
#include "compute/program/start_program.h"
#include "compute/program/state_file.h"
#include "compute/program/text_dataset.h"
#include "crypto/content_id.h"
#include "quern_version.h"
#include "vm/tensor/data.h"

namespace {

using namespace quern;
using namespace quern::compute::program;
namespace tensor = quern::vm::tensor;
namespace core = quern::compute::core;

constexpr std::size_t kMaxFileBytes = std::size_t{8} << 30;  // a state or data set
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

struct Options {
    std::string arch;
    std::string model;
    FitChoices fit;
    std::string program;
    std::string state;
    std::string onnx;
    std::string from;
    std::string data;
    std::string out;
    std::string update;
    std::string evaluate;
    std::string start;
    std::vector<std::string> held_out;  // as `sets`
    JudgedOptions judged;
    std::string file;
    std::vector<std::string> texts;
    std::vector<std::string> sets;  // data tensors, in order
    std::string vocabulary;         // of byte pairs
    std::uint32_t vocabulary_size = 0;
    std::vector<std::string> arrays;   // .npy files: inputs, then targets
    std::vector<std::string> tensors;  // names in a safetensors file: the same
    std::string table;
    std::vector<std::string> targets;  // columns of the table
    std::string folder;                // of images
    std::string labels;
    std::string size;
    bool gray = false;
    bool skip_others = false;
    std::uint64_t per_class = 0;
    std::uint32_t context = 64;
    std::uint64_t seed = 1;
    bool bare = false;
    bool predictions = false;
    InspectOptions inspected;
    RunOptions run;
    VerifyOptions verified;
    SampleOptions sample;
};

std::string hex(const Hash32& hash) { return to_hex0x(hash); }

void print(const json::Value& value) { std::printf("%s\n", value.dump_pretty().c_str()); }

Expected<json::Value> make_start_program(const Options& options, const BuiltProgram& training) {
    std::vector<std::string> kept;
    if (!options.program.empty()) {
        QUERN_TRY(const Program earlier, read_program(options.program));
        kept = common_parameters(earlier, training.program);
        if (kept.empty()) return fail("compile.nothing_taken", options.program + " has no parameter of this model");
    }
    QUERN_TRY(const BuiltProgram built, build_start_program(training, kept));
    return write_program(built.program, options.start);
}

// The last would be written over the others.
Status check_outputs(const Options& options) {
    std::vector<std::filesystem::path> seen;
    for (const std::string& path :
         {options.out, options.update, options.evaluate, options.judged.judge, options.start}) {
        if (path.empty()) continue;
        std::error_code problem;
        std::filesystem::path whole = std::filesystem::weakly_canonical(path, problem);
        if (problem) whole = path;
        if (std::find(seen.begin(), seen.end(), whole) != seen.end())
            return fail("compile.same_file", path + " is to hold two programs");
        seen.push_back(std::move(whole));
    }
    return {};
}

Status make_program(const Options& options) {
    QUERN_CHECK(check_outputs(options));
    QUERN_TRY(const Architecture architecture, read_architecture(options.arch));
    QUERN_TRY(const TrainingPrograms built, build_training_programs(architecture));
    if (options.judged.k != 0) {
        QUERN_TRY(const json::Value judged, make_judged_programs(options.judged, built, options.out));
        print(judged);
        return {};
    }
    const bool two = built.training_count() == 2;
    if (two == options.update.empty())
        return fail("compile.update_file",
                    two ? "the architecture accumulates: --update names the second program's file"
                        : "the architecture does not accumulate: there is no second program");
    if (built.evaluation.empty() != options.evaluate.empty())
        return fail("compile.evaluate_file",
                    built.evaluation.empty()
                        ? "the architecture has no held_out: there is nothing to evaluate on"
                        : "the architecture has held_out: --evaluate names the file of the program that evaluates");
    QUERN_TRY(json::Value result, write_program(built.programs[0].program, options.out));
    if (two) {
        QUERN_TRY(json::Value update, write_program(built.programs[1].program, options.update));
        result.set("update", std::move(update));
    }
    if (!built.evaluation.empty()) {
        QUERN_TRY(json::Value evaluation, write_program(built.programs.back().program, options.evaluate));
        evaluation.set("number", built.programs.size() - 1);
        evaluation.set("examples", std::uint64_t{held_out_count(architecture)});
        evaluation.set("body", core::json_of(built.evaluation));
        result.set("evaluation", std::move(evaluation));
    }
    if (!options.start.empty()) {
        QUERN_TRY(json::Value start, make_start_program(options, built.programs.front()));
        start.set("number", built.programs.size());
        result.set("start", std::move(start));
    }
    result.set("turn", core::json_of(built.round()));
    print(result);
    return {};
}

Status make_initial_state(const Options& options) {
    QUERN_TRY(const Architecture architecture, read_architecture(options.arch));
    QUERN_TRY(const TrainingPrograms programs, build_training_programs(architecture));
    const BuiltProgram& built = programs.programs.front();
    QUERN_CHECK(check_memory(state_and_file_bytes(built.program)));
    tensor::State state = initial_state(built, options.seed);
    if (options.bare)
        for (tensor::Tensor& slot : state) std::fill(slot.words.begin(), slot.words.end(), 0U);
    json::Value taken = json::Value::array();
    if (!options.from.empty()) {
        QUERN_TRY(const Program earlier, read_program(options.program));
        QUERN_TRY(const tensor::State from, read_state_of(earlier, options.from));
        for (std::string& name : take_parameters(earlier, from, built.program, state)) taken.push(std::move(name));
        if (taken.size() == 0) return fail("compile.nothing_taken", options.from + " has no parameter of this model");
    }
    Program program = built.program;
    if (options.judged.on) QUERN_CHECK(make_judged_state(options.judged, programs, program, state));
    QUERN_TRY(const Bytes file, write_first_state(program, state));
    QUERN_CHECK(fs::write_file_atomic(options.out, file));
    json::Value result = json::Value::object();
    result.set("init_root", hex(tensor::state_root(state)));
    result.set("program_root", hex(tensor::program_root(program)));
    result.set("seed", options.seed);
    result.set("bytes", file.size());
    if (!options.from.empty()) result.set("taken", std::move(taken));
    print(result);
    return {};
}

std::string description_of(const std::string& data) { return data + ".json"; }

struct Text {
    Bytes tokens;
    TextVocabulary vocabulary;

    [[nodiscard]] std::uint64_t elements() const { return tokens.size() / tensor::element_bytes(vocabulary.type()); }
    [[nodiscard]] std::string dtype() const { return std::string(tensor::name_of(vocabulary.type())); }
    [[nodiscard]] std::string description() const {
        return vocabulary.pairs() ? describe_byte_pairs(*vocabulary.pairs(), elements())
                                  : describe_text_dataset({tokens, vocabulary.characters()});
    }
};

// With the vocabulary that its description names.
Expected<Text> read_dataset(const std::string& path) {
    Text dataset;
    QUERN_TRY(dataset.tokens, fs::read_file(path, kMaxFileBytes));
    if (!fs::exists(description_of(path)))
        return fail("compile.no_vocabulary", description_of(path) + " is missing: `dataset` writes it beside " + path +
                                                 "; a network in a file is named by --model");
    QUERN_TRY(const std::string description, fs::read_text_file(description_of(path), kMaxDescriptionBytes));
    auto vocabulary = read_text_vocabulary(dataset.tokens, description);
    if (!vocabulary) return detailed(vocabulary.error(), path + ": " + vocabulary.error().detail);
    dataset.vocabulary = std::move(*vocabulary);
    return dataset;
}

// The vocabulary that the options name or that is to be learnt of byte pairs; none: that of the text's characters.
Expected<TextVocabulary> choose_vocabulary(const Options& options, std::string_view text) {
    if (!options.data.empty()) {
        QUERN_TRY(Text known, read_dataset(options.data));
        return std::move(known.vocabulary);
    }
    if (!options.vocabulary.empty()) {
        QUERN_TRY(const std::string description, fs::read_text_file(options.vocabulary, kMaxDescriptionBytes));
        auto pairs = read_byte_pairs(description);
        if (!pairs) return detailed(pairs.error(), options.vocabulary + ": " + pairs.error().detail);
        return TextVocabulary(std::move(*pairs));
    }
    if (options.vocabulary_size == 0) return TextVocabulary();
    QUERN_TRY(BytePairs pairs, BytePairs::learn(text, options.vocabulary_size));
    return TextVocabulary(std::move(pairs));
}

Expected<Text> make_text(const Options& options) {
    std::string text;
    for (const std::string& path : options.texts) {
        QUERN_TRY(std::string more, fs::read_text_file(path, kMaxTextBytes - text.size()));
        if (text.empty())
            text = std::move(more);
        else
            text += more;
    }
    QUERN_TRY(TextVocabulary vocabulary, choose_vocabulary(options, text));
    if (vocabulary.pairs()) {
        QUERN_TRY(Bytes tokens, byte_pair_tokens(*vocabulary.pairs(), text));
        return Text{std::move(tokens), std::move(vocabulary)};
    }
    const std::string_view view = text;
    QUERN_TRY(TextDataset dataset, build_text_dataset(std::span(&view, 1), vocabulary.characters()));
    return Text{std::move(dataset.tokens), TextVocabulary(std::move(dataset.vocabulary))};
}

// What stands beside the images, with the roots that a task names.
Status make_image_dataset(const Options& options) {
    QUERN_TRY(const ImageSize size, parse_image_size(options.size));
    QUERN_TRY(const ImageDataset dataset, write_image_dataset({options.folder, options.out, options.labels, size,
                                                               options.gray ? ImageColour::gray : ImageColour::rgb,
                                                               options.skip_others, options.per_class}));
    QUERN_TRY(json::Value result, json::parse(describe_image_dataset(dataset)));
    json::Value roots = json::Value::array();
    roots.push(hex(dataset.images_root));
    roots.push(hex(dataset.labels_root));
    result.set("data_roots", std::move(roots));
    result.set("skipped", dataset.skipped);
    print(result);
    return {};
}

Expected<ArrayDataset> read_arrays(const Options& options) {
    if (!options.table.empty()) {
        QUERN_TRY(const std::string text, fs::read_text_file(options.table, kMaxTextBytes));
        auto table = read_csv(text, options.targets);
        if (!table) return detailed(table.error(), options.table + ": " + table.error().detail);
        return dataset_of(std::move(*table));
    }
    const auto read = [&](std::size_t number) -> Expected<Array> {
        const std::string& path = options.arrays.empty() ? options.file : options.arrays[number];
        QUERN_TRY(const Bytes file, fs::read_file(path, kMaxFileBytes));
        auto array = options.arrays.empty() ? read_safetensors_array(file, options.tensors[number]) : read_npy(file);
        if (!array) return detailed(array.error(), path + ": " + array.error().detail);
        return array;
    };
    QUERN_TRY(Array inputs, read(0));
    if (std::max(options.arrays.size(), options.tensors.size()) < 2) return pair_arrays(std::move(inputs), {});
    QUERN_TRY(Array targets, read(1));
    return pair_arrays(std::move(inputs), std::move(targets));
}

// What stands beside the inputs, with the roots that a task names.
Status make_array_dataset(const Options& options) {
    QUERN_TRY(const ArrayDataset dataset, read_arrays(options));
    if (dataset.targets.has_value() == options.labels.empty())
        return fail("compile.labels_file",
                    dataset.targets ? "--labels names the file of the targets" : "there are no targets for --labels");
    QUERN_TRY(const std::vector<Hash32> roots, write_array_dataset(dataset, options.out, options.labels));
    QUERN_TRY(json::Value result, json::parse(describe_array_dataset(dataset)));
    json::Value list = json::Value::array();
    for (const Hash32& root : roots) list.push(hex(root));
    result.set("data_roots", std::move(list));
    print(result);
    return {};
}

Status make_dataset(const Options& options) {
    if (!options.folder.empty()) return make_image_dataset(options);
    if (!options.arrays.empty() || !options.file.empty() || !options.table.empty()) return make_array_dataset(options);
    if (options.texts.empty())
        return fail("compile.no_data", "name text files, or another source by --images, --npy, --safetensors or --csv");
    if (!options.labels.empty()) return fail("compile.labels_file", "text has no targets for --labels");
    QUERN_TRY(const Text dataset, make_text(options));
    QUERN_CHECK(fs::write_file_atomic(options.out, dataset.tokens));
    QUERN_CHECK(fs::write_file_atomic(description_of(options.out), as_bytes(dataset.description())));
    json::Value result = json::Value::object();
    result.set("data_root", hex(crypto::content_id_of(dataset.tokens)));
    result.set("vocab", dataset.vocabulary.size());
    result.set("dtype", dataset.dtype());
    result.set("elements", dataset.elements());
    print(result);
    return {};
}

// Of a network in a file, which lies beside the architecture file or below it.
Status fit_to_network(const Options& options) {
    QUERN_TRY(const Network network, read_network(options.model, options.sets, options.fit));
    const std::filesystem::path folder = std::filesystem::absolute(options.out).parent_path();
    const std::string file = std::filesystem::absolute(options.model).lexically_relative(folder).string();
    if (file.empty() || file.starts_with(".."))
        return fail("arch.outside", options.model + " is not beside " + options.out);
    QUERN_TRY(const std::string text, fit_architecture(network, file, options.sets, options.fit, options.held_out));
    QUERN_CHECK(fs::write_file_atomic(options.out, as_bytes(text)));
    QUERN_TRY(const json::Value fitted, json::parse(text));
    print(fitted);
    return {};
}

// Of other text with the same vocabulary: its line of the architecture file.
Expected<std::string> held_out_text(const Options& options, const Text& dataset) {
    if (options.held_out.empty()) return std::string();
    if (options.held_out.size() != 1)
        return fail("compile.wrong_data", "a transformer has one file of held-out tokens");
    QUERN_TRY(const Text other, read_dataset(options.held_out[0]));
    const auto pairs_of = [](const Text& text) {
        return text.vocabulary.pairs() ? text.vocabulary.pairs()->pairs() : std::vector<BytePairs::Pair>();
    };
    const bool same =
        pairs_of(other) == pairs_of(dataset) && other.vocabulary.characters() == dataset.vocabulary.characters();
    if (!same)
        return fail("compile.wrong_data", options.held_out[0] + " has another vocabulary: `dataset --vocabulary-of " +
                                              options.sets[0] + "` encodes it as that");
    return "  \"held_out\": {\"data\": {\"dtype\": \"" + other.dtype() +
           "\", \"elements\": " + std::to_string(other.elements()) +
           "}, \"every\": " + std::to_string(options.fit.evaluate_every) + "},\n";
}

// A small transformer that fits a data set, as a file to be changed by hand.
Status make_architecture(const Options& options) {
    if (!options.model.empty()) return fit_to_network(options);
    if (options.sets.size() != 1) return fail("compile.wrong_data", "a transformer has one file of tokens");
    QUERN_TRY(const Text dataset, read_dataset(options.sets[0]));
    QUERN_TRY(const std::string held_out, held_out_text(options, dataset));
    const std::string text =
        "{\n  \"format\": \"quern-arch-1\",\n"
        "  \"model\": {\"type\": \"char_transformer\", \"layers\": 2, \"d_model\": 64, \"heads\": 4, \"context\": " +
        std::to_string(options.context) +
        ", \"mlp_ratio\": 4, \"vocab\": " + std::to_string(dataset.vocabulary.size()) +
        "},\n  \"data\": {\"dtype\": \"" + dataset.dtype() + "\", \"elements\": " + std::to_string(dataset.elements()) +
        "},\n" + held_out +
        "  \"batch\": 16,\n"
        "  \"optimizer\": {\"type\": \"adamw\", \"lr\": 0.01, \"betas\": [0.9, 0.99], \"eps\": 1e-8,\n"
        "                \"weight_decay\": 0.1, \"warmup\": 20, \"total_steps\": 600, \"grad_clip\": 1.0}\n}\n";
    QUERN_CHECK(parse_architecture(text));
    QUERN_CHECK(fs::write_file_atomic(options.out, as_bytes(text)));
    json::Value result = json::Value::object();
    result.set("architecture", options.out);
    result.set("vocab", dataset.vocabulary.size());
    result.set("elements", dataset.elements());
    result.set("context", options.context);
    print(result);
    return {};
}

Status inspect(const Options& options) { return inspect_program(options.inspected); }

Status validate_file(const Options& options) {
    QUERN_TRY(const Bytes bytes, fs::read_file(options.file, kMaxFileBytes));
    QUERN_TRY(const Safetensors content, read_safetensors(bytes));
    json::Value tensors = json::Value::array();
    for (const NamedTensor& entry : content.tensors) {
        json::Value item = json::Value::object();
        item.set("name", entry.name);
        item.set("dtype", entry.tensor.dtype == tensor::DType::f32 ? "F32" : "I32");
        item.set("dims", dims_of(entry.tensor.shape));
        item.set("root", hex(tensor::tensor_root(entry.tensor)));
        tensors.push(std::move(item));
    }
    json::Value metadata = json::Value::object();
    for (const auto& [key, text] : content.metadata) metadata.set(key, text);
    json::Value result = json::Value::object();
    result.set("valid", true);
    result.set("metadata", std::move(metadata));
    result.set("tensors", std::move(tensors));
    print(result);
    return {};
}

Status export_trained(const Options& options) {
    QUERN_TRY(const Program program, read_program(options.program));
    QUERN_TRY(const tensor::State state, read_state_of(program, options.state));
    Bytes model;
    if (options.onnx.empty()) {
        QUERN_TRY(model, export_model(program, state));
    } else {
        QUERN_TRY(const Bytes given, fs::read_file(options.onnx, kMaxOnnxBytes));
        auto copy = export_onnx(program, state, given);
        if (!copy) return detailed(copy.error(), options.onnx + ": " + copy.error().detail);
        model = std::move(*copy);
    }
    QUERN_CHECK(fs::write_file_atomic(options.out, model));
    json::Value result = json::Value::object();
    result.set("state_root", hex(tensor::state_root(state)));
    result.set("parameters", parameter_count(program));
    result.set("bytes", model.size());
    if (const auto metrics = read_metrics(program, state)) result.set("evaluation", describe(*metrics));
    print(result);
    return {};
}

Status sample(const Options& options) {
    QUERN_TRY(const Architecture architecture, read_architecture(options.arch));
    if (!architecture.is_transformer())
        return fail("compile.no_transformer", options.arch + " describes no transformer");
    QUERN_TRY(const Program program, read_program(options.program));
    QUERN_TRY(const tensor::State state, read_state_of(program, options.state));
    QUERN_TRY(const Text dataset, read_dataset(options.data));
    SampleOptions how = options.sample;
    how.seed = options.seed;
    ThreadPool pool(1);
    QUERN_TRY(const std::string text,
              sample_text(architecture.transformer(), program, state, dataset.vocabulary, how, &pool));
    std::fwrite(text.data(), 1, text.size(), stdout);  // may hold any byte
    std::putchar('\n');
    return {};
}

// On data of its own, with the model that the architecture describes.
Status evaluate_trained(const Options& options) {
    QUERN_TRY(Architecture architecture, read_architecture(options.arch));
    QUERN_TRY(const Program program, read_program(options.program));
    QUERN_TRY(const tensor::State state, read_state_of(program, options.state));
    std::vector<Bytes> sets;
    for (std::size_t i = 0; i < options.sets.size(); ++i) {
        QUERN_TRY(Bytes set, fs::read_file(options.sets[i], kMaxFileBytes));
        if (i < architecture.data.size()) {
            const std::uint64_t width = tensor::element_bytes(architecture.data[i].type);
            if (set.size() % width != 0) return fail("compile.wrong_data", options.sets[i] + ": a part of an element");
            architecture.data[i].elements = set.size() / width;
        }
        sets.push_back(std::move(set));
    }
    if (sets.size() != architecture.data.size())
        return fail("compile.wrong_data", std::to_string(sets.size()) + " files, the architecture has " +
                                              std::to_string(architecture.data.size()) + " data tensors");
    QUERN_CHECK(check_architecture(architecture));
    ThreadPool pool(std::max(1U, std::thread::hardware_concurrency()));
    QUERN_TRY(const Evaluation found,
              evaluate(architecture, program, state, tensor::MemoryData(std::move(sets)), &pool));
    json::Value result = json::Value::object();
    result.set("examples", found.examples);
    result.set("loss", found.loss);
    if (found.accuracy) result.set("accuracy", *found.accuracy);
    if (options.predictions) {
        json::Value predicted = json::Value::array();
        for (const std::uint32_t each : found.predicted) predicted.push(each);
        result.set("predicted", std::move(predicted));
    }
    print(result);
    return {};
}

Status verify(const Options& options) { return verify_steps(options.verified); }
Status run(const Options& options) { return run_program(options.run); }

using Action = Status (*)(const Options&);

void exclude_each_other(const std::vector<CLI::Option*>& options) {
    for (std::size_t i = 0; i < options.size(); ++i)
        for (std::size_t j = i + 1; j < options.size(); ++j) options[i]->excludes(options[j]);
}

void declare_dataset(CLI::App* sub, Options& o) {
    sub->add_option("--out", o.out, "file of tokens, pixels or other inputs to write; beside it OUT.json describes it")
        ->required();
    CLI::Option* vocabulary =
        sub->add_option("--vocabulary-of", o.data, "file of tokens whose vocabulary a trained model knows");
    CLI::Option* texts = sub->add_option("FILE", o.texts, "text files, joined in this order");
    CLI::Option* size = sub->add_option("--vocab-size", o.vocabulary_size,
                                        "learn so many tokens at most: the 256 bytes, and pairs of earlier tokens")
                            ->check(CLI::Range(kByteTokens + 1, kMaxByteTokens));
    CLI::Option* known =
        sub->add_option("--vocab", o.vocabulary, "OUT.json of a data set of byte pairs: its vocabulary");
    size->excludes(known)->excludes(vocabulary);
    known->excludes(vocabulary);
    CLI::Option* images = sub->add_option("--images", o.folder, "folder with a folder of PNG and JPEG files per class");
    const auto of_images = [&](CLI::Option* option) { option->needs(images); };
    images->needs(sub->add_option("--size", o.size, "of each image, WIDTHxHEIGHT: cropped to its middle and resized"));
    images->needs(sub->add_option("--labels", o.labels, "file of class numbers or other targets to write"));
    of_images(sub->get_option("--size"));
    of_images(sub->add_flag("--gray", o.gray, "one channel, not three"));
    of_images(sub->add_flag("--skip-others", o.skip_others, "leave out files that are no images, do not refuse them"));
    of_images(sub->add_option("--limit", o.per_class, "so many images of each class at most, the first by name")
                  ->check(CLI::PositiveNumber));
    CLI::Option* npy = sub->add_option("--npy", o.arrays, "one or two .npy files of NumPy: inputs, then targets");
    npy->expected(1, 2);
    CLI::Option* safetensors = sub->add_option("--safetensors", o.file, "safetensors file with the inputs");
    CLI::Option* tensor =
        sub->add_option("--tensor", o.tensors, "name in it of the inputs; a second one: of the targets");
    tensor->expected(1, 2)->needs(safetensors);
    safetensors->needs(tensor);
    CLI::Option* csv =
        sub->add_option("--csv", o.table, "table (RFC 4180) with a header; what is no target is an input");
    CLI::Option* targets = sub->add_option("--targets", o.targets, "its columns of targets: COLUMN[,COLUMN...]");
    targets->delimiter(',')->needs(csv);
    csv->needs(targets);
    exclude_each_other({images, npy, safetensors, csv, texts});
    for (CLI::Option* of_text : {vocabulary, size, known})
        for (CLI::Option* other : {images, npy, safetensors, csv}) of_text->excludes(other);
}

// Declares the subcommands; the chosen one's function is stored in `action`.
void declare(CLI::App& app, Options& o, Action& action) {
    const auto command = [&](const char* name, const char* description, Action run) {
        CLI::App* sub = app.add_subcommand(name, description);
        sub->callback([&action, run] { action = run; });
        return sub;
    };
    const auto required = [](CLI::App* sub, const char* name, std::string& target, const char* description) {
        sub->add_option(name, target, description)->required();
    };
    CLI::App* sub = command("program", "Build the step programs of an architecture", make_program);
    required(sub, "--arch", o.arch, "architecture JSON (doc/program-compiler.md)");
    required(sub, "--out", o.out, "program file to write; of an architecture that accumulates the first, 0 in plans");
    sub->add_option("--update", o.update, "file of the second, 1 in plans, of an architecture that accumulates");
    sub->add_option("--evaluate", o.evaluate,
                    "file of the program that evaluates, behind those in plans, of an architecture with held_out");
    CLI::Option* start =
        sub->add_option("--start", o.start, "file of a program that makes the first state, behind the others in plans");
    sub->add_option("--program", o.program, "program file of an earlier training, whose parameters --start keeps")
        ->needs(start);
    declare_judged_programs(*sub, o.judged)->excludes(start)->excludes("--update")->excludes("--evaluate");
    sub = command("init", "Make the initial state of an architecture from a seed", make_initial_state);
    required(sub, "--arch", o.arch, "architecture JSON");
    required(sub, "--out", o.out, "state file (safetensors) to write");
    sub->add_option("--seed", o.seed, "64-bit seed of the initialisation")->capture_default_str();
    CLI::Option* from =
        sub->add_option("--from", o.from, "state of an earlier training: its parameters are taken over");
    sub->add_option("--program", o.program, "program file of that training")->needs(from);
    sub->add_flag("--bare", o.bare, "zeros but for what --from gives: for a plan that begins with a start program");
    from->needs("--program");
    declare_judged_state(*sub, o.judged)->excludes("--bare");
    declare_dataset(
        command("dataset", "Make a data set of text, of a folder of images, of arrays or of a table", make_dataset), o);

    sub = command("arch", "Write the architecture of a small transformer, or of a network in a file, that fits data",
                  make_architecture);
    sub->add_option("--data", o.sets,
                    "file of tokens; of a network inputs, then targets: files of `dataset`, or others")
        ->required()
        ->expected(1, 2)
        ->take_all();
    CLI::Option* context =
        sub->add_option("--context", o.context, "context length of a transformer")->capture_default_str();
    CLI::Option* network = sub->add_option(
        "--model", o.model, "ONNX file or TorchScript archive (*.pt) of a network, beside OUT or below it");
    network->excludes(context);
    const auto of_network = [&](CLI::Option* option) { option->needs(network)->capture_default_str(); };
    of_network(sub->add_option("--loss", o.fit.loss,
                               "cross_entropy, mse, binary_cross_entropy or next_token (default: by "
                               "what the network gives)"));
    of_network(sub->add_option("--batch", o.fit.batch, "examples in a step"));
    of_network(sub->add_option("--lr", o.fit.learning_rate, "learning rate of AdamW"));
    of_network(sub->add_option("--steps", o.fit.total_steps, "steps after which the rate has fallen; 0: it does not"));
    of_network(sub->add_option("--recompute", o.fit.recompute,
                               "parts of the network of which only the ends are kept for the backward pass, which "
                               "takes less memory and more work; 0: all is kept"));
    of_network(sub->add_option("--precision", o.fit.precision, "of linear layers: f32 or int8 (default: f32)"));
    of_network(sub->add_option("--in-f32", o.fit.in_f32,
                               "nodes whose linear layers are of f32 all the same, or the beginnings of their names up "
                               "to a . or /")
                   ->take_all());
    of_network(sub->add_option("--example", o.fit.example,
                               "of TorchScript: dims of an example, 3x32x32, or 64 of tokens (default: by what "
                               "`dataset` wrote beside the data)"));
    CLI::Option* held_out =
        sub->add_option("--held-out", o.held_out, "files as of --data that the training evaluates itself on");
    held_out->expected(1, 2)->take_all();
    sub->add_option("--evaluate-every", o.fit.evaluate_every, "updates between evaluations; 0: one, at the end")
        ->needs(held_out)
        ->capture_default_str();
    required(sub, "--out", o.out, "architecture JSON to write; change it as you like");

    sub = command("inspect", "Describe a program file", inspect);
    declare_inspect(sub, o.inspected);

    sub = command("validate", "Check a safetensors file and list its tensors", validate_file);
    required(sub, "FILE", o.file, "safetensors file");

    sub = command("export", "Export the parameters of a state as a model", export_trained);
    required(sub, "--program", o.program, "program file");
    required(sub, "--state", o.state, "state file (safetensors)");
    required(sub, "--out", o.out, "model file to write: safetensors, with --onnx ONNX");
    sub->add_option(
        "--onnx", o.onnx,
        "the file that the network came in: OUT is a copy of it, with the state's words in its initializers");

    sub = command("sample", "Sample text from a trained model", sample);
    required(sub, "--program", o.program, "program file that trained the state");
    required(sub, "--state", o.state, "state file (safetensors)");
    required(sub, "--data", o.data, "file of tokens, for the vocabulary beside it");
    required(sub, "--arch", o.arch, "architecture JSON of the program");
    sub->add_option("--length", o.sample.length, "tokens to sample: characters, or of byte pairs pieces of words")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 20));
    sub->add_option("--seed", o.seed, "seed of the draws")->capture_default_str();
    sub->add_option("--temperature", o.sample.temperature, "below 1: likelier tokens")->capture_default_str();
    sub->add_option("--prompt", o.sample.prompt, "text to continue");

    sub = command("evaluate", "Loss and accuracy of a trained model on data", evaluate_trained);
    required(sub, "--program", o.program, "program file that trained the state");
    required(sub, "--state", o.state, "state file (safetensors)");
    required(sub, "--arch", o.arch,
             "architecture JSON of the program; how many elements there are follows from the files");
    sub->add_option("--data", o.sets,
                    "inputs, then targets, or of a model of the next token its tokens: files of elements")
        ->required()
        ->expected(1, 2)
        ->take_all();
    sub->add_flag("--predictions", o.predictions,
                  "of classes and tokens, also the number that each target was taken for");

    sub = command("run", "Do steps of a program on this machine, and keep the state", run);
    declare_run(sub, o.run);

    sub = command("verify", "Do steps over again, and compare the result with a root or a state", verify);
    declare_verify(sub, o.verified);
    app.require_subcommand(1);
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Builds step programs, initial states and data sets; exports and samples trained models.",
                 "quern-compile");
    Options options;
    Action action = nullptr;
    declare(app, options, action);
    app.set_version_flag("--version", std::string("quern-compile ") + QUERN_VERSION);
    if (const auto code = quern::parse_command_line(app, "quern-compile", argc, argv)) return *code;
    return quern::with_memory_named("quern-compile", [&] {
        const quern::Status status = action(options);
        return status ? 0 : quern::complain("quern-compile", status.error());
    });
}
